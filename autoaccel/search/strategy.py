"""What to try next: the experts' candidates, then what promises to save the most time for the time that it costs."""

from __future__ import annotations

import copy
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

from autoaccel.advise.effects import Halving
from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Failure, Measurement, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.failures import Cause, Failed, find_causes
from autoaccel.search.starts import SlowStarts
from autoaccel.search.surrogate import Surrogate, Vector
from autoaccel.space.knobs import compiled_part, ranks_of, slow_starters
from autoaccel.statistics.comparison import PROCESS_DEVIATION
from autoaccel.statistics.runs import CompileSeconds

optuna.logging.set_verbosity(optuna.logging.WARNING)

_MOST_WEIGHED = 4096  # settings that are weighed against each other; of a larger space those near the best, and
_MOST_PROPOSED = 64  # that Optuna proposes
_LIKELY = 0.5  # chance to work from which on a candidate comes before what is weighed
_LEAST_SHARE = 1e-4  # of a run: a trial that is expected to save less is not worth even an idle machine's time
_HOPED = 2.0  # standard deviations by which settings may turn out faster than they are expected to be
_READING_DEVIATION = math.hypot(
    PROCESS_DEVIATION, 0.03
)  # of the next reading: its process and its turns, as TURNS has it
_MOST_READINGS = 4
"""Of the same settings: then their processes' luck is half of what the proof takes for a difference."""

_DRAWS = np.array([NormalDist().inv_cdf((rank + 0.5) / 25) for rank in range(25)])  # equally likely values of a normal


class Suggestion(NamedTuple):
    """Settings to measure next."""

    settings: Settings
    again: bool  # they were measured before; it is not clear enough whether they are the best
    gain_seconds: float  # expected to be saved over all runs by what this will show
    cost_seconds: float  # expected to be spent on it


class Ranked(NamedTuple):
    """Settings as all trials together see them."""

    settings: Settings
    log_speedup: float
    total_seconds: float


class Evidence(NamedTuple):
    """What some settings measured beside the trials: the mean and the standard deviation of their log speed-up."""

    settings: Settings
    log_speedup: float
    deviation: float


class Strategy:
    """Suggests settings as long as that pays, and learns from their trials.

    Chosen is the largest knowledge gradient (Frazier, Powell and Dayanik, INFORMS Journal on Computing 2009) over a
    `Surrogate` for each second that a trial is expected to cost: of all settings where the space is small, else of
    those near the best and those that Optuna's multivariate TPE proposes.
    """

    def __init__(
        self,
        space: SearchSpace,
        own: Settings,
        candidates: Sequence[Settings],
        deviations: Mapping[str, float],
        economy: Economy,
        seed: int,
        halvings: Mapping[str, Halving] | None = None,
    ) -> None:
        """Begin with nothing tried but the baseline.

        Args:
            space: What may be tried.
            own: The baseline's settings.
            candidates: What experts would try first, in their order.
            deviations: For each open knob how much it may matter; see `Surrogate`.
            economy: What time is worth.
            seed: Of Optuna's sampler.
            halvings: What fewer of a count are expected to do; see `Surrogate`.
        """
        self.space = space
        self._own = own
        self._candidates = list(candidates)
        self._economy = economy
        self._own_compiled = compiled_part(own)
        self._surrogate = Surrogate(space, own, deviations, halvings)
        self._measured: dict[str, Settings] = {}
        self._readings = Counter[str]()  # of what was measured
        self._failed: set[str] = set()
        self._failures: list[Failed] = []
        self.causes: list[Cause] = []
        """What explains the failures so far."""
        self._infeasible: list[Settings] = []
        self._starts = SlowStarts()
        self._trial_seconds = defaultdict[int, list[float]](list)  # by the number of processes that train
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.open.items()
        }
        self.out_of_time = False
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), direction="minimize")

    def suggest(
        self,
        room: Callable[[Settings], float] = lambda _: math.inf,
        busy: Container[str] = (),
        orphans: Sequence[Settings] = (),
    ) -> Suggestion | None:
        """Return what to measure next, or None if nothing for which there is room saves more than it costs.

        `out_of_time` tells whether something longer would.

        Args:
            room: How many seconds a trial of some settings may cost at most.
            busy: Keys of settings that are not suggested: others measure them.
            orphans: What others began to measure, because it would pay, and did not finish: suggested first.
        """
        self.out_of_time = False
        for (weighed,) in (self._weigh([orphan]) for orphan in orphans if self._is_new(orphan)):
            if weighed.cost_seconds <= room(weighed.settings):
                return weighed
        # What a person has set is tried once, however little it promises.
        forced = not (self._measured or self._failed) and changed(self.space.fixed, self._own)
        doubtful: list[Settings] = []
        while self._candidates:
            candidate = self._candidates.pop(0)
            if not self._is_new(candidate) or settings_key(candidate) in busy:
                continue
            if self._chance(candidate) < _LIKELY:
                doubtful.append(candidate)  # until it is known what made others fail
                continue
            (weighed,) = self._weigh([candidate])
            # So is the first guess that works and need not compile: until then it is not known what a trial takes
            # here, and on a busy machine the baseline's start makes it look dear.
            first = not self._measured and not slow_starters(candidate)
            tried = forced or first or self._pays(weighed)
            if tried and weighed.cost_seconds <= room(weighed.settings):
                self._candidates = [*doubtful, *self._candidates]
                return weighed
        self._candidates = doubtful
        best = [ranked.settings for ranked in self.ranked()[:3]]
        again = [settings for settings in best if self._readings[settings_key(settings)] < _MOST_READINGS]
        options = [*self._untried(), *doubtful, *again]
        options = [option for option in options if settings_key(option) not in busy]
        weighed_all = self._weigh(options)
        paying = weighed_all if forced else [weighed for weighed in weighed_all if self._pays(weighed)]
        affordable = [weighed for weighed in paying if weighed.cost_seconds <= room(weighed.settings)]
        self.out_of_time = bool(paying) and not affordable
        if not affordable:
            return None
        return max(affordable, key=lambda weighed: weighed.gain_seconds / weighed.cost_seconds)

    def learn(self, trial: Trial) -> None:
        """Take a finished trial into account, a failed one and one of an earlier part of the run included."""
        key = settings_key(trial.settings)
        if trial.comparison is None or not isinstance(trial.outcome, Measurement):
            self._failed.add(key)
            is_explained = self._starts.explain(trial, self._own, self._measured.values())
            if isinstance(trial.outcome, Failure) and not is_explained:
                self._failures.append(Failed(changed(trial.settings, self._own), trial.outcome))
            self._explain_failures()
            return
        starts_slowly = self._starts_slowly(trial.settings)
        if not starts_slowly or self._starts.known(trial.settings) is not None:
            self._trial_seconds[ranks_of(trial.settings)].append(trial.spent_seconds)
        if starts_slowly:
            self._starts.learn(trial.settings, trial.outcome, trial.host)
        self._measured[key] = trial.settings
        self._readings[key] += 1
        self._explain_failures()
        log_speedup = math.log(trial.comparison.speedup)
        self._surrogate.learn(trial.settings, log_speedup, _deviation(trial.comparison))
        total_seconds = self._economy.total_seconds(log_speedup, self._average_start(trial.settings))
        self._study.add_trial(
            optuna.trial.create_trial(
                params={name: trial.settings[name] for name in self.space.open},
                distributions=self._distributions,
                value=float(total_seconds),
            )
        )

    def _explain_failures(self) -> None:
        """Find anew what the failures have in common: what works, here or on another machine, excuses."""
        if self._failures:
            works = [changed(settings, self._own) for settings in self._measured.values()]
            self.causes = find_causes(self._failures, works)

    def _chance(self, settings: Settings) -> float:
        """Return the probability that settings work, by what others failed of; none if what is to blame is in them."""
        if not self.causes:
            return 1.0
        change = changed(settings, self._own)
        return math.prod(1 - cause.doubt(change) for cause in self.causes)

    @property
    def trial_seconds(self) -> float:
        """What a trial usually takes that compiles nothing."""
        found = list(itertools.chain.from_iterable(self._trial_seconds.values()))
        return statistics.median(found) if found else self._economy.trial_seconds

    def _usual_seconds(self, settings: Settings) -> float:
        """Return what a trial of such settings usually takes: to start several processes takes longer."""
        alike = self._trial_seconds.get(ranks_of(settings))
        return statistics.median(alike) if alike else self.trial_seconds

    @property
    def untried_left(self) -> bool:
        """Whether some settings of the space were never tried."""
        return bool(self._untried())

    def expects(self, settings: Settings) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm of the speed-up that a reading would show."""
        mean, deviation = self._surrogate.predict([settings])
        return float(mean[0]), math.hypot(float(deviation[0]), _READING_DEVIATION)

    def contrast(
        self, settings: Sequence[Settings], weights: Sequence[float], evidence: Sequence[Evidence] = ()
    ) -> tuple[float, float]:
        """Return mean and standard deviation of the weighted sum of the settings' log speed-ups.

        Args:
            settings: Whose.
            weights: One for each.
            evidence: What is known beside the trials.
        """
        surrogate = copy.deepcopy(self._surrogate) if evidence else self._surrogate
        for one in evidence:
            surrogate.learn(*one)
        return surrogate.contrast(settings, weights)

    def rule_out(self, settings: Settings) -> None:
        """Never suggest or rank what contains these settings: they harm the metric."""
        self._infeasible.append(settings)

    def ranked(self, also: Sequence[Settings] = ()) -> list[Ranked]:
        """Return what was measured and is not ruled out, the shortest projected run first.

        Args:
            also: Settings that are ranked with them if they could be measured, and were not.
        """
        tried = [settings for settings in self._measured.values() if self._is_feasible(settings)]
        tried += {settings_key(one): one for one in also if self._is_new(one)}.values()
        mean, _ = self._surrogate.predict(tried)
        totals = self._economy.total_seconds(mean, np.array([self._average_start(one) for one in tried]))
        found = [Ranked(*entry) for entry in zip(tried, mean.tolist(), totals.tolist(), strict=True)]
        return sorted(found, key=lambda ranked: ranked.total_seconds)

    def compile_seconds(self, settings: Settings) -> CompileSeconds:
        """Return what slower first steps cost the first run under these settings, and what all later ones."""
        if self._starts_slowly(settings):
            return self._starts.expected(settings)
        return CompileSeconds(self._economy.compile_seconds, self._economy.compile_seconds)

    def learn_warm_start(self, settings: Settings, seconds: float) -> None:
        """Take into account what slower first steps cost a process that found compiled what trials have left."""
        if self._starts_slowly(settings):
            self._starts.learn_warm(settings, seconds)

    def is_given_up(self, settings: Settings) -> bool:
        """Whether settings are not tried because something that is compiled alike took too long."""
        return self._starts.is_given_up(settings)

    def most_cold_seconds(self, settings: Settings) -> float:
        """Return how long a first compilation could take for the settings still to become the best over all runs.

        Their steps are taken to be as fast as can be hoped: two deviations faster than expected.
        """
        mean, deviation = self.expects(settings)
        best = min([self._economy.own_total_seconds, *(entry.total_seconds for entry in self.ranked()[:1])])
        return self._economy.cold_seconds_for(best, mean + _HOPED * deviation)

    def _average_start(self, settings: Settings) -> float:
        return self.compile_seconds(settings).average(self._economy.runs)

    def _starts_slowly(self, settings: Settings) -> bool:
        """Whether the first steps take longer than the baseline's: not where what is compiled is what it compiles."""
        return bool(slow_starters(settings)) and compiled_part(settings) != self._own_compiled

    def _pays(self, weighed: Suggestion) -> bool:
        """Whether it saves more time than it costs, and so much of each run that it could ever be noticed."""
        noticed = _LEAST_SHARE * self._economy.runs * self._economy.own_total_seconds
        return weighed.gain_seconds > max(weighed.cost_seconds, noticed)

    def _weigh(self, options: Sequence[Settings]) -> list[Suggestion]:
        """Return for each option what measuring it is expected to save and to cost."""
        if not options:
            return []
        economy = self._economy
        mean, deviation = self._surrogate.predict(options)
        # By how much one more reading is expected to move what is believed of the option.
        moves = deviation**2 / np.hypot(deviation, _READING_DEVIATION)
        compile_seconds = np.array([self._average_start(one) for one in options])
        totals: Vector = economy.total_seconds(
            mean[:, None] + moves[:, None] * _DRAWS[None, :], compile_seconds[:, None]
        )  # (options, draws)
        ranked = self.ranked()
        best = min(economy.own_total_seconds, *(entry.total_seconds for entry in ranked[:1]), math.inf)
        gains = np.maximum(best - totals, 0.0).mean(axis=1)
        weighed: list[Suggestion] = []
        for option, gain in zip(options, gains.tolist(), strict=True):
            again = settings_key(option) in self._measured
            # As long as nothing measured is better, the baseline is what is held.
            held = [entry.settings for entry in ranked[:1] if entry.total_seconds < economy.own_total_seconds]
            if again and option in held:
                gain = self._gain_of_doubt(totals[len(weighed)], ranked)
            slow = self._starts_slowly(option) and self._starts.known(option) is None
            cost = self._usual_seconds(option) + (self.compile_seconds(option).cold if slow else 0.0)
            chance = 1.0 if again else self._chance(option)
            weighed.append(Suggestion(option, again, chance * economy.runs * gain, cost))
        return weighed

    def _gain_of_doubt(self, totals: Vector, ranked: Sequence[Ranked]) -> float:
        """Return what is expected to be saved by turning to the second best, should the best disappoint."""
        second = min(self._economy.own_total_seconds, *(entry.total_seconds for entry in ranked[1:2]), math.inf)
        return float(np.maximum(totals - second, 0.0).mean())

    def _is_new(self, settings: Settings) -> bool:
        key = settings_key(settings)
        tried = key in self._measured or key in self._failed or settings == self._own
        if tried or self._starts.is_given_up(settings) or not self.space.allows(settings):
            return False
        return self._is_feasible(settings) and self._chance(settings) > 0

    def _is_feasible(self, settings: Settings) -> bool:
        return not any(one.items() <= settings.items() for one in self._infeasible)

    def _untried(self) -> list[Settings]:
        if self.space.size <= _MOST_WEIGHED:
            everything = list(self._all_settings())
        else:
            near = [ranked.settings for ranked in self.ranked()[:3]] or [{**self._own, **self.space.fixed}]
            values_of = self.space.open
            one_off = [{**one, name: value} for one in near for name in values_of for value in values_of[name]]
            everything = [*one_off, *self._proposed()]
        settled = {settings_key(settings): settings for settings in map(self.space.settle, everything)}
        return [settings for settings in settled.values() if self._is_new(settings)]

    def _proposed(self) -> list[Settings]:
        """Return what Optuna's sampler would try next in a space too large to weigh as a whole."""
        proposed = []
        for _ in range(_MOST_PROPOSED):
            trial = self._study.ask(self._distributions)
            proposed.append({**self.space.fixed, **trial.params})
            self._study.tell(trial, state=TrialState.FAIL)  # as long as it is only weighed; TPE ignores these
        return proposed

    def _all_settings(self) -> Iterator[Settings]:
        for values in itertools.product(*self.space.open.values()):
            yield {**self.space.fixed, **dict(zip(self.space.open, values, strict=True))}


def _deviation(comparison: Comparison) -> float:
    """Return the standard deviation of the log speed-up that an interval stands for."""
    z = NormalDist().inv_cdf((1 + comparison.confidence) / 2)
    return math.log(comparison.high / comparison.low) / (2 * z)
