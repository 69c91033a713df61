"""From faster steps to a shorter run: what start-up and compilation leave of it, and how surely."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from autoaccel.records.recipe import RunSpeedup
from autoaccel.records.trial import Comparison

READING_DEVIATION = 0.2
"""Standard deviation of the logarithm of a time that one process showed alone, as start-up and compilation are
measured. That of the ratio of two such readings of the digits network's steps (ten pairs of processes on two shared
cores), taken for one: a cold compilation is measured once in a run, so that nothing tells its spread. A machine
of one's own scatters less, which makes claims of whole runs narrower than need be told; none was measured."""

WARM_SHARE = 0.15
"""Of a cold compilation that a process takes again whose code is in the cache, until that was measured: what is left is
to trace the model, to look up its graphs and to load their code. On two cores with torch 2.13 (processor time, Inductor
for the CPU): an MLP of two layers 0.13, a CNN 0.13, a transformer of four layers 0.06 to 0.12; by the clock 16 s and
then 2.4 s for the CNN. Where code is looked up but generated once more (older releases, GPUs) it may be more."""


class CompileSeconds(NamedTuple):
    """What slower first steps cost a run: cold, as the first one pays them, and warm, as those that follow it do."""

    cold: float
    warm: float

    def average(self, trainings: int) -> float:
        """Return what they cost a training on average, if the first of this many is the cold one."""
        return self.warm + (self.cold - self.warm) / trainings


def run_speedup(
    steps: Comparison, steps_seconds: float, overhead_seconds: float, extra_overhead_seconds: float
) -> RunSpeedup:
    """Return how much faster a whole run is, with the uncertainty of its steps, its start-up and its compilation.

    The three are independent, so that the half width of the logarithm's interval is the root of the sum of the squares
    of what each moves it by alone.

    Args:
        steps: Speed-up of the steps, with the interval that is claimed.
        steps_seconds: That all steps of a run take under the user's own settings.
        overhead_seconds: That such a run takes beside them, to which start-up belongs.
        extra_overhead_seconds: That a run with the recipe takes more, most of it compilation; below zero: less.
    """

    def log_of(speedup: float, overhead: float = 1.0, extra: float = 1.0) -> float:
        common = overhead * overhead_seconds
        new = common + max(-common, extra * extra_overhead_seconds) + steps_seconds / speedup
        return math.log((common + steps_seconds) / new)

    factor = math.exp(NormalDist().inv_cdf((1 + steps.confidence) / 2) * READING_DEVIATION)
    found = log_of(steps.speedup)
    starts = [log_of(steps.speedup, overhead=by) for by in (factor, 1 / factor)]
    extras = [log_of(steps.speedup, extra=by) for by in (factor, 1 / factor)]
    below = math.hypot(*(found - min(found, *logs) for logs in ([log_of(steps.low)], starts, extras)))
    above = math.hypot(*(max(found, *logs) - found for logs in ([log_of(steps.high)], starts, extras)))
    return RunSpeedup(math.exp(found), math.exp(found - below), math.exp(found + above))


def slowest_start(extra_overhead_seconds: float, confidence: float) -> float:
    """Return what a slower start may cost at most, one-sided: what a recipe must win back to be worth having."""
    return extra_overhead_seconds * math.exp(NormalDist().inv_cdf(confidence) * READING_DEVIATION)
