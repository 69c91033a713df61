"""Problems that were planted are named first or second."""

from __future__ import annotations

import time
from typing import ClassVar

import psutil
import pytest

from autoaccel.advise.rules import RULES
from benchmarks.studies.planted import measure as planted
from benchmarks.studies.planted.measure import FIRST, FOLDER, PLANTED, Trainer, gain_of_pair, is_kept, look_at
from tests.cases import rest_is_long


def test_each_planted_problem_has_a_file_and_a_rule() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == PLANTED.keys()
    assert set(PLANTED.values()) <= RULES.keys()
    assert len(PLANTED) >= 10


@pytest.mark.long
@pytest.mark.end_to_end
@pytest.mark.parametrize("name", ["sleeping_dataset", pytest.param("double_precision", marks=pytest.mark.long)])
def test_a_planted_problem_is_named(name: str) -> None:
    row = look_at(name, PLANTED[name])
    assert row["place"] is not None and row["place"] <= FIRST
    assert row["bound_speedup"] > 1.2


class FakeTrainer:
    """Takes three seconds for an epoch with the problem and one without, whoever slows both down."""

    order: ClassVar[list[str]] = []

    def __init__(self, name: str, entry: str) -> None:
        self.entry = entry

    def turn(self, seconds: float, with_evaluation: bool) -> float:
        slower = 1.0 + len(self.order) // 2
        self.order.append(self.entry)
        return slower * (3.0 if self.entry == "build" else 1.0)

    def close(self) -> None:
        self.order.append(f"{self.entry} closed")


def test_a_repair_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "Trainer", FakeTrainer)
    gain = gain_of_pair("tiny_operators", ("build", "fixed"), turn_seconds=0.5, with_evaluation=False)
    assert gain == 3.0
    assert FakeTrainer.order[:4] == ["build", "fixed", "fixed", "build"]
    assert FakeTrainer.order[2 * planted.TURNS :] == ["fixed closed", "build closed"]


@pytest.mark.parametrize("entry", rest_is_long(["build", "fixed"]))
def test_a_process_stands_still_between_its_turns(entry: str) -> None:
    trainer = Trainer("tiny_operators", entry)
    try:
        for with_evaluation in (False, True):
            assert trainer.turn(0.05, with_evaluation) > 0
            until = time.monotonic() + 10
            process = psutil.Process(trainer.process.pid)
            while process.status() != psutil.STATUS_STOPPED:
                assert time.monotonic() < until
                time.sleep(0.01)
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
