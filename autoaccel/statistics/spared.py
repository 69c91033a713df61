"""How much faster steps must be because the operating system spends less time on them: evidence that does not drift."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from autoaccel.records.messages import Turn
from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import NOISE_THRESHOLD, verdict_of
from autoaccel.statistics.sequences import Scatter, t_radius

_RELATIVE_SCATTER = Scatter(deviation=0.2, degrees=4.0)
"""What is known, before any pair is seen, of how much the system's time differs from one process to the next, as a
share of itself. A guess: of the digits it took 16 and 20 % of a step in two processes."""
_LIKELY_SHARE = 0.5
"""Of what the system takes of a step, the part that the first pairs are likely to show to be saved, if all is: what
`_RELATIVE_SCATTER` leaves."""


class SystemTime(NamedTuple):
    """CPU seconds that the operating system spends on a step in the thread that makes it, and what the step takes."""

    system: float
    step: float

    @property
    def share(self) -> float:
        """What part of a step it takes."""
        return self.system / self.step


def system_time(turns: Sequence[Turn]) -> SystemTime | None:
    """Return what the system spends on the steps of a process; None where no step was made."""
    steps = [seconds for turn in turns for seconds in turn.step_seconds]
    if not steps:
        return None
    return SystemTime(math.fsum(turn.system_seconds for turn in turns) / len(steps), statistics.fmean(steps))


class Spared(NamedTuple):
    """What the system spends on a step, under the user's own settings and under others, in one pair of processes."""

    own: SystemTime
    other: SystemTime

    @property
    def log_speedup(self) -> float:
        """The logarithm of the speed-up that what is saved makes."""
        return -math.log1p(-min(0.99, (self.own.system - self.other.system) / self.own.step))

    @property
    def usual_error(self) -> float:
        """The standard deviation that this logarithm usually has: both sides scatter, each by a share of itself."""
        return _RELATIVE_SCATTER.deviation * math.hypot(self.own.system, self.other.system) / self.own.step


def spared_log(pairs: Sequence[Spared], error: float) -> float:
    """Return the least logarithm of a speed-up that what the system no longer does explains; minus infinity if unknown.

    CPU time that the thread of a step does not spend any more, the step need not wait for. How long pages take to be
    handed out changes with the machine and its neighbours, but whoever asks for none of them does not wait for any. So
    it needs no room for drift, as step times do that are compared at one hour. It errs where that thread waits for
    others instead, which the system keeps as long as before: then the clock alone stands against it, whose hour may
    favour the settings (`benchmarks/studies/means`).

    Args:
        pairs: Of processes.
        error: Probability with which it may be less at any number of pairs looked at.
    """
    if len(pairs) < 2:
        return -math.inf
    known = _RELATIVE_SCATTER._replace(deviation=statistics.fmean(pair.usual_error for pair in pairs))
    return mean_spared_log(pairs) - t_radius([pair.log_speedup for pair in pairs], error, known)


def mean_spared_log(pairs: Sequence[Spared]) -> float:
    """Return what pairs show in the mean; minus infinity if there are none."""
    return statistics.fmean(pair.log_speedup for pair in pairs) if pairs else -math.inf


def at_least_spared(found: Comparison, drifting: Comparison, log_speedup: float) -> Comparison:
    """Return what is claimed of settings whose gain is explained by what the system no longer does.

    That is the least of it that both the clock and the system's time show, and for another hour at most what the clock
    allows with room for its drift.

    Args:
        found: By the clock, with no room for drift: true of the hour in which it was measured.
        drifting: The same with room for it.
        log_speedup: That is explained at least; see `spared_log`.
    """
    spared = math.exp(log_speedup)
    low, high = max(drifting.low, min(found.low, spared)), max(drifting.high, found.high)
    verdict = found.verdict if low >= 1 + NOISE_THRESHOLD else verdict_of(low, high)
    return msgspec.structs.replace(found, low=low, high=high, verdict=verdict, drift=drifting.drift, spared=spared)


def may_be_spared(turns: Sequence[Turn], needed: float) -> bool:
    """Return whether so large a speed-up is likely to be shown if the system's time is saved.

    Args:
        turns: Under the user's own settings.
        needed: Speed-up.
    """
    own = system_time(turns)
    return own is not None and _LIKELY_SHARE * own.share > math.log(needed)
