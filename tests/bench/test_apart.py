"""A GPU on which two processes of the training do not fit: the starter and NVML are played, all else is real."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from autoaccel.bench import live_bench as module
from autoaccel.bench.bench import FreshPair
from autoaccel.bench.live_bench import LiveBench
from autoaccel.bench.pairs import FreshPairs
from autoaccel.bench.turns import TurnTaker
from autoaccel.machine.gpus import GpuUse
from autoaccel.records.messages import Failure, Finished, GiveTurn, Measure, Turn
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.instruments import QuickLook, Reading
from autoaccel.statistics.turn_plan import plan_turns

STEP = 0.05
GIB = 1 << 30
LOOK = QuickLook("trial", lambda pairs: len(pairs) >= 6, 60.0)


class Computer:
    """Processes on one GPU of 80 GiB; steps under "fast" take half as long."""

    def __init__(self, process_bytes: int, is_exclusive: bool = False, on_accelerator: bool = True) -> None:
        self.process_bytes = process_bytes
        self.is_exclusive = is_exclusive
        self.on_accelerator = on_accelerator
        self.alive: list[Process] = []
        self.max_alive = 0
        self.started: list[str] = []

    def use(self) -> tuple[GpuUse, ...]:
        return (GpuUse("GPU-1", GIB + len(self.alive) * self.process_bytes, 80 * GIB, self.is_exclusive),)

    def check_room(self) -> None:
        """There is."""

    def start_measuring(self, settings: Any, name: str, timeout_seconds: float) -> Any:
        return self.start_all_measuring(Measure(), {name: settings}, timeout_seconds)[0]

    def start_all_measuring(self, task: Any, settings: Any, timeout: float, fresh: bool = False) -> Any:
        found: list[Process | Failure] = []
        for name, chosen in settings.items():
            self.started.append(name)
            if self.alive and self.is_exclusive:
                found.append(Failure("busy", "AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or "
                                     "unavailable"))  # fmt: skip
            elif GIB + (len(self.alive) + 1) * self.process_bytes > 80 * GIB:
                found.append(Failure("memory", "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."))
            else:
                found.append(Process(self, chosen))
                self.alive.append(found[-1])
                self.max_alive = max(self.max_alive, len(self.alive))
        return found


class Process:
    """One that takes turns, as Measuring does."""

    batch_factor = 1.0
    ready_seconds = ready_again_seconds = 0.01
    warm_step_seconds = STEP
    stated_in_vain: Mapping[str, str] = MappingProxyType({})

    def __init__(self, computer: Computer, settings: Settings) -> None:
        self.computer = computer
        self.settings = settings
        self.step_seconds = STEP / 2 if settings.get("fast") else STEP
        self.turns: list[Turn] = []
        self.finite_steps, self.diverged_steps = 0, None

    def take_turn(self, order: GiveTurn, timeout_seconds: float) -> Turn:
        assert self in self.computer.alive
        self.turns.append(Turn((self.step_seconds,) * 4, peak_bytes=self.computer.process_bytes))
        return self.turns[-1]

    def finish(self, timeout_seconds: float) -> Finished:
        return Finished(metric=self.step_seconds)

    @property
    def measurement(self) -> Measurement:
        return Measurement(1.0, (self.step_seconds,), tuple(self.turns))

    def close(self) -> None:
        if self in self.computer.alive:
            self.computer.alive.remove(self)


def run_on(computer: Computer) -> Any:
    clock = SimpleNamespace(timeout=lambda what, share: math.inf, left=math.inf)
    kept: list[Any] = []
    folder = SimpleNamespace(add_pair=lambda pair, purpose: kept.append(pair), kept=kept, load_pairs=lambda purpose: [])
    return SimpleNamespace(starter=computer, clock=clock, folder=folder, request=SimpleNamespace(workload=None))


def baseline_on(
    computer: Computer, facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch, device: str = "cuda", nvml: bool = True
) -> LiveBench:
    monkeypatch.setattr(module, "read_gpu_use", computer.use if nvml else tuple)
    return LiveBench(run_on(computer), msgspec.structs.replace(facts, device=device), {"fast": False})


def measured(baseline: LiveBench) -> Reading | Failure:
    return baseline.compare({"fast": True}, LOOK)


@pytest.mark.parametrize(("gib", "is_exclusive"), [(50, False), (10, True)])
def test_where_two_do_not_fit_whole_processes_alternate(
    gib: int, is_exclusive: bool, facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baseline stayed alive beside each trial: every one of a larger model ran out of memory, and it alone won."""
    computer = Computer(gib * GIB, is_exclusive)
    baseline = baseline_on(computer, facts, monkeypatch)
    assert baseline.is_apart
    assert computer.alive == []  # its memory is free for the profile, too
    for _ in range(2):
        reading = measured(baseline)
        assert isinstance(reading, Reading)
        assert reading.trusted and reading.pairs == [(STEP, STEP / 2)] * 8
        assert len(reading.reference_turns) == len(reading.measurement.turns) == 8
    assert computer.max_alive == 1
    assert computer.started == ["baseline", "trial", "baseline", "trial", "baseline"]


@pytest.mark.parametrize(("gib", "fits"), [(6, True), (9, False)])
def test_on_a_cpu_two_that_do_not_fit_in_memory_are_not_alive_at_once(
    gib: int, fits: bool, facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every trial was killed for lack of memory, or the baseline was."""
    computer = Computer(gib * GIB)
    told: list[Any] = []
    monkeypatch.setattr(module, "read_gpu_use", tuple)
    run = run_on(computer)
    run.tell = told.append
    baseline = LiveBench(run, facts, {"fast": False}, memory_bytes=16 * GIB)
    assert baseline.is_apart is not fits
    assert isinstance(measured(baseline), Reading)
    assert computer.max_alive == (2 if fits else 1)
    assert len(told) == (0 if fits else 1)


def test_where_two_fit_the_baseline_stays_alive(facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    computer = Computer(30 * GIB)
    baseline = baseline_on(computer, facts, monkeypatch)
    assert isinstance(measured(baseline), Reading)
    assert not baseline.is_apart
    assert computer.started == ["baseline", "trial"] and len(computer.alive) == 1


@pytest.mark.parametrize(("gib", "is_exclusive"), [(50, False), (10, True)])
def test_a_trial_that_found_no_room_is_repeated_alone(
    gib: int, is_exclusive: bool, facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where NVML does not tell, or the candidate needs more than the baseline."""
    computer = Computer(gib * GIB, is_exclusive)
    baseline = baseline_on(computer, facts, monkeypatch, nvml=False)
    assert not baseline.is_apart
    reading = measured(baseline)
    assert isinstance(reading, Reading) and reading.trusted
    # Six turns of the baseline's went before, as many as it took alone; the last four of them count.
    assert reading.pairs == [(STEP, STEP / 2)] * 8
    assert baseline.is_apart  # the next is not tried beside it


def test_on_a_cpu_a_trial_that_runs_out_of_memory_has_failed(
    facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    computer = Computer(50 * GIB)
    reading = measured(baseline_on(computer, facts, monkeypatch, device="cpu", nvml=False))
    assert isinstance(reading, Failure) and reading.kind == "memory"
    assert computer.started == ["baseline", "trial"]


def test_on_a_cpu_a_trial_whose_port_the_baseline_holds_is_measured_alone_and_so_are_all_after_it(
    facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every trial of a script that opens a fixed port failed, whatever its settings."""
    computer = Computer(0, is_exclusive=True)
    baseline = baseline_on(computer, facts, monkeypatch, device="cpu", nvml=False)
    for _ in range(2):
        assert isinstance(measured(baseline), Reading)
    assert baseline.is_apart
    assert computer.started == ["baseline", "trial", "trial", "baseline", "trial", "baseline"]


@pytest.mark.parametrize("known", [True, False])
def test_pairs_of_a_proof_alternate_whole_processes(known: bool) -> None:
    computer = Computer(50 * GIB)
    run = run_on(computer)
    pairs = FreshPairs(run, {"fast": False}, TurnTaker(plan_turns(STEP), 20, [STEP]), known)
    for seed in (0, 1):
        reading = pairs.compare({"fast": True}, FreshPair(seed, steps=1000))
        assert isinstance(reading, Reading)
        assert set(reading.pairs) == {(STEP, STEP / 2)}
        assert reading.trained is not None
        assert reading.trained.metrics == (STEP, STEP / 2)  # the baseline's first, whoever began
    assert computer.max_alive == 1
    assert computer.started[-2:] == ["proof-02-recipe", "proof-02-baseline"]  # who begins changes
    assert len(run.folder.kept) == 2
