"""What an earlier part of a run measured is not measured again, as long as the same is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from autoaccel.api import continued, make_request
from autoaccel.bench.bench import FreshPair
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.errors import BadRequestError
from autoaccel.proof.earlier import Earlier
from autoaccel.records.contender import ContenderResult
from autoaccel.records.messages import Turn
from autoaccel.records.options import TuneOptions
from autoaccel.records.proof import ProofPair, TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import BuildFunction, Script
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.same_training import check_same_training
from autoaccel.search.instruments import Reading
from autoaccel.statistics.turn_plan import plan_turns
from tests.bench.test_apart import Computer, run_on

CAST: Settings = {"precision.autocast": "bfloat16"}
WORKERS: Settings = {"loader.workers": 2}


def pair(settings: Settings, seed: int, steps: int | None = None, speedup: float = 2.0) -> ProofPair:
    baseline, other = (Measurement(1.0, (0.1,), (Turn((seconds,) * 4),) * 8) for seconds in (0.1, 0.1 / speedup))
    return ProofPair(settings, seed, baseline, other, TrainedPair((0.9, 0.89)) if steps else None, steps)


def resumed(earlier: list[ProofPair]) -> tuple[FreshPairs, Callable[[], list[tuple[Settings, int, int | None]]]]:
    """Return what measures pairs after these, and what tells which it has measured anew."""
    run = run_on(Computer(0))
    pairs = FreshPairs(run, {}, TurnTaker(plan_turns(0.1), 20, [0.1]), earlier=earlier)
    return pairs, lambda: [(one.settings, one.seed, one.steps) for one in run.folder.kept]


def test_earlier_pairs_answer_the_same_questions_in_their_order() -> None:
    pairs, anew = resumed([pair(CAST, 0), pair(WORKERS, 0), pair(CAST, 1, speedup=3.0), pair(CAST, 0, steps=200)])
    first, second, third = (pairs.compare(CAST, FreshPair(*asked)) for asked in ((0, None), (1, None), (0, 200)))
    assert isinstance(first, Reading) and isinstance(second, Reading) and isinstance(third, Reading)
    assert first.trusted and first.pairs == [(0.1, 0.05)] * 8
    assert second.pairs[0][1] == pytest.approx(0.1 / 3)
    assert third.trained == TrainedPair((0.9, 0.89))
    assert anew() == []
    pairs.compare(CAST, FreshPair(1, 200))
    pairs.compare(WORKERS, FreshPair(0))
    assert anew() == [(CAST, 1, 200)]


def test_what_was_asked_otherwise_then_is_measured_anew() -> None:
    """Trainings of other lengths say nothing of these, and what came after them answered to them."""
    pairs, anew = resumed([pair(CAST, 0), pair(CAST, 0, steps=200), pair(CAST, 1, steps=200)])
    for seed, steps in ((0, None), (0, 300), (0, 200)):
        pairs.compare(CAST, FreshPair(seed, steps))
    assert anew() == [(CAST, 0, 300), (CAST, 0, 200)]


def test_what_is_open_comes_back_with_its_place_among_the_contenders() -> None:
    refuted = ContenderResult({"threads.intra_op": 1}, 1, "not faster")
    open_proof, failed = ContenderResult(CAST, 2, "incomplete"), ContenderResult(WORKERS, 3, "fails")
    earlier = Earlier([refuted, open_proof, failed], [pair(refuted.settings, 0), pair(CAST, 0), pair(WORKERS, 0)])
    assert earlier.open == [CAST]
    assert earlier.refuted == [refuted.settings]
    assert list(earlier.numbers.values()) == [1, 2]
    # It was proven after all: nothing is open any more.
    assert Earlier([*earlier.results, ContenderResult(CAST, 2, "proven")], earlier.pairs).open == []


def test_a_proof_that_was_interrupted_is_open() -> None:
    earlier = Earlier([ContenderResult(CAST, 1, "metric drops")], [pair(CAST, 0), pair(WORKERS, 0)])
    assert earlier.open == [WORKERS]
    assert Earlier([], []).open == []


def test_what_updates_have_refused_is_open_to_runs() -> None:
    refused, cut = ContenderResult(CAST, 1, "more than rounding"), ContenderResult(CAST, 1, "incomplete")
    for results in ([refused], [refused, cut]):
        earlier = Earlier(results, [pair(WORKERS, 0), pair(CAST, 0), pair(CAST, 1)])
        assert earlier.open == [CAST]
        assert earlier.differed_by_updates(CAST) and not earlier.differed_by_updates(WORKERS)
    assert not Earlier([cut], []).differed_by_updates(CAST)
    assert [one.seed for one in earlier.pairs_of(CAST)] == [0, 1]


def test_each_part_that_has_trained_counts_also_one_that_was_interrupted() -> None:
    unclear, trained = ContenderResult(CAST, 1, "metric unclear"), [pair(CAST, 0), pair(CAST, 0, steps=200)]
    assert Earlier([], trained).parts_with_runs(CAST) == 1
    assert Earlier([unclear], trained).parts_with_runs(CAST) == 1
    assert Earlier([unclear, ContenderResult(WORKERS, 2, "fails"), unclear], trained).parts_with_runs(CAST) == 2
    assert Earlier([unclear], [pair(CAST, 0)]).parts_with_runs(CAST) == 0
    assert Earlier([unclear], trained).parts_with_runs(WORKERS) == 0


def begun_folder(began: Request) -> RunFolder:
    folder = SimpleNamespace(path="run", spent_seconds=100.0, load_request=lambda: began, load_record=lambda: None)
    return cast("RunFolder", folder)


def test_a_budget_that_was_spent_before_is_refused_with_one_that_would_do() -> None:
    workload, constraint = BuildFunction("/m.py", "build", ""), Constraint(0.01, False)
    began = Request(workload, 60.0, constraint, TuneOptions(budget="1m"))
    folder = cast(
        "RunFolder",
        SimpleNamespace(path="run", spent_seconds=100.0, load_request=lambda: began, load_record=lambda: None),
    )
    for budget in ("1m", None):
        again = Request(workload, 60.0, constraint, TuneOptions(budget=budget, resume=True))
        with pytest.raises(BadRequestError, match=r"such as --budget \+5m"):
            continued(again, folder)
    more = Request(workload, 60.0, constraint, TuneOptions(budget="+1m", seed=7, resume=True))
    assert continued(more, folder) == Request(workload, 160.0, constraint, TuneOptions(budget="160s"))


def test_a_resumed_run_has_what_is_left_of_its_budget() -> None:
    workload, constraint = BuildFunction("/m.py", "build", ""), Constraint(0.01, False)
    began = Request(workload, 3600.0, constraint, TuneOptions(budget="1h", seed=7))
    folder = cast(
        "RunFolder",
        SimpleNamespace(path="run", spent_seconds=100.0, load_request=lambda: began, load_record=lambda: None),
    )
    again = make_request(workload, TuneOptions(resume=True))
    assert continued(again, folder) == Request(workload, 3600.0, constraint, TuneOptions(budget="3600s", seed=7))


SCRIPT = Script("/w/train.py", "train.py", "/w", "0" * 64, ("--lr", "0.1"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "1" * 64}, "/w/train.py: has changed since the run began"),
        ({"arguments": ("--lr", "0.2")}, "other arguments after --. Leave them out"),
        ({"folder": "/v"}, "the run began in /w. Resume it there"),
        ({"stdin": "/w/in.txt"}, "/w/train.py, not --stdin /w/in.txt /w/train.py. Resume that"),
    ],
)
def test_a_run_is_resumed_with_the_training_that_it_began_with(changes: dict[str, Any], message: str) -> None:
    check_same_training(SCRIPT, msgspec.structs.replace(SCRIPT, program="./train.py"))
    with pytest.raises(BadRequestError, match=re.escape(message)) as refused:
        check_same_training(SCRIPT, msgspec.structs.replace(SCRIPT, **changes))
    assert "0.1" not in str(refused.value) and "0.2" not in str(refused.value)  # arguments may be secret


def test_a_run_of_another_kind_of_training_is_not_resumed() -> None:
    built = BuildFunction("/w/train.py", "build", "0" * 64, SCRIPT.arguments)
    for began, present in ((SCRIPT, built), (built, SCRIPT), (built, msgspec.structs.replace(built, entry="make"))):
        with pytest.raises(BadRequestError, match=r"train.py: the run began with another training: /w/train.py"):
            check_same_training(began, present)
    check_same_training(built, built)
