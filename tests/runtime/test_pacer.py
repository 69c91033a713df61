"""The pacer measures whoever tells it of steps: the built-in loop, a loop by hand, or a hook within a plain script."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autoaccel.records.base import Record, encode
from autoaccel.records.messages import (
    Failure,
    Finish,
    Finished,
    GiveTurn,
    Measure,
    ModelSize,
    Ready,
    TakeProfile,
    Turn,
    WarmUp,
    WorkerSpec,
)
from autoaccel.records.rounding import CompareUpdates, RecordUpdates
from autoaccel.records.settings import Settings, Value
from autoaccel.runtime import tasks
from autoaccel.runtime.accelerator import mark
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.pacer import Pacer
from autoaccel.runtime.steps import Step
from autoaccel.runtime.training import Training

CPU = torch.device("cpu")
INPUTS = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, (INPUTS.sum(dim=1) > 0).long())
BATCH = 8  # five steps an epoch
WARM = Measure(settling_steps=2)
"""The first step and two more, so that no clock decides how many."""

ORDERS: list[Record] = [
    WarmUp(),
    GiveTurn(0.0, min_steps=3, uncounted_steps=1),
    GiveTurn(0.0, min_steps=1, uncounted_steps=0),
    GiveTurn(0.0, min_steps=4, uncounted_steps=2),
]


class Written:
    """The way to a tuner whose orders are known from the start; it notes after which step it was read and written."""

    def __init__(self, orders: Sequence[Record]) -> None:
        self.orders = list(orders)
        self.steps = 0
        self.answers: list[Record] = []
        self.events: list[tuple[int, str]] = []
        self.waits_seconds = 0.0

    def read(self) -> bytes:
        self.events.append((self.steps, "waits"))
        time.sleep(self.waits_seconds)
        return encode(self.orders.pop(0)) if self.orders else b""

    def write(self, message: Record) -> None:
        self.events.append((self.steps, type(message).__name__))
        self.answers.append(message)


class Script:
    """A script as its own hook sees it: steps, and nothing else of the training."""

    def __init__(self, settings: Settings) -> None:
        self.applied = Applied(settings, CPU)
        self.stated: Mapping[str, Value] = {}
        self.device = CPU
        self.steps_done = 0
        self.batch_factor = 1.0
        self.model_size: ModelSize | None = None
        self.has_diverged = False


class OverError(Exception):
    """Ends a script from within its hook."""


def parts_of(seed: int, step: Callable[[], None]) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(seed)
    model = nn.Linear(4, 2)
    model.register_forward_pre_hook(lambda module, inputs: step())
    loader = DataLoader(DATA, BATCH, shuffle=True, generator=torch.Generator().manual_seed(seed))
    return model, torch.optim.SGD(model.parameters(), lr=0.1), loader


def run_script(line: Written, task: Measure, settings: Settings, step: Callable[[], None]) -> Failure | None:
    """Train as a plain script does; only a hook of its optimizer knows of the pacer."""
    model, optimizer, loader = parts_of(0, step)
    script = Script(settings)
    pacer = Pacer(script, task, 10.0, line)
    begun = mark(CPU)

    def ended(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
        nonlocal begun
        made = Step(begun, mark(CPU), begins_epoch=script.steps_done % len(loader) == 0, share=1.0)
        script.steps_done += 1
        line.steps += 1
        if not pacer.step_ended(made):
            raise OverError
        begun = mark(CPU)

    optimizer.register_step_post_hook(ended)
    if not pacer.built():
        return pacer.failure
    begun = mark(CPU)
    with pytest.raises(OverError):
        for _ in range(1000):
            for inputs, target in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), target).backward()
                optimizer.step()
    return pacer.failure


def make_loop(settings: Settings, step: Callable[[], None]) -> Loop:
    model, _, _ = parts_of(0, step)
    training = Training(
        model=model,
        train_data=DATA,
        eval_data=DATA,
        batch_size=BATCH,
        epochs=4,
        loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        evaluate="accuracy",
    )
    return Loop(training, Applied(settings, CPU), seed=0)


def run_by_hand(line: Written, task: Measure, settings: Settings, step: Callable[[], None]) -> Failure | None:
    """Make the loop's steps in a loop of one's own, with a list between it and the pacer."""
    loop = make_loop(settings, step)
    pacer = Pacer(loop, task, 10.0, line)
    going = pacer.built()
    while going:
        made = [loop.step()]
        line.steps += len(made)
        going = pacer.step_ended(made.pop())
    return pacer.failure


def run_built_in(line: Written, task: Measure, settings: Settings, step: Callable[[], None]) -> Failure | None:
    loop = make_loop(settings, step)
    plain = loop.step

    def counted() -> Step:
        made = plain()
        line.steps += 1
        return made

    loop.step = counted  # type: ignore[method-assign]  # counts its calls
    return tasks._measure(WorkerSpec(task), task, loop, line)


MakeSteps = Callable[[Written, Measure, Settings, Callable[[], None]], Failure | None]
RUNS = [run_built_in, run_by_hand, run_script]


def nothing() -> None:
    """A step does nothing else."""


def reset() -> None:
    """A step takes the setting back."""
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("run", RUNS)
def test_whoever_makes_the_steps_the_tuner_sees_the_same(run: MakeSteps) -> None:
    line = Written(ORDERS)
    assert run(line, WARM, {}, nothing) is None
    assert line.events == [
        (0, "Built"),
        (0, "waits"),  # until it is its turn to warm up
        (3, "Ready"),
        (3, "waits"),
        (7, "Turn"),  # one that does not count, and three
        (7, "waits"),
        (8, "Turn"),
        (8, "waits"),
        (14, "Turn"),
        (14, "waits"),
    ]
    _, ready, *turns = line.answers
    assert isinstance(ready, Ready)
    assert len(ready.warmup_step_seconds) == 3
    found = [turn for turn in turns if isinstance(turn, Turn)]
    assert [len(turn.step_seconds) for turn in found] == [3, 1, 4]
    assert [turn.epoch_starts for turn in found] == [(1,), (), (0,)]  # epochs begin with steps 0, 5, 10
    assert all(turn.peak_bytes > 0 and not turn.diverged and turn.step_shares == () for turn in found)


@pytest.mark.parametrize("run", RUNS)
def test_what_the_tuner_does_between_turns_is_in_no_step(run: MakeSteps) -> None:
    line = Written(ORDERS)
    line.waits_seconds = 0.3
    began = time.perf_counter()
    run(line, WARM, {}, nothing)
    whole_seconds = time.perf_counter() - began
    _, ready, *turns = line.answers
    assert isinstance(ready, Ready)
    seconds = list(ready.warmup_step_seconds)
    for turn in turns:
        assert isinstance(turn, Turn)
        seconds += turn.step_seconds
    assert len(seconds) == 11
    # All but the steps took the rest, however long a busy machine has held up any of them.
    waited = sum(what == "waits" for _, what in line.events)
    assert sum(seconds) <= whole_seconds - waited * line.waits_seconds


@pytest.mark.parametrize("run", RUNS)
def test_a_turn_lasts_as_long_as_it_is_asked_to(run: MakeSteps) -> None:
    line = Written([WarmUp(), GiveTurn(0.2, min_steps=1, uncounted_steps=0)])
    begun: list[float] = []

    def step() -> None:
        begun.append(time.perf_counter())
        time.sleep(0.01)

    run(line, WARM, {}, step)
    ended = time.perf_counter()
    turn = line.answers[-1]
    assert isinstance(turn, Turn)
    assert sum(turn.step_seconds[:-1]) < 0.2  # so it was not too long before the last step, however long that took
    assert ended - begun[-len(turn.step_seconds)] > 0.19


@pytest.mark.parametrize("run", RUNS)
def test_a_setting_that_did_nothing_ends_every_measurement_alike(run: MakeSteps) -> None:
    line = Written(ORDERS)
    settings: Settings = {"precision.flush_denormals": True}
    failure = run(line, WARM, settings, reset)
    assert isinstance(failure, Failure) and failure.kind == "ineffective"
    assert failure.message.startswith("precision.flush_denormals did nothing: ")
    assert line.events == [(0, "Built"), (0, "waits")]


@pytest.mark.parametrize("run", RUNS)
def test_an_effect_that_ends_is_told_after_its_turn(run: MakeSteps) -> None:
    made = iter(range(1000))
    line = Written(ORDERS)

    def reset_later() -> None:
        if next(made) == 5:
            reset()

    try:
        assert run(line, WARM, {"precision.flush_denormals": True}, reset_later) is None
    finally:
        reset()
    first, second, third = line.answers[2:]
    assert isinstance(first, Failure) and "no longer after 7 steps" in first.message
    assert isinstance(second, Failure) and isinstance(third, Failure)


@pytest.mark.parametrize("run", RUNS)
def test_without_a_tuner_no_step_is_made(run: MakeSteps) -> None:
    line = Written([])
    assert run(line, WARM, {}, nothing) is None
    assert line.events == [(0, "Built"), (0, "waits")]


@pytest.mark.parametrize("run", RUNS)
def test_the_users_errors_reach_whoever_makes_the_steps(run: MakeSteps) -> None:
    def fail() -> None:
        raise ValueError("no")

    line = Written(ORDERS)
    with pytest.raises(ValueError, match="no"):
        run(line, WARM, {}, fail)
    assert line.events == [(0, "Built"), (0, "waits")]


@pytest.mark.parametrize("run", [run_built_in, run_by_hand])
def test_a_training_that_ends_is_finished_by_its_pacer(run: MakeSteps) -> None:
    orders = [WarmUp(), GiveTurn(0.0, min_steps=3, uncounted_steps=1), Finish(), GiveTurn(0.0, min_steps=3)]
    line = Written(orders)
    assert run(line, Measure(steps=20, settling_steps=2), {}, nothing) is None
    assert line.events[-4:] == [(20, "Finished"), (20, "waits"), (20, "Turn"), (20, "waits")]
    finished, turn = line.answers[-2:]
    assert isinstance(finished, Finished)
    assert 0.0 <= finished.metric <= 1.0 and finished.loss is not None
    assert isinstance(turn, Turn) and turn.step_seconds == ()  # the training is over


def test_a_metric_takes_more_than_steps() -> None:
    line = Written(ORDERS)
    failure = run_script(line, Measure(steps=20), {}, nothing)
    assert isinstance(failure, Failure) and failure.kind == "invalid"
    assert failure.message.startswith("the metric after a training needs the model, the batches and the evaluation")
    assert line.events == []  # told at once, not after a training


@pytest.mark.parametrize(
    ("task", "what"),
    [
        (TakeProfile(1.0), "a profile needs"),
        (RecordUpdates("/nowhere", (1,), 2), "a comparison of single updates needs"),
        (CompareUpdates("/nowhere"), "a comparison of single updates needs"),
    ],
)
def test_what_takes_more_than_steps_says_so(task: Any, what: str) -> None:
    line = Written([])
    failure = tasks.look_into(WorkerSpec(task), Script({}), line)
    assert isinstance(failure, Failure) and failure.kind == "invalid"
    assert failure.message.startswith(what)
    assert line.events == []


def test_the_built_in_loop_is_inspectable_and_a_script_is_not() -> None:
    assert isinstance(make_loop({}, nothing), Inspectable)
    assert not isinstance(Script({}), Inspectable)
