"""The metric of a script: what it prints, writes or reports, and which of these numbers count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import autoaccel
import autoaccel.report.wording  # the package beside the function
from autoaccel.records.messages import Failure
from autoaccel.records.script_metric import PrintedMetric, ReportedMetric
from autoaccel.runtime.script.listening import Lines, WatchedFile, find_number
from autoaccel.runtime.script.metric import OwnMetric


@pytest.mark.parametrize(
    ("pieces", "heard"),
    [
        (["val_acc: 0.91\n"], [0.91]),
        (["epoch 1", " val_acc", "=0.5", "\n"], [0.5]),  # print() writes its end apart
        (["val_acc: 0.5, best val_acc: 0.7\n"], [0.5]),
        (["\rval_acc: 0.1", "\rval_acc: 0.2", "\n"], [0.1, 0.2]),  # a progress bar
        (["val_acc: 0.5\nval_acc: 0.5\n"], [0.5, 0.5]),
        (["It ends with val_acc: 0.5.\n"], [0.5]),
        (["val_acc: .\n", "acc 3\n"], []),
        (["x" * 20_000, " val_acc: 3"], [3.0]),
    ],
)
def test_numbers_are_heard_in_lines_however_these_are_printed(pieces: list[str], heard: list[float]) -> None:
    found: list[float] = []
    lines = Lines(re.compile(r"val_acc[:=]\s*([0-9.]+)"), found.append)
    for piece in pieces:
        lines.add(piece)
    assert found == heard


@pytest.mark.parametrize(
    ("text", "key", "number"),
    [
        ('{"acc": 0.5}', "acc", 0.5),
        ('{"eval": {"acc": [0.1, 0.2]}}', "eval.acc", 0.2),
        ('{"eval.acc": 3}', "eval.acc", 3.0),
        ('[{"acc": 1}, {"acc": 2}]', "acc", 2.0),
        ('{"acc": 1}\n{"acc": 2}\n\n', "acc", 2.0),
        ('{"loss": 1}', "acc", None),
        ('{"acc": "high"}', "acc", None),
    ],
)
def test_a_number_is_found_under_its_key(text: str, key: str, number: float | None) -> None:
    assert find_number(text, key) == number


def test_a_file_counts_once_it_has_changed_and_is_whole(tmp_path: Path) -> None:
    path, found = tmp_path / "metrics.json", list[float]()
    path.write_text('{"acc": 0.1}')
    watched = WatchedFile(path, "acc", found.append)
    for text in (None, '{"acc": ', '{"acc": 0.25}', None):
        if text is not None:
            path.write_text(text)
        watched.look()
    assert found == [0.25]


def said(metric: OwnMetric, at: dict[int, list[float]], steps: int) -> None:
    for step in range(steps + 1):
        for value in at.get(step, []):
            metric.add(value)
        if step < steps:
            metric.step_ends()


def test_the_first_number_after_the_steps_counts_with_those_before_it() -> None:
    metric = OwnMetric(ReportedMetric("acc"))
    said(metric, {80: [0.1], 95: [0.2], 105: [0.3, 0.4]}, 105)
    assert metric.since(100, 50, has_ended=False) is None  # more may be said before the next step
    metric.step_ends()
    assert metric.since(100, 50, has_ended=False) == (pytest.approx(0.3), 0.4, 2)
    assert metric.since(100, 50, has_ended=True) == (pytest.approx(0.3), 0.4, 2)


def test_of_a_script_that_has_ended_its_last_number_counts() -> None:
    metric = OwnMetric(ReportedMetric("acc"))
    said(metric, {50: [0.1], 60: [0.2]}, 100)
    assert metric.since(100, 50, has_ended=False) is None
    assert metric.since(100, 50, has_ended=True) == (0.2, 0.2, 1)


def test_a_script_that_says_nothing_is_not_waited_for_for_ever() -> None:
    metric = OwnMetric(PrintedMetric("acc ([0-9.]+)"))
    said(metric, {}, 151)
    found = metric.since(100, 50, has_ended=False)
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message == (
        "its metric was not found within 151 steps: a line of its output that matches acc ([0-9.]+)"
    )
    assert metric.since(100, 60, has_ended=False) is None
    assert isinstance(metric.since(100, 60, has_ended=True), Failure)


def test_a_report_is_heard_by_its_name_and_by_nobody_outside_a_tune() -> None:
    autoaccel.report("accuracy", 0.5)
    metric = OwnMetric(ReportedMetric("accuracy"))
    assert metric.since(0, 0, has_ended=True) != (0.5, 0.5, 1)
    autoaccel.report("loss", 3.0)
    autoaccel.report("accuracy", 1)
    assert metric.since(0, 0, has_ended=True) == (1.0, 1.0, 1)
    assert autoaccel.report.wording is not None  # still the package
