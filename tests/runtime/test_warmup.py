"""Warm-up and turns make no more steps than tell something: a loop is played whose steps take what is given."""

from __future__ import annotations

import itertools
import math
import mmap
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.records.messages import GiveTurn, Turn
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.steps import make_steps
from autoaccel.runtime.training import Training
from autoaccel.runtime.turns import taking_turn
from autoaccel.runtime.warmup import WarmedUp, settling_steps, warming_up


class Played:
    """Steps that take these seconds; then the last for ever."""

    shrinks_at = math.inf
    device = torch.device("cpu")
    steps_per_epoch = 100

    def __init__(self, seconds: Iterable[float], workers: int = 0, **settings: Any) -> None:
        *first, last = seconds
        self._seconds = itertools.chain(first, itertools.repeat(last))
        self.steps_done = 0
        settings = {"loader.workers": workers, **settings}
        self.applied = SimpleNamespace(settings=settings, compiles=False, shrinks_after=None)

    def step(self) -> Any:
        self.steps_done += 1
        return SimpleNamespace(seconds=next(self._seconds))


def warmed(seconds: Iterable[float], workers: int = 0, kept: bool = False, **asked: Any) -> WarmedUp:
    played = cast("Loop", Played(seconds, workers, **{"memory.keep_freed": kept}))
    return make_steps(warming_up(played, 10.0, **asked), played.step)


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        ([1.7, 1.6], 2),  # the first was warm
        ([2.6, 1.6], 3),
        ([20.0, 2.0, 1.6], 4),
        ([0.2, 0.05], 7),  # short ones: two times three after the first
        ([20.0, 0.05], 7),  # as of a compiled model
    ],
)
def test_long_steps_are_warm_after_two_that_agree(seconds: list[float], steps: int) -> None:
    assert len(warmed(seconds).step_seconds) == steps


def test_what_it_took_to_settle_is_told_apart_from_looking() -> None:
    found = warmed([5.0, 2.4, 1.6, 1.6])
    assert found.step_seconds == [5.0, 2.4, 1.6, 1.6]
    assert (found.settling_steps, found.surplus_steps, found.settled_seconds) == (1, 2, 1.6)
    again = warmed([5.0, 2.4, 1.6], known_steps=found.settling_steps)
    assert again.step_seconds == [5.0, 2.4]


def test_what_is_warm_at_once_is_known_to_be() -> None:
    found = warmed([1.7, 1.6])
    assert found.settling_steps == 0
    assert warmed([1.7, 1.6], known_steps=0).step_seconds == [1.7]


def test_where_freed_memory_is_kept_the_second_step_is_not_warm_though_it_takes_no_longer() -> None:
    found = warmed([1.7, 1.65, 1.6], kept=True)
    assert found.settling_steps == 1
    assert warmed([1.7, 1.65, 1.6], kept=True, known_steps=found.settling_steps).step_seconds == [1.7, 1.65]


def test_batches_that_workers_had_prepared_belong_to_the_warm_up() -> None:
    """They were there during the slow first step, and say nothing about how fast workers are."""
    found = warmed([5.0, *[0.5] * 4, 1.5], workers=2)
    assert found.settled_seconds == 1.5
    assert found.settling_steps == 4
    keeping_up = warmed([5.0, 0.5], workers=2)
    assert keeping_up.settling_steps == 0


def test_steps_that_scatter_are_repeated_as_often_as_they_were_made() -> None:
    assert settling_steps([0.05, 0.06, 0.05, 0.06, 0.04, 0.05]) == 5
    assert settling_steps([]) == 0


def test_a_training_spends_half_of_its_steps_on_its_warm_up_at_most() -> None:
    assert len(warmed([1.0, 3.0, 2.0, 1.0], training_steps=6).step_seconds) == 3


def small(samples: int = 10, loss: Callable[..., torch.Tensor] = nn.functional.mse_loss) -> Loop:
    """Steps of 4 samples; of ten samples an epoch has three steps, the last of half a batch."""
    training = Training(
        model=nn.Linear(2, 1),
        train_data=TensorDataset(torch.ones(samples, 2), torch.ones(samples, 1)),
        eval_data=TensorDataset(torch.ones(2, 2), torch.ones(2, 1)),
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        evaluate=lambda model, loader: 0.5,
        epochs=3,
        batch_size=4,
    )
    return Loop(training, Applied({}), seed=0)


def turns_of(loop: Loop, number: int, order: GiveTurn) -> list[Turn]:
    turns = [make_steps(taking_turn(loop, order, None), loop.step) for _ in range(number)]
    assert all(isinstance(turn, Turn) for turn in turns)
    return cast("list[Turn]", turns)


def test_a_turn_of_one_step_makes_one() -> None:
    loop = small(samples=400)
    loop.step()
    turns = turns_of(loop, 3, GiveTurn(0.0, min_steps=1, uncounted_steps=0))
    assert [len(turn.step_seconds) for turn in turns] == [1, 1, 1]
    assert loop.steps_done == 4


def test_neither_an_epochs_first_step_nor_an_incomplete_one_stands_for_all() -> None:
    first, second = turns_of(small(), 2, GiveTurn(0.0, min_steps=1, uncounted_steps=0))
    assert (len(first.step_seconds), first.epoch_starts) == (2, (0,))
    assert second.step_shares == (0.5, 1.0, 1.0) and second.epoch_starts == (1,)


def test_where_all_steps_begin_an_epoch_a_turn_does_not_go_on_for_ever() -> None:
    (turn,) = turns_of(small(samples=4), 1, GiveTurn(0.0, min_steps=1, uncounted_steps=0))
    assert len(turn.step_seconds) == 3


def of_the_system(loss: Callable[..., torch.Tensor]) -> float:
    """Return what share of a turn the system takes."""
    (turn,) = turns_of(small(samples=400, loss=loss), 1, GiveTurn(0.2, min_steps=3, uncounted_steps=1))
    return turn.system_seconds / sum(turn.step_seconds)


def touch_fresh_pages() -> None:
    """Have the system clear pages, one by one."""
    with mmap.mmap(-1, 128 << 20) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def fresh(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    touch_fresh_pages()
    return nn.functional.mse_loss(output, target)


def busy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        pass
    return nn.functional.mse_loss(output, target)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what they spend on a thread")
def test_a_turn_tells_what_the_system_spends_on_its_steps() -> None:
    assert of_the_system(fresh) > 0.1
    assert of_the_system(busy) < 0.1


def test_what_the_system_spends_on_other_threads_is_not_of_a_step() -> None:
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            touch_fresh_pages()

    loads = threading.Thread(target=load)
    loads.start()
    try:
        assert of_the_system(busy) < 0.1
    finally:
        over.set()
        loads.join()
