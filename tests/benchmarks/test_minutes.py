"""`--minutes`: a benchmark ends in time, what is finished is kept, and the same command resumes."""

from __future__ import annotations

import argparse
import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import minutes, rows
from benchmarks.harness.minutes import TimeIsUp, above_zero, at_least, ending_in_time
from benchmarks.page.claims import false_wins as table_of_false_wins
from benchmarks.studies import false_wins, independence
from benchmarks.studies.false_wins import Compared
from benchmarks.studies.independence import Block, Reading
from benchmarks.studies.unseen import tunes


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, and what is kept until there is one, lie in a repository of their own."""
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")


def test_what_goes_on_when_the_minutes_are_over_is_left_as_if_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(minutes, "LEAVING_SECONDS", 0.0)
    before, done = signal.getsignal(signal.SIGALRM), []
    with ending_in_time(0.005) as seconds_left:
        assert seconds_left() <= 0.3
        try:
            time.sleep(600)
            done.append("slept")
        finally:
            done.append("cleaned up")
    assert done == ["cleaned up"]
    assert "the same command resumes" in capsys.readouterr().out
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


def test_what_ends_before_is_told_nothing_and_interrupted_by_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ending_in_time(10) as seconds_left:
        assert 0 < seconds_left() <= 600
    with ending_in_time(None) as seconds_left:
        assert seconds_left() == math.inf
    with pytest.raises(ValueError, match="of the benchmark"), ending_in_time(10):
        raise ValueError("of the benchmark")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("text", ["0", "-3", "nan", "inf", "soon", ""])
def test_minutes_are_a_number_above_zero(text: str) -> None:
    assert above_zero("2.5") == 2.5
    with pytest.raises(argparse.ArgumentTypeError, match="a number above zero, got"):
        above_zero(text)


@pytest.mark.parametrize("text", ["1", "-2", "2.5", "many", ""])
def test_a_count_is_a_whole_number_that_is_large_enough(text: str) -> None:
    assert at_least(2)("2") == 2
    with pytest.raises(argparse.ArgumentTypeError, match="at least 2, got"):
        at_least(2)(text)


def test_a_tune_is_told_that_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have gone on beside whatever was measured next."""
    (tmp_path / "autoaccel").mkdir()
    (tmp_path / "autoaccel" / "__init__.py").touch()
    (tmp_path / "autoaccel" / "__main__.py").write_text(TUNER)
    monkeypatch.setattr(tunes, "ROOT", tmp_path)

    def stop(*words: str, **_: object) -> None:
        if words[0].startswith("ready"):
            raise TimeIsUp

    monkeypatch.setattr(tunes, "print", stop, raising=False)
    with pytest.raises(TimeIsUp):
        tunes.tune(tmp_path / "model.py", tmp_path / "run", None, inside=tmp_path)
    assert (tmp_path / "ended").read_text() == "politely"


TUNER = """
import pathlib, signal, sys, time

def end(number, frame):
    pathlib.Path("ended").write_text("politely")
    sys.exit(130)

signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(600)
"""


def test_live_comparisons_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def compared(name: str, start: int, end: int) -> Iterator[Compared]:
        for number in range(start, end):
            if not start and number == 2:
                raise TimeIsUp
            made.append(number)
            yield Compared("not faster" if number else "proven", (1.0, 0.9, 1.1), 3, 20.0)

    monkeypatch.setattr(false_wins, "compared", compared)
    with pytest.raises(TimeIsUp):
        false_wins.live("digits_cnn", 4)
    found = false_wins.live("digits_cnn", 4)
    assert made == [0, 1, 2, 3]
    assert found["outcomes"] == {"not faster": 3, "proven": 1} and found["false_win_share"] == 0.25
    assert (found["mean_pairs"], found["seconds"]) == (3, 80)


def test_live_comparisons_are_counted_together() -> None:
    one: dict[str, Any] = {"comparisons": 25, "false_win_share": 0.0, "outcomes": {"not faster": 25}}
    other = {"comparisons": 25, "false_win_share": 0.04, "outcomes": {"not faster": 24, "proven": 1}}
    lines = table_of_false_wins({"live: a": one, "live: b": other, "replayed": one})
    assert lines[-1].startswith("| 50 live, together | 2.00% | ")
    assert "49 not faster, 1 proven" in lines[-1]
    assert len(table_of_false_wins({"live: a": one, "replayed": one})) == 2 + 2


def test_blocks_of_pairs_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def measured(target: str, wish: str, numbers: range, pairs: int) -> Iterator[Block]:
        for number in numbers:
            if numbers.start == 0 and number == 1:
                raise TimeIsUp
            made.append(number)
            yield Block(wish, 1.0 + number, (Reading(0.5, 0.4, 4.0, 1.5), Reading(0.6, 0.6, 4.0, 1.5)))

    monkeypatch.setattr(independence, "measured", measured)
    with pytest.raises(TimeIsUp):
        independence.measure("examples/digits_cnn.py", "a=b", 3, 2)
    found = independence.measure("examples/digits_cnn.py", "a=b", 3, 2)
    assert made == [0, 1, 2]
    assert found["blocks"] == [[[0.5, 0.4], [0.6, 0.6]]] * 3
    assert (found["candidate"], found["step_seconds"]) == ("a=b", 2.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["live", "mnist"], "there is no example mnist here"),
        (["replayed", "--minutes", "5"], "type no name and no --minutes"),
        (["live", "--comparisons", "0"], "at least 1, got '0'"),
    ],
)
def test_comparisons_that_cannot_be_made_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        false_wins.read_arguments(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_files_that_are_not_there_and_blocks_that_say_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in ((["nothing.py"], "there is no such file"), (["--blocks", "1"], "at least 2, got '1'")):
        with pytest.raises(SystemExit) as ended:
            independence.read_arguments(arguments)
        assert ended.value.code == 2 and said in capsys.readouterr().err
