"""`autoaccel verify` in the process of the test: what it asks for, prints and exits with. Nothing is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.cli import main
from autoaccel.commands import checking, verifying
from autoaccel.records.base import write_json
from autoaccel.records.check import CHECK_SCHEMA, AccuracyCheck, ClaimVerdict, Verification

from . import samples

Verify = Callable[..., int]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Return a function that runs the command where measuring ends with a verdict, and keeps what it was asked for."""
    model, recipe = tmp_path / "model.py", tmp_path / "recipe.json"
    model.write_text("def build(): ...\n")
    write_json(recipe, samples.RECIPE)

    def run(verdict: ClaimVerdict, *options: str, asked: dict[str, Any] | None = None) -> int:
        def measured(use: object, min_pairs: int, budget: float, *_: object) -> Verification:
            (asked if asked is not None else {}).update(min_pairs=min_pairs, budget=budget)
            return Verification(samples.PROOF, samples.PROOF, verdict)

        monkeypatch.setattr(verifying, "verify_recipe", measured)
        return main(["verify", str(recipe), str(model), *options])

    return run


@pytest.mark.parametrize(("verdict", "code"), [("holds", 0), ("does not hold", 1), ("inconclusive", 1)])
def test_only_a_claim_that_holds_ends_with_0(
    verify: Verify, capsys: pytest.CaptureFixture[str], verdict: ClaimVerdict, code: int
) -> None:
    """A recipe of settings that do nothing was verified three times, and each time the exit code was 0."""
    assert verify(verdict, "--json") == code
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict


def test_the_budget_is_what_was_asked_for(verify: Verify, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {}
    assert verify("inconclusive", "--budget", "1h30m", "--pairs", "3", asked=asked) == 1
    assert asked == {"min_pairs": 3, "budget": 5400.0}
    assert "Measure longer with --budget" in capsys.readouterr().out
    assert verify("holds", "--budget", "soon") == 2
    assert verify("holds", "--pairs", "2") == 2
    assert "a duration must be" in (told := capsys.readouterr().err) and "--pairs must be at least 3" in told


def checked(verdict: ClaimVerdict, **changes: Any) -> AccuracyCheck:
    accuracy = msgspec.structs.replace(samples.ACCURACY, share=1.0, evidence="whole")
    check = AccuracyCheck(CHECK_SCHEMA, verdict, samples.RECIPE.constraint, accuracy, 36.0, 20)
    return msgspec.structs.replace(check, **changes)


@pytest.mark.parametrize(
    ("check", "code", "words"),
    [
        (checked("holds"), 0, "The recipe keeps the metric on whole planned runs."),
        (checked("does not hold"), 1, "does not keep the metric"),
        (checked("does not hold", message="after 60 steps accuracy is nan"), 1, "after 60 steps accuracy is nan"),
        (checked("inconclusive"), 1, "to show that the drop is below 0.005 takes about 20 pairs of runs (12 min 00 s)"),
        (checked("inconclusive", accuracy=None), 1, "at least three are needed"),
    ],
)
def test_a_check_of_the_metric_is_told_and_ends_with_its_verdict(
    verify: Verify,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    check: AccuracyCheck,
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr(checking, "check_accuracy", lambda *_: check)
    assert verify("holds", "--accuracy") == code
    said = " ".join(capsys.readouterr().out.split())
    assert words in said and "recipe.accuracy.json" in said
    assert verify("holds", "--accuracy", "--json") == code
    assert json.loads(capsys.readouterr().out)["verdict"] == check.verdict


def test_a_check_can_be_submitted(verify: Verify, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("holds", "--accuracy", "--with", "slurm", "--dry-run", "--budget", "3h") == 0
    script = capsys.readouterr().out
    assert "#SBATCH --time=190" in script
    assert "verify --accuracy --budget 3h" in script


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--with", "slurm"), "--with slurm requires --accuracy"),
        (("--accuracy", "--dry-run"), "--dry-run requires --accuracy --with slurm"),
        (("--accuracy", "--pairs", "4"), "--pairs cannot be combined with --accuracy"),
        (("--accuracy", "--with", "slurm", "--json"), "--json cannot be combined with --with slurm"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    verify: Verify, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], complaint: str
) -> None:
    assert verify("holds", *options) == 2
    assert complaint in capsys.readouterr().err
