"""What to try next: the experts' candidates, then Optuna's multivariate TPE on the joint space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

from autoaccel.records.recipe import Constraint
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Trial
from autoaccel.statistics.accuracy import violation

optuna.logging.set_verbosity(optuna.logging.WARNING)

_MOST_REPEATED_SUGGESTIONS = 50  # then the rest of the space is walked through in order
_CONSTRAINT = "metric drop"


class Strategy:
    """Suggests settings that were not tried yet, and learns from their trials.

    The objective is the projected time of the whole run relative to the baseline's: below 1 is better.
    """

    def __init__(
        self, space: SearchSpace, baseline: Settings, candidates: Sequence[Settings], constraint: Constraint, seed: int
    ) -> None:
        self._space = space
        self._constraint = constraint
        self._tried = {settings_key(baseline)}
        self._asked: dict[str, optuna.Trial] = {}
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.open.items()
        }
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), direction="minimize")
        if all(baseline[name] == value for name, value in space.fixed.items()):
            self._add(baseline, relative_total=1.0, excess=0.0)
        for candidate in candidates:
            self._study.enqueue_trial({name: candidate[name] for name in space.open})

    def suggest(self) -> Settings | None:
        """Return settings that were not tried yet, or None if none are left."""
        for _ in range(_MOST_REPEATED_SUGGESTIONS if self._space.open else 0):
            trial = self._study.ask(self._distributions)
            settings: Settings = {**self._space.fixed, **trial.params}
            if self._is_new(settings):
                self._asked[settings_key(settings)] = trial
                return settings
            self._study.tell(trial, state=TrialState.FAIL)  # Optuna may suggest what it knows; TPE ignores these
        return next(filter(self._is_new, self._all_settings()), None)

    def learn(self, trial: Trial, baseline_total_seconds: float) -> None:
        """Take a finished trial into account, a failed one and one of an earlier run included."""
        key = settings_key(trial.settings)
        self._tried.add(key)
        asked = self._asked.pop(key, None)
        if trial.total_seconds is None:
            if asked is not None:
                self._study.tell(asked, state=TrialState.FAIL)
            return
        relative_total = trial.total_seconds / baseline_total_seconds
        if trial.accuracy is not None:
            excess = violation(trial.accuracy, self._constraint)
        else:
            # Not checked: too slow to matter, which is no fault, or the training did not even come to its end.
            excess = 0.0 if trial.feasible else self._constraint.max_drop + 1.0
        if asked is None:
            self._add(trial.settings, relative_total, excess)
        else:
            asked.set_constraint(_CONSTRAINT, excess)
            self._study.tell(asked, relative_total)

    def _add(self, settings: Settings, relative_total: float, excess: float) -> None:
        self._study.add_trial(
            optuna.trial.create_trial(
                params={name: settings[name] for name in self._space.open},
                distributions=self._distributions,
                value=relative_total,
                constraints={_CONSTRAINT: excess},
            )
        )

    def _is_new(self, settings: Settings) -> bool:
        return settings_key(settings) not in self._tried and self._space.allows(settings)

    def _all_settings(self) -> Iterator[Settings]:
        for values in itertools.product(*self._space.open.values()):
            yield {**self._space.fixed, **dict(zip(self._space.open, values, strict=True))}
