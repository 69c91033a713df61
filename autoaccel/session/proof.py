"""The proof: settings against the baseline in fresh pairs of processes, their speed and their metric at once."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from autoaccel.records.progress import RoundFinished
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Accuracy, Comparison, Failure
from autoaccel.records.workload import TrainingFacts
from autoaccel.session.pairs import PairReading
from autoaccel.session.run import Run
from autoaccel.session.yardstick import Yardstick
from autoaccel.statistics.accuracy import MetricStatus, compare_metric, confidence_of_look, metric_status
from autoaccel.statistics.comparison import (
    CONFIDENCE,
    NOISE_THRESHOLD,
    PROCESS_DEVIATION,
    Pair,
    compare,
    log_ratios,
    middle,
)
from autoaccel.statistics.sequences import t_radius_for

LEAST_PAIRS = 3  # with fewer no interval exists
MOST_PAIRS = 16
_ENOUGH_PAIRS = 10  # what is proven by then is not measured any longer
_LEAST_PAIRS_TO_GIVE_UP = 5  # with fewer the spread is hardly known
MOST_CONTENDERS = 3  # settings that are tried to be proven in one run
_PRECISE = 0.02
"""A claim whose standard error is below this is not made sharper: 2 % decides nothing."""

_MARGIN = 1.2  # a machine that slows down by less must not leave a proof open for want of seconds
_BUDGET_SHARE = 0.4  # of the budget may go into training runs for the metric
_LEAST_STEPS = 20  # a metric after fewer says nothing


def metric_steps(planned_steps: int, metric_repeats: int, budget_seconds: float, step_seconds: float) -> int:
    """Return how many steps each training run that judges the metric makes: the planned run if time allows."""
    allowed = _BUDGET_SHARE * budget_seconds / (2 * metric_repeats)
    return max(min(planned_steps, _LEAST_STEPS), min(planned_steps, int(allowed / step_seconds)))


def proof_seconds(steps: int | None, metric_repeats: int, yardstick: Yardstick, speedup: float | None) -> float:
    """Return how long a proof may take: what is to be expected, and a fifth.

    Args:
        steps: Of each training that judges the metric; None: it need not be judged.
        metric_repeats: How many pairs train.
        yardstick: The baseline, and what starting and turns take.
        speedup: Of the settings' steps over the baseline's; None if there are no settings to prove yet.
    """
    pair_seconds = yardstick.ready_seconds + yardstick.trial_seconds  # a trial starts one process, a pair two
    pairs = expected_pairs(speedup) if speedup else LEAST_PAIRS
    if steps is None:
        return _MARGIN * max(2 * LEAST_PAIRS, pairs) * pair_seconds
    training_seconds = 2 * yardstick.ready_seconds + steps * yardstick.step_seconds * (1 + 1 / (speedup or 1.0))
    return _MARGIN * (max(LEAST_PAIRS + 1, pairs) * pair_seconds + metric_repeats * training_seconds)


def expected_pairs(speedup: float) -> int:
    """Return how many pairs it takes to prove a speed-up, if processes scatter as they usually do: at most all."""
    gap = math.log(speedup / (1 + NOISE_THRESHOLD))
    error = (1 - CONFIDENCE) * share_of_error(1)
    enough = (count for count in range(LEAST_PAIRS, MOST_PAIRS) if t_radius_for(count, PROCESS_DEVIATION, error) <= gap)
    return next(enough, MOST_PAIRS)


def share_of_error(contender: int) -> float:
    """Return what part of the allowed error the proof of the n-th contender, from 1, may use up.

    Halves: whoever tries contender after contender finds one that looks proven, so together they share one error.
    """
    return 0.5**contender


class Proof(NamedTuple):
    """What came of it."""

    outcome: Literal["proven", "not faster", "metric drops", "incomplete"]
    pairs: list[list[Pair]]  # turns that count, for each pair of processes
    comparison: Comparison | None  # None with fewer than three pairs
    accuracy: Accuracy | None  # None where the metric was not measured
    message: str = ""  # why it is incomplete
    proven_after_seconds: float | None = None  # since the start of the run; of the speed, before the metric's proof

    @property
    def own_step_seconds(self) -> float:
        """The baseline's step time: the median over all turns."""
        return statistics.median(own for turns in self.pairs for own, _ in turns)


class PairSource(Protocol):
    """What measures a pair: `FreshPairs`, or readings that were taken before."""

    def measure(self, settings: Settings, seed: int, steps: int | None) -> PairReading | Failure: ...

    def is_short(self, steps: int) -> bool: ...


class Prover:
    """Proves settings against the baseline, with pair after pair of processes, until it is clear what holds.

    Once the speed is proven, and as long as it is open whether the metric holds, the pairs train to their end and are
    evaluated: the steps that judge the metric make the speed's interval narrower too.
    """

    def __init__(self, run: Run, facts: TrainingFacts, pairs: PairSource) -> None:
        """Begin with nothing proven."""
        self._run = run
        self._facts = facts
        self._pairs = pairs

    def prove(
        self, settings: Settings, contender: int, steps: int | None, least_speedup: float, most_pairs: int = MOST_PAIRS
    ) -> Proof:
        """Return what pairs of processes say of the settings.

        Args:
            settings: What to prove.
            contender: The how manyth settings of this run these are, from 1.
            steps: Of the trainings that judge the metric; None if the settings change no number.
            least_speedup: Of the steps, with which the settings are worth having.
            most_pairs: At most so many are measured.
        """
        error = (1 - CONFIDENCE) * share_of_error(contender)
        pairs: list[list[Pair]] = []
        metrics: list[tuple[float, float]] = []
        comparison: Comparison | None = None
        accuracy: Accuracy | None = None
        metric: MetricStatus = "holds" if steps is None else "open"
        proven_after: float | None = None
        message = "too few pairs were undisturbed"
        for number in range(1, most_pairs + 1):
            # Trainings are dear: first it must be worth having them.
            trains = metric == "open" and (
                proven_after is not None or (steps is not None and self._pairs.is_short(steps))
            )
            seed = len(metrics) if trains else number - 1
            reading = self._pairs.measure(settings, seed, steps if trains else None)
            if isinstance(reading, Failure):
                message = "the budget was spent" if reading.kind == "hung" else reading.message
                break
            if reading.trusted:
                pairs.append(reading.turns)
            if reading.metrics is not None:
                metrics.append(reading.metrics)
                accuracy = self._compare_metrics(metrics, steps, error) or accuracy
                metric = metric_status(accuracy, self._run.request.constraint, 2 * self._run.request.metric_repeats)
            comparison = compare(pairs, 1 - error) if len(pairs) >= LEAST_PAIRS else None
            self._run.tell(RoundFinished(number, most_pairs, settings, comparison, accuracy))
            if metric == "drops":
                return Proof("metric drops", pairs, comparison, accuracy)
            if comparison is None:
                continue
            if _is_futile(pairs, comparison, least_speedup, most_pairs):
                return Proof("not faster", pairs, comparison, accuracy)
            if _is_faster(comparison, least_speedup):
                proven_after = self._run.clock.spent if proven_after is None else proven_after
                if metric == "holds" and (_is_precise(pairs) or len(pairs) >= _ENOUGH_PAIRS):
                    break
        if comparison is None or metric == "open":
            return Proof("incomplete", pairs, comparison, accuracy, message)
        outcome: Literal["proven", "not faster"] = "proven" if _is_faster(comparison, least_speedup) else "not faster"
        return Proof(outcome, pairs, comparison, accuracy, proven_after_seconds=proven_after)

    def measure(
        self, settings: Settings, least_pairs: int, clear: Callable[[Comparison], bool] | None = None
    ) -> Comparison | Failure:
        """Return what pairs say of the settings' speed: at least so many, at least three.

        Args:
            settings: What to measure.
            least_pairs: How many pairs there are before anybody is asked.
            clear: Asked after each further pair whether they are enough; None: they are. If the budget is spent
                before, what the pairs until then say is returned.
        """
        pairs: list[list[Pair]] = []
        comparison: Comparison | None = None
        most_pairs = least_pairs if clear is None else None
        while True:
            reading = self._pairs.measure(settings, len(pairs), None)
            if isinstance(reading, Failure):
                return comparison if comparison is not None and reading.kind == "hung" else reading
            pairs.append(reading.turns)
            comparison = compare(pairs) if len(pairs) >= LEAST_PAIRS else None
            self._run.tell(RoundFinished(len(pairs), most_pairs, settings, comparison))
            if comparison is not None and len(pairs) >= least_pairs and (clear is None or clear(comparison)):
                return comparison

    def _compare_metrics(self, metrics: list[tuple[float, float]], steps: int | None, error: float) -> Accuracy | None:
        """Return what the metrics so far say; None as long as they are fewer than were asked for."""
        request = self._run.request
        if len(metrics) < request.metric_repeats or steps is None:
            return None
        return compare_metric(
            self._facts.metric,
            self._facts.direction,
            [own for own, _ in metrics],
            [other for _, other in metrics],
            share=steps / self._facts.planned_steps,
            constraint=request.constraint,
            confidence=confidence_of_look(len(metrics), request.metric_repeats, 2 * request.metric_repeats, error),
        )


def _is_faster(comparison: Comparison, least_speedup: float) -> bool:
    return comparison.verdict == "faster" and comparison.low > least_speedup


def _is_futile(pairs: Sequence[Sequence[Pair]], comparison: Comparison, least_speedup: float, most_pairs: int) -> bool:
    """Whether the settings are not faster, or so little that the pairs that are left could hardly show it.

    To give up too early loses a small gain and claims nothing, so that no error is spent on it.
    """
    needed = max(least_speedup, 1 + NOISE_THRESHOLD)
    if comparison.high < needed:
        return True
    if len(pairs) < _LEAST_PAIRS_TO_GIVE_UP:
        return False
    logs = [middle(log_ratios(turns)) for turns in pairs]
    deviation = statistics.stdev(logs)
    hoped = statistics.fmean(logs) + deviation / math.sqrt(len(logs))
    return hoped - t_radius_for(most_pairs, deviation, 1 - comparison.confidence) < math.log(needed)


def _is_precise(pairs: Sequence[Sequence[Pair]]) -> bool:
    logs = [middle(log_ratios(turns)) for turns in pairs]
    return statistics.stdev(logs) / math.sqrt(len(logs)) < _PRECISE
