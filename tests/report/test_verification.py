"""`autoaccel verify` in the process of the test: what it asks for, prints and exits with. Nothing is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoaccel.cli import main
from autoaccel.records.base import write_json
from autoaccel.records.trial import ClaimVerdict, Verification
from autoaccel.session import replaying

from . import samples

Verify = Callable[..., int]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Return a function that runs the command where measuring ends with a verdict, and keeps what it was asked for."""
    model, recipe = tmp_path / "model.py", tmp_path / "recipe.json"
    model.write_text("def build(): ...\n")
    write_json(recipe, samples.RECIPE)

    def run(verdict: ClaimVerdict, *options: str, asked: dict[str, Any] | None = None) -> int:
        def measured(
            recipe: object, where: Path, workload: object, rounds: int, budget: float, *_: object
        ) -> Verification:
            (asked if asked is not None else {}).update(rounds=rounds, budget=budget)
            return Verification(samples.PROOF, samples.PROOF, verdict)

        monkeypatch.setattr(replaying, "verify_recipe", measured)
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
    assert verify("inconclusive", "--budget", "1h30m", "--rounds", "3", asked=asked) == 1
    assert asked == {"rounds": 3, "budget": 5400.0}
    assert "Measure longer with --budget" in capsys.readouterr().out
    assert verify("holds", "--budget", "soon") == 2
    assert verify("holds", "--rounds", "2") == 2
    assert "a duration must be" in (told := capsys.readouterr().err) and "--rounds must be at least 3" in told
