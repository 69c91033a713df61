"""Problems that were planted are named first or second."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from planted import FIRST, FOLDER, PLANTED, is_kept, look_at

from autoaccel.advise.rules import RULES


def test_each_planted_problem_has_a_file_and_a_rule() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == PLANTED.keys()
    assert set(PLANTED.values()) <= RULES.keys()
    assert len(PLANTED) >= 10


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", ["sleeping_dataset", "double_precision"])
def test_a_planted_problem_is_named(name: str) -> None:
    row = look_at(name, PLANTED[name])
    assert row["place"] is not None and row["place"] <= FIRST
    assert row["bound_speedup"] > 1.2


@pytest.mark.parametrize("entry", ["build", "fixed"])
def test_an_epoch_is_timed_with_the_problem_and_without(entry: str) -> None:
    script = Path(FOLDER).with_suffix(".py")
    command = [sys.executable, str(script), "--epoch", entry, "--seconds", "0.2", "tiny_operators"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    steps, evaluation = json.loads(done.stdout.splitlines()[-1])
    assert steps > 0 and evaluation > 0


def test_advice_that_promised_too_little_or_came_too_late_is_not_kept() -> None:
    kept = {"place": 1, "claims_half": True, "gain": 2.0, "within_bound": True, "half_of_bound": True}
    assert is_kept(kept)
    assert not is_kept({**kept, "place": 3})
    assert not is_kept({**kept, "within_bound": False})
    assert not is_kept({**kept, "half_of_bound": False})
    assert is_kept({**kept, "half_of_bound": False, "claims_half": False})
