"""The speed-up over the baseline, its interval and the verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from autoaccel.records.machine import Machine
from autoaccel.records.trial import Comparison, Verdict
from autoaccel.statistics.long_turns import LongTurns, long_turns
from autoaccel.statistics.sequences import Scatter, t_radius

NOISE_THRESHOLD = 0.02
"""A speed-up must clear 1 by this much with its whole interval, as in criterion.rs: less is not worth a setting."""

CONFIDENCE = 0.95

PROCESS_DEVIATION = 0.06
"""Standard deviation of the log ratio from one process to the next. From the benchmark's own workloads: between
visits to the same settings it is 0.03 to 0.07 on the six tables (benchmarks/results/tables), whose steps take 0.6 to
150 ms on two shared cores; 0.06 is that of the digits. Longer steps, more cores and a machine of one's own would make
it smaller, loader workers and neighbours larger. Used where one process must do, to rank and to plan; a proof
measures its own."""

PAIR_SCATTER = Scatter(deviation=0.07, degrees=4.0)
"""What is known, before any pair is seen, of the standard deviation of the log ratio from one fresh pair of processes
to the next: the luck of both. The benchmark's six tables, with steps of 0.6 to 150 ms on two shared cores, are fitted
best by 0.04 with three degrees (`python -m benchmarks.studies.scatter`); trainings of real size on such cores (a GPT
with steps of 1.6 s, a ResNet-50 with 2.7 s, three pairs each) showed 0.05 to 0.13. With 0.07 and four, intervals of
95 % miss in less than 5 of 100 sequences of pairs at each of these deviations, and on each table that was left out of
the fit, with disturbances on top. More cores, GPUs and machines of one's own scatter less: there it costs a pair or
two; where pairs scatter by 0.2, the first few are trusted too much, until their own scatter outweighs what was
known."""

_DISTURBED_DEVIATION = 0.4
"""The same for a process measured while others used the cores: they take from two threads what they leave to one. A
guess for two shared cores; with many it would be smaller. It makes such a reading count next to nothing."""

SHARED_DRIFT = 0.07
"""Standard deviation of the log speed-up of the same settings from one hour to another on a virtual machine, what the
two measurements do not know themselves taken off. From the benchmark's own workloads: on one virtual machine of two
shared cores, nine claims showed 8 % and eleven later ones 6 %, together 7 %, three on another machine 1 % (`python -m
benchmarks.studies.claims table`). All pairs of a proof share it, so that no number of them makes it smaller: without
room for it, a tenth to a quarter of proofs of equal settings called one faster (`benchmarks/studies/means`). Other
hosts, other neighbours and longer steps would change it; every virtual machine is given it, because one run cannot see
its own. Verifying recipes at other hours, on more machines, is what would tell."""

Pair = tuple[float, float]
"""Step seconds of the baseline and of the candidate, taken in turns right after one another."""


def drift_on(machine: Machine) -> float:
    """Return by how much log speed-ups are taken to drift from hour to hour on a machine."""
    return SHARED_DRIFT if machine.cpu.is_virtual else 0.0


def z_of(confidence: float) -> float:
    """Return within how many standard deviations a normal value lies with this probability."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


class Errors(NamedTuple):
    """By what the middle of the pairs' log speed-ups differs from the truth, beside the scatter that they show."""

    scatter: Scatter = PAIR_SCATTER  # of pairs, known before they are compared with each other
    long: LongTurns = LongTurns()
    drift: float = 0.0  # standard deviation of the log speed-up from hour to hour

    def below(self, radius: float, z: float) -> float:
        """Return by how much less the log speed-up may be, all errors together: they are independent.

        Args:
            radius: By how much it may be by the scatter of pairs.
            z: Standard deviations of a normal distribution to which the confidence belongs.
        """
        return math.hypot(radius, z * self.drift, self.long.below(z))

    def above(self, radius: float, z: float) -> float:
        """Return by how much more it may be; see `below`."""
        return math.hypot(radius, z * self.drift, self.long.above(z))


NO_OTHERS = Errors()
"""What is known before any pair is seen, and no error beside the scatter."""


def log_ratios(turns: Sequence[Pair]) -> list[float]:
    """Return the logarithm of the speed-up that each turn shows."""
    return [math.log(baseline / candidate) for baseline, candidate in turns]


def middle(values: Sequence[float]) -> float:
    """Return the Hodges-Lehmann estimate of the middle: the median of the means of all pairs of values.

    For normal values it is nearly as exact as the mean, where the median wastes a third of them, and nearly as
    insensitive to a few disturbed ones as the median (Hodges and Lehmann, Annals of Mathematical Statistics 1963).
    """
    return statistics.median((one + other) / 2 for i, one in enumerate(values) for other in values[i:])


def turns_log(turns: Sequence[Pair]) -> float:
    """Return the log speed-up of two processes by their turns: of the mean step times, as a run pays them."""
    center = middle(log_ratios(turns))
    return center + long_turns([turns], [center]).excess


def turns_deviation(logs: Sequence[float]) -> float:
    """Return the standard deviation of the middle over turns of a process, its own luck aside.

    By the median absolute deviation: a few disturbed turns must not make a reading worthless.
    """
    if len(logs) < 2:
        return math.inf
    center = statistics.median(logs)
    spread = 1.4826 * statistics.median(abs(value - center) for value in logs)
    return spread / math.sqrt(len(logs))


def compare_in_process(turns: Sequence[Pair], trusted: bool = True, confidence: float = CONFIDENCE) -> Comparison:
    """Return what one candidate process shows: enough to rank candidates, nothing to claim.

    The interval takes the luck of a process as known, `PROCESS_DEVIATION`.

    Args:
        turns: At least two.
        trusted: Whether the machine was left alone meanwhile; if not, contention may have slowed one side more.
        confidence: Two-sided.

    Raises:
        ValueError: If there are fewer than two turns.
    """
    if len(turns) < 2:
        raise ValueError(f"at least two turns must be given, but got {len(turns)}")
    logs = log_ratios(turns)
    luck = PROCESS_DEVIATION if trusted else _DISTURBED_DEVIATION
    radius = z_of(confidence) * math.hypot(luck, turns_deviation(logs))
    errors = Errors(long=long_turns([turns], [middle(logs)]))
    return _comparison(middle(logs), radius, errors, confidence, (1, len(turns)))


def compare(processes: Sequence[Sequence[Pair]], confidence: float = CONFIDENCE, drift: float = 0.0) -> Comparison:
    """Return what pairs of fresh processes say about a candidate's speed-up over the baseline; see `compare_logs`.

    Args:
        processes: For each pair of fresh processes its turns, at least one.
        confidence: Two-sided.
        drift: Standard deviation of the log speed-up from hour to hour, for which the interval has room.

    Raises:
        ValueError: If there are fewer than two pairs, or one has no turns.
    """
    if len(processes) < 2 or not all(processes):
        raise ValueError("at least two pairs of processes must be given, each with at least one turn")
    logs = pair_logs(processes)
    return compare_logs(logs, sum(map(len, processes)), confidence, errors_of(processes, logs, drift))


def errors_of(processes: Sequence[Sequence[Pair]], logs: Sequence[float], drift: float = 0.0) -> Errors:
    """Return the errors of what pairs say, beside the scatter of their log speed-ups.

    Args:
        processes: For each pair of processes its turns.
        logs: The pairs' `pair_logs`.
        drift: From hour to hour.
    """
    return Errors(scatter_known(processes), long_turns(processes, logs), drift)


def scatter_known(processes: Sequence[Sequence[Pair]]) -> Scatter:
    """Return what is known of the scatter of pairs before they are compared with each other.

    It is the processes' luck together with the error of their turns, which is seen within each pair.
    """
    errors = [turns_deviation(log_ratios(turns)) for turns in processes if len(turns) > 1]
    within = math.sqrt(statistics.fmean(error**2 for error in errors)) if errors else 0.0
    return Scatter(math.hypot(PAIR_SCATTER.deviation, within), PAIR_SCATTER.degrees)


def pair_logs(processes: Sequence[Sequence[Pair]]) -> list[float]:
    """Return the log speed-up that each pair of processes shows: the middle of its turns'."""
    return [middle(log_ratios(turns)) for turns in processes]


def compare_logs(logs: Sequence[float], turns: int, confidence: float, errors: Errors = NO_OTHERS) -> Comparison:
    """Return what the log speed-ups of at least two pairs of processes say of the ratio of mean step times.

    The pair is the unit of repetition (Kalibera and Jones, ISMM 2013): its luck is larger than what more turns could
    average out. Over pairs the middle counts, as over turns: a neighbour slows threads that wait for each other more
    than others, most often the baseline's, so that disturbed pairs read high and drag a mean with them. What turns are
    longer on one side alone is added (`LongTurns`), because a run pays for its rare long steps, too. The interval
    is anytime-valid (`t_radius`), so that one may look after every pair and stop when it says enough. It is made for a
    mean; around the middle it covers no less in simulations, with disturbed pairs as without.
    """
    radius = t_radius(logs, 1 - confidence, errors.scatter)
    return _comparison(middle(logs), radius, errors, confidence, (len(logs), turns))


def without_excess(comparison: Comparison, excess: float, shown: float) -> Comparison:
    """Return the comparison with an estimate that is lower by an excess of its logarithm, and what was shown before.

    Args:
        comparison: Of all values, with an interval that is true at every look.
        excess: See `stopping_excess`.
        shown: Speed-up that the whole interval lay above at an earlier look; at least that of the noise threshold.
    """
    speedup = comparison.speedup * math.exp(-excess)
    low, high = min(max(comparison.low, shown), speedup), max(comparison.high, speedup)
    verdict: Verdict = "faster" if speedup > shown else verdict_of(low, high)
    return msgspec.structs.replace(comparison, speedup=speedup, low=low, high=high, verdict=verdict)


def _comparison(center: float, radius: float, errors: Errors, confidence: float, counts: tuple[int, int]) -> Comparison:
    """Return a comparison of so many pairs and turns, whose middle log speed-up is this, but for the errors."""
    estimate, z = center + errors.long.excess, z_of(confidence)
    low = math.exp(estimate - errors.below(radius, z))
    high = math.exp(min(estimate + errors.above(radius, z), 700.0))
    return Comparison(
        speedup=math.exp(estimate),
        low=low,
        high=high,
        verdict=verdict_of(low, high),
        confidence=confidence,
        process_pairs=counts[0],
        turns=counts[1],
        drift=errors.drift,
    )


def verdict_of(low: float, high: float) -> Verdict:
    """Return the verdict of an interval: faster or slower only where the whole of it clears the noise threshold."""
    if low > 1 + NOISE_THRESHOLD:
        return "faster"
    if high < 1 / (1 + NOISE_THRESHOLD):
        return "slower"
    return "within noise"
