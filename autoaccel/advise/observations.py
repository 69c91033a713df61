"""Observations: all that rules may look at; make_finding: how they say what they find."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from autoaccel.advise.bounds import bound_of_share
from autoaccel.advise.roofline import roofline
from autoaccel.records.conditions import MachineConditions, TrainingConditions
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Finding, Profile
from autoaccel.records.rates import Rates
from autoaccel.records.workload import TrainingFacts

DENSE = ("convolution", "matmul", "attention")
"""Groups of operators that are limited by arithmetic rather than by memory."""

SHORTEST_STEP = 1e-9
"""Seconds: the resolution of the clock. A step that was too short for it has taken some time all the same."""


@dataclass(frozen=True)
class Observations:
    """What is known of a training and where it runs; None where nobody looked."""

    profile: Profile
    machine: Machine
    conditions: TrainingConditions | None = None
    rates: Rates | None = None
    training: TrainingFacts | None = None
    machine_conditions: MachineConditions | None = None

    def phases(self, *names: str) -> float:
        """Return the share of the step that these phases take together."""
        return sum(self.profile.phases.get(name, 0.0) for name in names)

    @property
    def data_wait(self) -> float:
        """Share of the step that waits for its batch."""
        return self.phases("data wait")

    @property
    def compute(self) -> float:
        """Share of the step in the forward pass, the loss and the backward pass."""
        return self.phases("forward", "loss", "backward")

    @property
    def update(self) -> float:
        """Share of the step that changes parameters and clears gradients."""
        return self.phases("optimizer", "zero grad")

    @property
    def dense(self) -> float:
        """Share of the step in convolutions, matrix products and attention."""
        return sum(map(self.dense_share, DENSE))

    def dense_share(self, group: str) -> float:
        """Return the share of the step in one of the dense groups, which only forward and backward have."""
        whole = self.compute / max(1e-9, self.groups(*DENSE))  # if nothing else were in them
        return min(self._operators_share, whole) * self.profile.groups.get(group, 0.0)

    @property
    def _operators_share(self) -> float:
        """Share of the step that all operators take, those of a loader without workers included."""
        profile = self.profile
        timed = [operator for operator in profile.operators if operator.share > 0 and operator.self_seconds > 0]
        if not timed or not profile.traced_step_seconds:
            return self.compute + self.update  # as if there were nothing else in these phases
        seconds = sum(operator.self_seconds for operator in timed) / sum(operator.share for operator in timed)
        return min(1.0, seconds / profile.traced_step_seconds)

    @property
    def max_speedup(self) -> float:
        """By how much the step as it is could become faster on this machine: its roofline; infinite if not known.

        A step that is faster than the rates allow shows that others disturbed the measuring of these.
        """
        line = roofline(self.profile, self.machine, self.rates, self.conditions) if self.rates else None
        speedup = self.mean_step_seconds / line.step_seconds_at_least if line else math.inf
        return speedup if speedup > 1 else math.inf

    def groups(self, *names: str) -> float:
        """Return the share of all operators' own time that these groups of them take, at most 1."""
        return min(1.0, sum(self.profile.groups.get(name, 0.0) for name in names))

    @property
    def mean_step_seconds(self) -> float:
        """Step time with the waits that come in bursts."""
        return max(self.profile.step_seconds, self.profile.phase_seconds or 0.0, SHORTEST_STEP)

    @property
    def updates_itself(self) -> bool:
        """Whether it is a script that makes its updates itself: no phase is known to be theirs."""
        return self.training is not None and self.training.seen.updates_itself

    @property
    def on_gpu(self) -> bool:
        """Whether the training runs on a GPU, of whatever make."""
        return self.conditions is not None and self.conditions.device != "cpu"


Rule = Callable[[Observations], Finding | None]
"""A small pure function that returns None where it has observed nothing, or nothing worth saying."""


@dataclass(frozen=True)
class Gain:
    """What removing a cause could win."""

    share: float  # of the step, or of what the finding's title says, that remedies could touch
    removable: float = 1.0  # which part of what the bound says remedies usually remove, for the order of findings
    bound_speedup: float | None = None  # if it was measured; else that of the share (Amdahl)
    claims_half: bool = False  # whether removing the cause wins at least half of what the bound says

    @property
    def clipped_share(self) -> float:
        """The share, at least 0 and at most 1, which sums of measured parts may miss."""
        return min(1.0, max(0.0, self.share))

    @property
    def max_speedup(self) -> float:
        """The bound on what removing the cause wins."""
        return bound_of_share(self.clipped_share) if self.bound_speedup is None else max(1.0, self.bound_speedup)


def make_finding(
    code: str,
    title: str,
    gain: Gain,
    advice: str,
    knobs: tuple[str, ...] = (),
    numbers: dict[str, float] | None = None,
) -> Finding:
    """Return a finding with its bound.

    Args:
        code: The name of its rule.
        title: The cause, in a few words.
        gain: What removing the cause wins.
        advice: What to do.
        knobs: That may be a remedy.
        numbers: Those that it rests on, by name with unit.
    """
    bound = gain.max_speedup
    return Finding(
        code=code,
        title=title,
        share=gain.clipped_share,
        bound_speedup=bound,
        knobs=knobs,
        advice=advice,
        numbers={name: float(number) for name, number in (numbers or {}).items()},
        expected_speedup=bound_of_share(gain.removable * (1 - 1 / bound)),
        claims_half=gain.claims_half,
    )
