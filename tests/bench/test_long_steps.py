"""A training whose steps take 0.4 s, in real processes: each step is counted, and none is made for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoaccel.bench.bench import FreshPair
from autoaccel.bench.live_bench import LiveBench
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.records.base import decode
from autoaccel.records.progress import ignore
from autoaccel.records.proof import ProofPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.runs.workloads import find_workload
from autoaccel.runtime.warmup import has_settled
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.turn_plan import TURNS, pair_turns, plan_turns
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter

STEP = 0.4

CODE = """
import time


def step(model, batch):
    with open({path!r}, "a") as file:
        print(os.getpid(), file=file)
    time.sleep({seconds})
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


plain = build


def build():
    many = TensorDataset(INPUTS.repeat(100, 1), TARGETS.repeat(100))  # no epoch ends while this is measured
    return plain(loss=None, step=step, train_data=many, device="cpu")  # on a GPU a turn has a step that does not count
"""


class Counted:
    """A run, and which process made how many steps."""

    def __init__(self, run: TuningRun, facts: TrainingFacts, baseline: Settings, path: Path) -> None:
        self.run = run
        self.facts = facts
        self.baseline = baseline
        self.other: Settings = {**baseline, "optimizer.fused": True}
        self._path = path

    def forget(self) -> None:
        self._path.write_text("")

    def steps(self) -> list[int]:
        """Return how many steps each process has made, the fewest first."""
        return sorted(Counter(self._path.read_text().split()).values())


@pytest.fixture
def counted(write_model: Callable[..., Path], tmp_path: Path) -> Iterator[Counted]:
    path = tmp_path / "steps"
    model = write_model(CODE.format(path=str(path), seconds=STEP))
    workload = find_workload(str(model))
    (tmp_path / "run").mkdir()
    with WorkerStarter(tmp_path / "run", workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, 60.0))
        starter = starter.at(context)
        request = Request(workload, 600.0, Constraint(0.01, False))
        run = TuningRun(request, RunFolder(tmp_path / "run"), starter, BudgetClock(600.0), ignore)
        assert context.training is not None
        path.write_text("")
        yield Counted(run, context.training, baseline_settings(context), path)


def made(measurement: Measurement) -> int:
    """Return how many steps the measurement knows of."""
    return len(measurement.warmup_step_seconds) + sum(len(turn.step_seconds) for turn in measurement.turns)


def assert_single(measurement: Measurement) -> None:
    assert {len(turn.step_seconds) for turn in measurement.turns} == {1}


@pytest.mark.end_to_end
def test_a_turn_is_one_step_and_the_warm_up_ends_with_the_first_two_that_agree(counted: Counted) -> None:
    measuring = counted.run.starter.start_measuring(counted.baseline, "first", 60.0)
    assert isinstance(measuring, Measuring), measuring
    for _ in range(2):
        measuring.take_turn(plan_turns(STEP).order, 60.0)
    found = measuring.measurement
    measuring.close()
    assert_single(found)
    assert counted.steps() == [made(found)]  # none went uncounted
    warmup = found.warmup_step_seconds
    looks = [has_settled(warmup[:number]) for number in range(2, len(warmup) + 1)]
    assert looks == [False] * (len(looks) - 1) + [True]


@pytest.mark.long
@pytest.mark.end_to_end
def test_a_warm_up_is_not_paid_twice(counted: Counted) -> None:
    ready = []
    for name in ("first", "again"):
        measuring = counted.run.starter.start_measuring(counted.baseline, name, 60.0)
        assert isinstance(measuring, Measuring), measuring
        ready.append(measuring._ready)
        measuring.close()
    first, again = ready
    assert first.surplus_steps >= 1
    assert len(again.warmup_step_seconds) == len(first.warmup_step_seconds) - first.surplus_steps
    assert counted.steps() == sorted(len(one.warmup_step_seconds) for one in ready)


@pytest.mark.long
@pytest.mark.end_to_end
def test_a_trial_and_a_pair_make_no_more_steps_than_they_are_worth(counted: Counted) -> None:
    run = counted.run
    baseline = LiveBench(run, counted.facts, counted.baseline)
    assert len(baseline.measurement.turns) == 2
    assert baseline.ready_again_seconds <= baseline.ready_seconds - STEP
    assert counted.steps() == [made(baseline.measurement)]
    reading = baseline.compare(counted.other, QuickLook("trial", lambda pairs: len(pairs) >= 2, 60.0))
    assert isinstance(reading, Reading), reading
    assert_single(reading.measurement)
    assert len(reading.reference_turns) == len(reading.measurement.turns)
    assert sum(counted.steps()) == made(baseline.measurement) + len(reading.reference_turns) + made(reading.measurement)
    baseline.rest()

    counted.forget()
    taker = TurnTaker(baseline.plan, counted.facts.steps_per_epoch, [baseline.usual_seconds])
    pairs = FreshPairs(run, counted.baseline, taker)
    assert isinstance(pairs.compare(counted.other, FreshPair(0)), Reading)
    pair = decode((run.folder.path / "proof.jsonl").read_bytes(), ProofPair)
    assert counted.steps() == sorted([made(pair.baseline), made(pair.recipe)])
    for side, earlier in ((pair.baseline, baseline.measurement), (pair.recipe, reading.measurement)):
        assert_single(side)
        assert len(side.warmup_step_seconds) < len(earlier.warmup_step_seconds)
        assert len(side.turns) >= 2
    # A pair of long steps looks at more of them than its ratio needs, to meet rare ones that are longer.
    start_seconds = 2 * baseline.ready_again_seconds
    most = max(TURNS, pair_turns(baseline.plan, start_seconds, baseline.plan.usual_deviation))
    assert len(pair.baseline.turns) <= most or pairs.disturbed_share > 0
