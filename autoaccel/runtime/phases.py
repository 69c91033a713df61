"""How long each phase of a step takes, without recording anything else."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from autoaccel.records.profile import PHASES
from autoaccel.runtime.accelerator import Mark, mark, seconds_between
from autoaccel.runtime.paced import Inspectable, Phased

LEFT_OUT = "left out"
"""Told as a phase where what has happened since the last step belongs to none: the step begins anew."""

_LOADED_BY_WORKERS = "data wait"


class PhaseTimer:
    """Marks the ends of phases in the work of the device: an accelerator's seconds, not the program's."""

    def __init__(self, device: torch.device, loss_is_apart: bool = True) -> None:
        """Wait for the first step.

        Args:
            device: Whose seconds they are.
            loss_is_apart: Whether anybody tells when the model's forward pass ends and the loss begins.
        """
        self._device = device
        self._loss_is_apart = loss_is_apart
        self._steps: list[list[tuple[str, Mark]]] = []  # of each the phase that has ended, and where; first its start

    def start_step(self) -> None:
        """Begin a step."""
        self._steps.append([("", mark(self._device))])

    def phase_ended(self, phase: str) -> None:
        """Note that what happened since the last call belongs to this phase."""
        phase = "forward" if phase == "loss" and not self._loss_is_apart else phase
        self._steps[-1].append((phase, mark(self._device)))

    @property
    def step_phases(self) -> list[dict[str, float]]:
        """The seconds of each phase of each step; the program waits until the last one is over."""
        found = []
        for marks in self._steps:
            seconds = dict.fromkeys(PHASES, 0.0)
            for (_, before), (phase, after) in itertools.pairwise(marks):
                if phase == LEFT_OUT:
                    seconds = dict.fromkeys(PHASES, 0.0)
                else:
                    seconds[phase] += seconds_between(before, after)
            found.append(seconds)
        return found


@contextmanager
def timed_phases(phased: Phased) -> Iterator[PhaseTimer]:
    """Tell a timer of every phase of a training's steps until the end of the block."""
    loop = phased if isinstance(phased, Inspectable) else None
    # With step=, only the model's own calls tell where the loss begins; hooks on a compiled one would compile it anew.
    hooked = loop is not None and loop.training.step is not None and not loop.applied.compiles
    timer = PhaseTimer(phased.device, loss_is_apart=hooked or phased.loss_is_apart)
    entered = False

    def before(module: Any, inputs: Any) -> None:
        nonlocal entered
        timer.phase_ended("loss" if entered else "forward")
        entered = True

    def ended(phase: str) -> None:
        nonlocal entered
        entered = entered and phase != "backward"
        timer.phase_ended(phase)

    def after(module: Any, inputs: Any, outputs: Any) -> None:
        timer.phase_ended("forward")

    hooks = []
    if loop is not None and hooked:
        hooks = [loop.model.register_forward_pre_hook(before), loop.model.register_forward_hook(after)]
    previous, phased.phase_ended = phased.phase_ended, ended
    try:
        yield timer
    finally:
        phased.phase_ended = previous
        for hook in hooks:
            hook.remove()


def typical_phases(step_phases: Sequence[dict[str, float]], has_workers: bool) -> dict[str, float]:
    """Return the seconds of each phase of a typical step; together they are a typical step's.

    The mean over the middle half of the steps, by their length: medians of phases need not add up to that of the step,
    and a mean over all steps would count stalls.
    """
    by_length = sorted(step_phases, key=lambda phases: sum(phases.values()))
    quarter = len(by_length) // 4
    middle = by_length[quarter : len(by_length) - quarter]
    typical = {phase: statistics.fmean(phases[phase] for phases in middle) for phase in PHASES}
    if has_workers:
        # Workers deliver in bursts: most steps wait for nothing, one waits for all. Only the mean over all tells.
        typical[_LOADED_BY_WORKERS] = statistics.fmean(phases[_LOADED_BY_WORKERS] for phases in step_phases)
    return typical
