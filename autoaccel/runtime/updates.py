"""The updates that steps make from a kept state: what is wanted of a training, and the built-in loop that does it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import torch

from autoaccel.runtime.data import Drawn
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.randomness import random_states, seed_all
from autoaccel.runtime.trained_state import State, TrainedState, Values

_MAX_LEFT_OUT = 8  # steps in a row that a float16 scaler may leave out: from 65,536 down to 256


class Wanted(NamedTuple):
    """A step that is wanted of a training."""

    start: State | None = None
    """From which it is made, once more for each; None: the training's own next step, of which it has one."""
    again: bool = False
    """Whether on the batches of the step before, with its random numbers; only where `Stepping.repeats`."""


class Made(NamedTuple):
    """A step that was made."""

    loss: float
    update: Values  # what it has changed; empty for a step of the training's own
    gradients: Values  # as the optimizer has got them; likewise


Result = TypeVar("Result")

Steps: TypeAlias = Generator[Wanted, Made, Result]
"""Yields each step that it wants, is sent what came of it, and returns its result."""


class Stepping(Protocol):
    """A training whose random numbers are numbered, and whose updates are looked at.

    Two processes that ask for the same in the same order make the same steps on the same batches with the same random
    numbers, whatever their settings draw.
    """

    state: TrainedState
    repeats: bool
    """Whether it can make a step on the batches of the one before."""
    draws_numbers: bool
    """Whether a step draws random numbers from torch, as dropout does."""


def make(steps: Steps[Result], step: Callable[[Wanted], Made]) -> Result:
    """Make all the steps that are wanted; return the result."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(step(wanted))
    except StopIteration as end:
        result: Result = end.value
        return result


class LoopSteps:
    """Steps of the built-in loop: `Stepping`.

    No step is made twice for a schedule: all that are made from a kept state leave the training where it was.
    """

    repeats = True

    def __init__(self, loop: Inspectable) -> None:
        """Watch a training that has made no step, and find out what its first one takes.

        That compiles what is compiled, and lets float16 find its scale; then the training begins anew.
        """
        self._loop = loop
        self.state = TrainedState([loop.plain_model], [loop.optimizer])
        self._numbers = 0
        self._drawn: tuple[int, list[Drawn]] = (0, [])  # number of its random numbers, and batches, of the last step
        self._gradients: Values = {}
        beginning = self.state.copy()
        self.draws_numbers = self._draws_numbers(beginning)
        self.state.restore(beginning)

    def make(self, wanted: Wanted) -> Made:
        """Make a step."""
        if wanted.start is None:
            seed_all(self._next_number())
            self._loop.step()
            return Made(self._loop.last_loss, {}, {})
        if not wanted.again:
            self._draw()
        update = self._update_from(wanted.start)
        return Made(self._loop.last_loss, update, self._gradients)

    def _draw(self) -> None:
        """Take the next step's batches; the training passes them over."""
        number = self._next_number()
        seed_all(number)
        self._drawn = number, self._loop.next_step()

    def _update_from(self, state: State) -> Values:
        """Return what one step on the drawn batches makes of a state; the training is left in what it becomes."""
        update: Values = {}
        for _ in range(1 + _MAX_LEFT_OUT):
            self.state.restore(state)
            before, learned = self.state.values(), self._loop.applied.state_dict()
            self._make_step(*self._drawn)
            after = self.state.values()
            update = change(before, after)
            # A float16 scaler leaves out a step whose gradients are too large for it, and learns from that.
            moved = any(bool(update[name].any()) for name in self.state.parameters)
            if moved or self._loop.applied.state_dict() == learned:
                break
        return update

    def _draws_numbers(self, state: State) -> bool:
        self._draw()
        self._update_from(state)
        after = random_states(self._loop.device)
        seed_all(self._drawn[0])
        return has_drawn(after, self._loop.device)

    def _make_step(self, number: int, batches: Sequence[Drawn]) -> None:
        """Make a step that the training's count and its schedule do not know of."""
        loop = self._loop
        kept = loop.scheduler, loop.steps_done, loop.samples_done, loop.phase_ended
        loop.scheduler, loop.phase_ended = None, self._note_gradients
        try:
            seed_all(number)
            for drawn in batches:
                loop.step_on(drawn.batch, drawn.piece)
        finally:
            loop.scheduler, loop.steps_done, loop.samples_done, loop.phase_ended = kept

    def _note_gradients(self, phase: str) -> None:
        if phase == "optimizer":  # they are cleared after it
            self._gradients = self.state.gradients(list(self.state.parameters))

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers


def change(before: Values, after: Values) -> Values:
    """Return what has changed of each tensor that was there before: zero where it stayed infinite or NaN."""
    kept = {name: (before[name], value) for name, value in after.items() if name in before}
    return {
        name: torch.where((old == new) | (old.isnan() & new.isnan()), 0.0, new - old)
        for name, (old, new) in kept.items()
    }


def has_drawn(states: dict[str, object], device: torch.device) -> bool:
    """Return whether torch's generators, as they were seeded a moment ago, have other states than these.

    Args:
        states: As `random_states` has returned them.
        device: Whose generator counts beside that of the CPU.
    """
    fresh = random_states(device)
    return any(not torch.equal(fresh[name], states[name]) for name in fresh if name not in ("python", "numpy"))  # type: ignore[arg-type]  # those of torch's generators are tensors
