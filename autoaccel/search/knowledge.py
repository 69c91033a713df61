"""Knowledge: what all trials together say of settings, of what they cost, and of what fails."""

from __future__ import annotations

import copy
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.search.failures import Cause, Failed, find_causes
from autoaccel.search.starts import SlowStarts
from autoaccel.search.surrogate import Surrogate, Vector
from autoaccel.search.task import SearchTask
from autoaccel.space.knobs import compiled_part, count_processes, slow_starting_knobs
from autoaccel.statistics.comparison import (
    CONFIDENCE,
    NOISE_THRESHOLD,
    PROCESS_DEVIATION,
    Pair,
    compare_in_process,
)
from autoaccel.statistics.runs import CompileSeconds, slowest_start

READING_DEVIATION = math.hypot(PROCESS_DEVIATION, 0.03)
"""Of the next reading: its process and its turns, as TURNS has it."""

_HOPED = 2.0  # standard deviations by which settings may turn out faster than they are expected to be


class Ranked(NamedTuple):
    """Settings as all trials together see them."""

    settings: Settings
    log_speedup: float
    total_seconds: float


class KnownSpeedup(NamedTuple):
    """What pairs of processes showed of settings beside the trials: mean and deviation of the log speed-up."""

    settings: Settings
    log_speedup: float
    deviation: float


class Reached(NamedTuple):
    """What a trial came to when it was learned."""

    settings: Settings
    total_seconds: float


class Knowledge:
    """Learns from trials, whoever has chosen them."""

    def __init__(self, task: SearchTask) -> None:
        """Begin with nothing tried but the baseline."""
        space, baseline, prior = task.space, task.baseline, task.prior
        self.task = task
        self.space = space
        self._baseline = baseline
        self._economy = task.economy
        self._baseline_compiled = compiled_part(baseline)
        self._surrogate = Surrogate(space, baseline, prior.deviations, prior.halvings)
        self._measured: dict[str, Settings] = {}
        self._readings = Counter[str]()  # of what was measured
        self._failed: set[str] = set()
        self._failures: list[Failed] = []
        self.causes: list[Cause] = []
        """What explains the failures so far."""
        self.reached: list[Reached] = []
        """What could be measured, in its order."""
        self._infeasible: list[Settings] = []
        self._starts = SlowStarts(prior.compile_seconds)
        self._trial_seconds = defaultdict[int, list[float]](list)  # by the number of processes that train

    def learn(self, trial: Trial) -> None:
        """Take a finished trial into account, a failed one and one of an earlier part of the run included."""
        key = settings_key(trial.settings)
        if trial.comparison is None or not isinstance(trial.outcome, Measurement):
            self._failed.add(key)
            is_explained = self._starts.explain(trial, self._baseline, self._measured.values())
            if isinstance(trial.outcome, Failure) and not is_explained:
                self._failures.append(Failed(changed(trial.settings, self._baseline), trial.outcome))
            self._explain_failures()
            return
        starts_slowly = self._starts_slowly(trial.settings)
        if not starts_slowly or self._starts.known(trial.settings) is not None:
            self._trial_seconds[count_processes(trial.settings)].append(trial.spent_seconds)
        if starts_slowly:
            self._starts.learn(trial.settings, trial.outcome, trial.host)
        self._measured[key] = trial.settings
        self.read(trial.settings, trial.comparison)
        self._explain_failures()
        total_seconds = self.total_seconds(trial.settings, math.log(trial.comparison.speedup))
        self.reached.append(Reached(trial.settings, total_seconds))

    def read(self, settings: Settings, comparison: Comparison) -> None:
        """Take one more reading of settings into account: a pair of processes, of a trial or of a proof."""
        self._readings[settings_key(settings)] += 1
        self._surrogate.learn(settings, math.log(comparison.speedup), _deviation(comparison))

    def read_pairs(self, settings: Settings, pairs: Sequence[Sequence[Pair]]) -> None:
        """Take the pairs of a proof into account: each tells as much of its settings as a trial."""
        for turns in pairs:
            if len(turns) > 1:
                self.read(settings, compare_in_process(turns))

    def _explain_failures(self) -> None:
        """Find again what the failures have in common; what works, here or on another machine, is not to blame."""
        if self._failures:
            works = [changed(settings, self._baseline) for settings in self._measured.values()]
            self.causes = find_causes(self._failures, works)

    def rule_out(self, settings: Settings) -> None:
        """Never try or rank what contains these settings: they harm the metric."""
        self._infeasible.append(settings)

    # --- what may be tried ----------------------------------------------------------------------------------

    @property
    def has_tried(self) -> bool:
        """Whether any trial has ended, measured or failed."""
        return bool(self._measured or self._failed)

    @property
    def has_measured(self) -> bool:
        """Whether any settings but the baseline's could be measured."""
        return bool(self._measured)

    def readings_of(self, settings: Settings) -> int:
        """Return how often settings were measured."""
        return self._readings[settings_key(settings)]

    def is_new(self, settings: Settings) -> bool:
        """Whether settings were not tried, and may be."""
        key = settings_key(settings)
        tried = key in self._measured or key in self._failed or settings == self._baseline
        if tried or self._starts.is_given_up(settings) or not self.space.allows(settings):
            return False
        return self._is_feasible(settings) and self.chance(settings) > 0

    def is_ruled_out(self, settings: Settings) -> bool:
        """Whether settings failed, or contain what is never to be tried or ranked again."""
        return settings_key(settings) in self._failed or not self._is_feasible(settings)

    def is_given_up(self, settings: Settings) -> bool:
        """Whether settings are not tried because something that is compiled alike took too long."""
        return self._starts.is_given_up(settings)

    def chance(self, settings: Settings) -> float:
        """Return the probability that settings work, by the failures of others; 0 if they contain what is to blame."""
        if not self.causes:
            return 1.0
        change = changed(settings, self._baseline)
        return math.prod(1 - cause.doubt(change) for cause in self.causes)

    def _is_feasible(self, settings: Settings) -> bool:
        return not any(one.items() <= settings.items() for one in self._infeasible)

    # --- how fast settings are ------------------------------------------------------------------------------

    def predict(self, settings: Sequence[Settings]) -> tuple[Vector, Vector]:
        """Return mean and standard deviation of the log speed-up of each settings."""
        return self._surrogate.predict(settings)

    def expects(self, settings: Settings) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm of the speed-up that a reading would show."""
        mean, deviation = self.predict([settings])
        return float(mean[0]), math.hypot(float(deviation[0]), READING_DEVIATION)

    def contrast(
        self, settings: Sequence[Settings], weights: Sequence[float], known: Sequence[KnownSpeedup] = ()
    ) -> tuple[float, float]:
        """Return mean and standard deviation of the weighted sum of the settings' log speed-ups.

        Args:
            settings: Whose.
            weights: One for each.
            known: Speed-ups that were measured beside the trials.
        """
        surrogate = copy.deepcopy(self._surrogate) if known else self._surrogate
        for one in known:
            surrogate.learn(*one)
        return surrogate.contrast(settings, weights)

    def ranked(self, also: Sequence[Settings] = ()) -> list[Ranked]:
        """Return what was measured and is not ruled out, the shortest projected run first.

        Args:
            also: Settings that are ranked with them if they could be measured, and were not.
        """
        tried = [settings for settings in self._measured.values() if self._is_feasible(settings)]
        tried += {settings_key(one): one for one in also if self.is_new(one)}.values()
        mean, _ = self.predict(tried)
        totals = self._economy.total_seconds(mean, np.array([self.average_start(one) for one in tried]))
        found = [Ranked(*entry) for entry in zip(tried, mean.tolist(), totals.tolist(), strict=True)]
        return sorted(found, key=lambda ranked: ranked.total_seconds)

    # --- what settings cost ---------------------------------------------------------------------------------

    @property
    def trial_seconds(self) -> float:
        """What a trial usually takes that compiles nothing."""
        found = list(itertools.chain.from_iterable(self._trial_seconds.values()))
        return statistics.median(found) if found else self._economy.trial_seconds

    def cost_seconds(self, settings: Settings) -> float:
        """Return what a trial of settings is expected to take: to start several processes takes longer."""
        alike = self._trial_seconds.get(count_processes(settings))
        usual = statistics.median(alike) if alike else self.trial_seconds
        is_cold = self._starts_slowly(settings) and self._starts.known(settings) is None
        return usual + (self.compile_seconds(settings).cold if is_cold else 0.0)

    def compile_seconds(self, settings: Settings) -> CompileSeconds:
        """Return what slower first steps cost the first run under these settings, and what all later ones."""
        if self._starts_slowly(settings):
            return self._starts.expected(settings)
        return CompileSeconds(self._economy.compile_seconds, self._economy.compile_seconds)

    def extra_start_seconds(self, settings: Settings) -> float:
        """Return how much longer than the baseline's a process takes to start that finds its code compiled."""
        return max(0.0, self.compile_seconds(settings).warm - self._economy.compile_seconds)

    def average_start(self, settings: Settings) -> float:
        """Return what slower first steps cost a run on average over all that will be made."""
        return self.compile_seconds(settings).average(self._economy.trainings)

    def total_seconds(self, settings: Settings, log_speedup: float) -> float:
        """Return the projected time of an average run under settings whose steps have this log speed-up."""
        return float(self._economy.total_seconds(log_speedup, self.average_start(settings)))

    def min_speedup(self, settings: Settings) -> float:
        """Return the speed-up of the steps with which a whole run under these settings is noticeably shorter.

        The run is an average one of all that will be made. Its slower start, which was measured once, is taken to last
        as long as it plausibly may.
        """
        total_seconds = self._economy.baseline_total_seconds / (1 + NOISE_THRESHOLD)
        baseline_start = self._economy.compile_seconds
        extra = slowest_start(max(0.0, self.average_start(settings) - baseline_start), CONFIDENCE)
        return math.exp(self._economy.log_speedup_for(total_seconds, baseline_start + extra))

    def learn_warm_start(self, settings: Settings, seconds: float) -> None:
        """Take into account what slower first steps cost a process that found compiled what trials have left."""
        if self._starts_slowly(settings):
            self._starts.learn_warm(settings, seconds)

    def max_cold_seconds(self, settings: Settings) -> float:
        """Return how long a first compilation could take for the settings still to become the best over all runs.

        Their steps are taken to be as fast as can be hoped: two deviations faster than expected.
        """
        mean, deviation = self.expects(settings)
        best = min([self._economy.baseline_total_seconds, *(entry.total_seconds for entry in self.ranked()[:1])])
        return self._economy.cold_seconds_for(best, mean + _HOPED * deviation)

    def _starts_slowly(self, settings: Settings) -> bool:
        """Whether the first steps take longer than the baseline's: not where what is compiled is what it compiles."""
        return bool(slow_starting_knobs(settings)) and compiled_part(settings) != self._baseline_compiled


def _deviation(comparison: Comparison) -> float:
    """Return the standard deviation of the log speed-up that an interval stands for."""
    z = NormalDist().inv_cdf((1 + comparison.confidence) / 2)
    return math.log(comparison.high / comparison.low) / (2 * z)
