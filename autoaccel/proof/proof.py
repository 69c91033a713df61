"""The proof: settings against the baseline in fresh pairs of processes, their speed and their metric at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

from autoaccel.bench.bench import Compare, FreshPair
from autoaccel.proof.course import Course, Proof
from autoaccel.proof.metric import MetricProof
from autoaccel.records.accuracy import Accuracy, exact_numbers
from autoaccel.records.conclusion import Obstacle
from autoaccel.records.contender import ProofResult
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Listener, Note, PairFinished, StageStarted
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.conclusions import trainings_words
from autoaccel.report.rounding import rounding_words
from autoaccel.search.instruments import Clock, Reading
from autoaccel.statistics.comparison import Pair, compare
from autoaccel.statistics.deciding import FURTHER_PAIRS, MIN_PAIRS, SpeedRule


class _Refusal(NamedTuple):
    """Why settings are not proven, by what is known of their metric."""

    result: ProofResult
    obstacle: Obstacle = None


class Prover:
    """Proves settings against the baseline, with pair after pair of processes, until it is clear what holds.

    Once the speed is proven, and as long as it is open whether the metric holds, the pairs train to their end and are
    evaluated: the steps that judge the metric make the speed's interval narrower too. Where updates are to tell, they
    are compared then.
    """

    def __init__(self, compare: Compare, facts: TrainingFacts, clock: Clock, tell: Listener) -> None:
        """Begin with nothing proven.

        Args:
            compare: Measures a pair.
            facts: Of the training.
            clock: Knows the budget.
            tell: Told what happens.
        """
        self._compare = compare
        self._facts = facts
        self._clock = clock
        self._tell = tell

    def prove(
        self,
        settings: Settings,
        rule: SpeedRule,
        metric: MetricProof | None,
        keep: Callable[[Proof, int], None] | None = None,
        known: Accuracy | None = None,
        clearer_seconds: float = math.inf,
        is_spared: bool = False,
    ) -> Proof:
        """Return what pairs of processes say of the settings.

        Args:
            settings: What to prove.
            rule: By which their speed is judged.
            metric: What shows whether the metric is kept; None if nothing need be shown.
            keep: Called with what is proven before further pairs, if there are any, tell how much faster it is, and
                with how many these are expected to be.
            known: Of the metric, where nothing need be shown; None: the settings change no number.
            clearer_seconds: That pairs may take which only make a proven speed-up clearer, and confirm nothing.
            is_spared: Whether all that the settings change is that the operating system does less, so that what it
                does is evidence of its own.
        """
        known = known or exact_numbers(self._facts.metric, self._facts.direction)
        course = Course(rule, metric, known, is_spared)
        most = rule.max_pairs + FURTHER_PAIRS
        obstacle: Obstacle = "pairs disturbed"
        clear_until: float | None = None  # by the clock; None: no pair was made yet that only makes the speed clearer
        for number in itertools.count(1):
            if not course.is_faster and number > rule.max_pairs:
                obstacle = "pairs undecided" if len(course.pairs) == rule.max_pairs else obstacle
                break
            training = self._next_training(metric, course.is_faster)
            before = self._clock.spent
            reading = self._measure_pair(settings, number, training)
            pair_seconds = self._clock.spent - before
            if isinstance(reading, Failure) and reading.kind != "hung":
                return course.ended("fails", reading)
            if isinstance(reading, Failure):
                obstacle = "budget spent"
                break
            if reading.trend:
                course.begin_anew()
            elif reading.trusted:
                course.add(reading)
            if reading.trend == "given up":
                return course.ended("incomplete", "speed settles")
            self._tell(PairFinished(number, most, settings, course.comparison, course.accuracy))
            if refusal := self._refusal_after(course, reading, training, pair_seconds):
                return course.ended(*refusal)
            if course.holds:
                missing_pairs = min(course.missing_pairs, most - number)
                if missing_pairs <= 0:  # trainings for the metric may have made more pairs than the speed may take
                    break
                is_first, clear_until = clear_until is None, clear_until or self._clock.spent + clearer_seconds
                if self._clock.spent + pair_seconds > clear_until and not course.confirming_pairs:
                    break
                if metric is not None and is_first:
                    self._tell(StageStarted("confirm", "more pairs, until the speed is known well enough"))
                if keep is not None and (early := course.concluded()).result == "proven":
                    keep(early, missing_pairs)
                    keep = None
        return course.concluded() if course.holds else course.ended("incomplete", obstacle)

    def _measure_pair(self, settings: Settings, number: int, training: MetricProof | None) -> Reading | Failure:
        """Return what the n-th pair shows, which may train for the metric, too."""
        seed, steps = (training.trained, training.plan.steps) if training else (number - 1, None)
        reading = self._compare(settings, FreshPair(seed, steps))
        if training is not None and not isinstance(reading, Failure) and reading.trained is not None:
            training.add(reading.trained)
        return reading

    def _refusal_after(
        self, course: Course, reading: Reading, training: MetricProof | None, pair_seconds: float
    ) -> _Refusal | None:
        """Decide by one more pair what is open; return why the settings are refused, if they are."""
        if reading.own_failure is not None:
            return _Refusal("metric unclear", reading.own_failure)
        if training is not None and (refusal := self._refusal_by_runs(training, pair_seconds)):
            return refusal
        if reading.trusted and not reading.trend and (refusal := self._refusal_by_speed(course)):
            return refusal
        if course.holds and course.missing_pairs <= 0 and not course.stands:
            course.reopen()
            return self._refusal_by_speed(course)
        return None

    def _next_training(self, metric: MetricProof | None, is_faster: bool) -> MetricProof | None:
        """Return the metric's proof if the next pair is to train for it: costly runs wait until they are worth it."""
        if metric is None or metric.status != "open" or metric.plan.evidence == "rounding":
            return None
        return metric if is_faster or metric.plan.at_once else None

    def _refusal_by_speed(self, course: Course) -> _Refusal | None:
        """Decide whether settings are faster, if that is open and one more pair counts; return why they are refused.

        If they are faster, their metric begins to be judged, which may refuse them at once.
        """
        decision = None if course.is_faster else course.decision
        if decision is None:
            return None
        if not decision:
            return _Refusal("not faster")
        course.decide(self._clock.spent)
        return self._begin_metric(course.metric)

    def _begin_metric(self, metric: MetricProof | None) -> _Refusal | None:
        """Begin to judge the metric of what is faster; return why it is refused if that is told at once."""
        if metric is None or metric.status != "open":
            return None
        metric.plan_the_rest()
        if not metric.plan.fits:
            return _Refusal("incomplete", metric.missing(0.0))
        self._tell(StageStarted("metric", f"whether your metric is kept, by {trainings_words(metric.plan)}"))
        if metric.plan.evidence != "rounding":
            return None
        found = metric.compare_updates()
        if found is None or (isinstance(found, Failure) and found.kind == "hung"):
            return _Refusal("incomplete", found or metric.missing(0.0))
        if isinstance(found, Failure):
            return _Refusal("fails", found)
        if found.verdict != "holds":
            return _Refusal("metric unclear" if found.verdict == "open" else "more than rounding", found)
        self._tell(Note(rounding_words(found)))
        return None

    def _refusal_by_runs(self, metric: MetricProof, pair_seconds: float) -> _Refusal | None:
        """Return why settings are given up after a pair of trainings, if they are.

        Args:
            metric: What the trainings so far say.
            pair_seconds: What the last pair has taken.
        """
        if metric.status == "holds":
            return None
        verdict = metric.given_up(int(self._clock.left // max(pair_seconds, 1e-9)))
        if verdict is None:
            return None
        found = metric.compare_updates()
        if isinstance(found, RoundingEvidence) and found.verdict == "holds":
            self._tell(Note(f"the runs do not decide whether the metric is kept; {rounding_words(found)}"))
            return None
        if verdict == "drops":
            return _Refusal("metric drops")
        if isinstance(found, RoundingEvidence) and found.verdict == "too large":
            return _Refusal("more than rounding", found)
        unclear: ProofResult = "incomplete" if metric.accuracy is None else "metric unclear"
        return _Refusal(unclear, metric.missing(pair_seconds))

    def measure(
        self, settings: Settings, min_pairs: int, clear: Callable[[Comparison], bool] | None = None
    ) -> Comparison | Failure | None:
        """Return what pairs say of the settings' speed, at least `min_pairs` and at least two of them.

        If the budget is spent before, what the pairs until then say; None if there are fewer than two.

        Args:
            settings: What to measure.
            min_pairs: How many pairs there are before `clear` is asked.
            clear: Asked after each further pair whether they are enough; None: `min_pairs` are.
        """
        pairs: list[list[Pair]] = []
        comparison: Comparison | None = None
        max_pairs = min_pairs if clear is None else None
        while True:
            reading = self._compare(settings, FreshPair(len(pairs)))
            if isinstance(reading, Failure):
                return comparison if reading.kind == "hung" and self._clock.left <= 0 else reading
            if reading.trend:
                pairs.clear()
            else:
                pairs.append(reading.pairs)
            comparison = compare(pairs) if len(pairs) >= MIN_PAIRS else None
            self._tell(PairFinished(len(pairs), max_pairs, settings, comparison))
            if comparison is not None and len(pairs) >= min_pairs and (clear is None or clear(comparison)):
                return comparison
