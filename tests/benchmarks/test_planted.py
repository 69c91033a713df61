"""Problems that were planted are named first or second."""

from __future__ import annotations

import time

import psutil
import pytest
from planted import FIRST, FOLDER, PLANTED, Trainer, gain_of_pair, is_kept, look_at

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


def test_a_repair_is_measured_in_turns() -> None:
    assert gain_of_pair("tiny_operators", ("build", "fixed"), turn_seconds=0.05, with_evaluation=True) > 1.5


def test_a_process_stands_still_between_its_turns() -> None:
    trainer = Trainer("tiny_operators", "build")
    try:
        assert trainer.turn(0.05, with_evaluation=False) > 0
        process = psutil.Process(trainer.process.pid)
        spent = process.cpu_times()
        time.sleep(0.3)
        assert process.cpu_times() == spent
    finally:
        trainer.close()
    assert trainer.process.poll() is not None


def test_advice_that_promised_too_little_or_came_too_late_is_not_kept() -> None:
    kept = {"place": 1, "claims_half": True, "gain": 2.0, "within_bound": True, "half_of_bound": True}
    assert is_kept(kept)
    assert not is_kept({**kept, "place": 3})
    assert not is_kept({**kept, "within_bound": False})
    assert not is_kept({**kept, "half_of_bound": False})
    assert is_kept({**kept, "half_of_bound": False, "claims_half": False})
