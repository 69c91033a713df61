"""The proof: settings against the baseline in fresh pairs of processes, their speed and their metric at once."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from autoaccel.records.progress import RoundFinished
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Accuracy, Comparison, Failure, Measure, ProofPair
from autoaccel.records.workload import TrainingFacts
from autoaccel.session.run import Run
from autoaccel.session.turns import TurnFailed, take_turns
from autoaccel.session.workers import start_together
from autoaccel.statistics.accuracy import MetricStatus, compare_metric, confidence_of_look, metric_status
from autoaccel.statistics.comparison import CONFIDENCE, NOISE_THRESHOLD, Pair, compare, log_ratios, middle

LEAST_PAIRS = 3  # with fewer no interval exists
MOST_PAIRS = 16
_ENOUGH_PAIRS = 10  # what is proven by then is not measured any longer
MOST_CONTENDERS = 3  # settings that are tried to be proven in one run
TURNS = 8
"""Of each process in a pair, unless it trains to its end and has more. Of the two costs, starting processes and taking
turns, and the two spreads, between processes and within, Kalibera and Jones (ISMM 2013) make the best number:
sqrt(1.6 s / 0.5 s) * 0.12 / 0.03, about 7."""

_MOST_TURNS = 40  # more could not make a pair's ratio better: its processes' luck is larger by then

_PRECISE = 0.02
"""A claim whose standard error is below this is not made sharper: 2 % decides nothing."""

_BUDGET_SHARE = 0.4  # of the budget may go into training runs for the metric
_LEAST_STEPS = 20  # a metric after fewer says nothing


def metric_steps(planned_steps: int, metric_repeats: int, budget_seconds: float, step_seconds: float) -> int:
    """Return how many steps each training run that judges the metric makes: the planned run if time allows."""
    allowed = _BUDGET_SHARE * budget_seconds / (2 * metric_repeats)
    return max(min(planned_steps, _LEAST_STEPS), min(planned_steps, int(allowed / step_seconds)))


def proof_seconds(steps: int, metric_repeats: int, step_seconds: float, trial_seconds: float) -> float:
    """Return about how long a proof takes that must judge the metric."""
    return metric_repeats * 2 * steps * step_seconds + 2 * LEAST_PAIRS * trial_seconds


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


class Prover:
    """Proves settings against the baseline.

    Each pair of processes trains from a seed of its own, both from the same, in turns. Once the speed is proven, and as
    long as it is open whether the metric holds, the training goes on to its end and is evaluated: the steps that
    judge the metric make the speed's interval narrower too.
    """

    def __init__(
        self, run: Run, facts: TrainingFacts, own: Settings, turn_seconds: float, usual: float, fresh: bool = False
    ) -> None:
        """Begin with nothing proven.

        Args:
            run: What all stages share.
            facts: Of the training.
            own: The baseline's settings.
            turn_seconds: How long a turn is.
            usual: What a step of the baseline takes while nothing disturbs it.
            fresh: Whether the processes must be programs of their own.
        """
        self._run = run
        self._facts = facts
        self._own = own
        self._turn_seconds = turn_seconds
        self._own_seconds = [usual]
        self._fresh = fresh
        self._started = 0
        self._turns = 0
        self._disturbed = 0

    @property
    def disturbed_share(self) -> float:
        """Share of the turns that were disturbed."""
        return self._disturbed / max(1, self._turns)

    def prove(
        self, settings: Settings, contender: int, steps: int | None, least_speedup: float, most_pairs: int = MOST_PAIRS
    ) -> Proof:
        """Measure pair after pair until it is clear what holds, and how much it is.

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
        message = "the budget was spent"
        for number in range(1, most_pairs + 1):
            # Trainings are dear: first it must be worth having them.
            trains = metric == "open" and (proven_after is not None or self._is_short(steps))
            measured = self._measure_pair(settings, len(metrics) if trains else number - 1, steps if trains else None)
            if isinstance(measured, Failure):
                message = measured.message
                break
            pairs.append(measured.turns)
            if measured.metrics is not None:
                metrics.append(measured.metrics)
                accuracy = self._compare_metrics(metrics, steps, error) or accuracy
                metric = metric_status(accuracy, self._run.request.constraint, 2 * self._run.request.metric_repeats)
            comparison = compare(pairs, 1 - error) if number >= LEAST_PAIRS else None
            self._run.tell(RoundFinished(number, most_pairs, settings, comparison, accuracy))
            if metric == "drops":
                return Proof("metric drops", pairs, comparison, accuracy)
            if comparison is None:
                continue
            if comparison.high < max(least_speedup, 1 + NOISE_THRESHOLD):
                return Proof("not faster", pairs, comparison, accuracy)
            if _is_faster(comparison, least_speedup):
                proven_after = self._run.clock.spent if proven_after is None else proven_after
                if metric == "holds" and (_is_precise(pairs) or number >= _ENOUGH_PAIRS):
                    break
        if comparison is None or metric == "open":
            return Proof("incomplete", pairs, comparison, accuracy, message)
        outcome: Literal["proven", "not faster"] = "proven" if _is_faster(comparison, least_speedup) else "not faster"
        return Proof(outcome, pairs, comparison, accuracy, proven_after_seconds=proven_after)

    def measure(self, settings: Settings, rounds: int) -> Comparison | Failure:
        """Return what this many pairs say, at least three, without a verdict to reach."""
        pairs: list[list[Pair]] = []
        for number in range(1, rounds + 1):
            measured = self._measure_pair(settings, number - 1, None)
            if isinstance(measured, Failure):
                return measured
            pairs.append(measured.turns)
            comparison = compare(pairs) if number >= LEAST_PAIRS else None
            self._run.tell(RoundFinished(number, rounds, settings, comparison))
        return compare(pairs)

    def _is_short(self, steps: int | None) -> bool:
        """Whether a training that judges the metric takes hardly longer than the turns that judge the speed."""
        return steps is not None and steps * self._own_seconds[0] <= 2 * TURNS * self._turn_seconds

    def _compare_metrics(self, metrics: list[tuple[float, float]], steps: int | None, error: float) -> Accuracy | None:
        """Return what the metrics so far say; None as long as they are fewer than were asked for."""
        request = self._run.request
        look = len(metrics) - request.metric_repeats + 1
        if look < 1 or steps is None:
            return None
        return compare_metric(
            self._facts.metric,
            self._facts.direction,
            [own for own, _ in metrics],
            [other for _, other in metrics],
            share=steps / self._facts.planned_steps,
            constraint=request.constraint,
            confidence=confidence_of_look(look, error),
        )

    def _measure_pair(self, settings: Settings, seed: int, steps: int | None) -> _Measured | Failure:
        """Return the turns of one pair of processes, and their metrics if they train to the end."""
        self._started += 1
        names = [f"proof-{self._started:02d}-{side}" for side in ("baseline", "recipe")]
        runner, clock = self._run.runner, self._run.clock
        task = Measure(seed=seed, steps=steps)
        sides = start_together(runner, task, [self._own, settings], names, clock.left, self._fresh)
        try:
            own, other = sides
            if isinstance(own, Failure):
                return own
            if isinstance(other, Failure):
                return other
            most = TURNS if steps is None else _MOST_TURNS  # steps that are trained anyway cost nothing more
            turns = take_turns(
                own,
                other,
                self._turn_seconds,
                self._facts.steps_per_epoch,
                self._own_seconds,
                lambda pairs: len(pairs) >= most,
                clock.left,
            )
            if isinstance(turns, TurnFailed):
                return turns.failure
            self._own_seconds.extend(turns.own_seconds)
            self._turns += len(turns.own_seconds)
            self._disturbed += turns.disturbed
            if not turns.pairs:
                return Failure(kind="hung", message="the training is too short for a turn")
            metrics: tuple[float, float] | None = None
            if steps is not None:
                ended = [own.finish(clock.left), other.finish(clock.left)]
                found = [answer.metric for answer in ended if not isinstance(answer, Failure)]
                if len(found) < 2:
                    return next(answer for answer in ended if isinstance(answer, Failure))
                metrics = (found[0], found[1])
            self._run.folder.add_pair(ProofPair(settings, seed, own.measurement, other.measurement, metrics))
            return _Measured(turns.pairs, metrics)
        finally:
            for side in sides:
                if not isinstance(side, Failure):
                    side.close()


class _Measured(NamedTuple):
    turns: list[Pair]
    metrics: tuple[float, float] | None  # the baseline's and the settings'


def _is_faster(comparison: Comparison, least_speedup: float) -> bool:
    return comparison.verdict == "faster" and comparison.low > least_speedup


def _is_precise(pairs: Sequence[Sequence[Pair]]) -> bool:
    logs = [middle(log_ratios(turns)) for turns in pairs]
    return statistics.stdev(logs) / math.sqrt(len(logs)) < _PRECISE
