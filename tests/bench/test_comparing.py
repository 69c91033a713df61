"""One act compares settings: by a quick look beside the user's own, or by a fresh pair, against these or a recipe."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.bench.bench import FreshPair, Reference
from autoaccel.bench.live_bench import LiveBench
from autoaccel.errors import WorkloadFailedError
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.instruments import Reading
from tests.bench.test_apart import LOOK, STEP, Computer, run_on
from tests.bench.test_own_failures import Unlucky, run_with
from tests.bench.test_resuming import CAST, pair

OWN: Settings = {"fast": False}
FAST: Settings = {"fast": True}
RECIPE = Reference(FAST, STEP / 2)


def on_cpu(facts: TrainingFacts) -> TrainingFacts:
    return msgspec.structs.replace(facts, device="cpu")


def test_a_fresh_pair_has_what_the_living_baseline_needs_and_a_quick_look_starts_it_again(facts: TrainingFacts) -> None:
    computer = Computer(0)
    bench = LiveBench(run_on(computer), on_cpu(facts), OWN)
    for how in (LOOK, FreshPair(0), LOOK):
        reading = bench.compare(FAST, how)
        assert isinstance(reading, Reading) and set(reading.pairs) == {(STEP, STEP / 2)}
        assert reading.measurement.turns[0].step_seconds[0] == STEP / 2
        assert reading.reference_turns[0].step_seconds[0] == STEP
    assert computer.max_alive == 2
    names = ["baseline", "trial", "proof-01-baseline", "proof-01-recipe", "trial", "baseline"]
    assert computer.started == names


def test_what_is_compared_with_a_recipe_is_no_pair_of_a_proof(facts: TrainingFacts) -> None:
    computer = Computer(0)
    bench = LiveBench(run_on(computer), on_cpu(facts), OWN)
    for seed in (0, 1):
        reading = bench.compare(OWN, FreshPair(seed, against=RECIPE))
        assert isinstance(reading, Reading) and set(reading.pairs) == {(STEP / 2, STEP)}
    assert computer.started[1:3] == ["contributions-01-recipe", "contributions-01-without"]
    assert computer.started[3:] == ["contributions-02-recipe", "contributions-02-without"]
    assert bench.pair_seconds() > bench.pair_seconds(against=RECIPE)


def test_a_recipe_that_fails_beside_itself_without_a_setting_is_not_the_user_s_training(facts: TrainingFacts) -> None:
    computer = Unlucky()
    bench = LiveBench(run_with(computer), on_cpu(facts), OWN)
    computer.fails = range(computer.own_turns + 1, 1000)
    slow = Reference(OWN, STEP)  # whose turns fail
    assert bench.compare(FAST, FreshPair(0, against=slow)) == Failure("raised", "ValueError: the data has an end")
    with pytest.raises(WorkloadFailedError):
        bench.compare(FAST, FreshPair(0))


def test_the_pairs_of_an_earlier_part_of_the_run_are_found_in_its_folder(facts: TrainingFacts) -> None:
    computer = Computer(0)
    run = run_on(computer)
    run.folder.load_pairs = lambda purpose: [pair(CAST, 0, speedup=3.0)] if purpose == "proof" else []
    bench = LiveBench(run, on_cpu(facts), OWN)
    reading = bench.compare(CAST, FreshPair(0))
    assert isinstance(reading, Reading) and reading.pairs[0] == (0.1, pytest.approx(0.1 / 3))
    assert computer.started == ["baseline"]
    assert isinstance(bench.compare(CAST, FreshPair(1)), Reading)
    assert computer.started[1:] == ["proof-01-baseline", "proof-01-recipe"]
