"""Proposals: settings that Optuna's TPE would try next, of a space that is too large to weigh as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.search.knowledge import Reached


class Proposals:
    """Draws settings that are likely to be better than most, in a study of its own, which is in memory only."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Begin with no trial known."""
        self._space = space
        self._known = 0
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.open.items()
        }
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), direction="minimize")

    def draw(self, count: int, reached: Sequence[Reached]) -> list[Settings]:
        """Return this many settings, given what was reached so far."""
        for settings, total_seconds in reached[self._known :]:
            params = {name: settings[name] for name in self._space.open}
            self._study.add_trial(
                optuna.trial.create_trial(params=params, distributions=self._distributions, value=total_seconds)
            )
        self._known = len(reached)
        return [self._draw() for _ in range(count)]

    def _draw(self) -> Settings:
        trial = self._study.ask(self._distributions)
        self._study.tell(trial, state=TrialState.FAIL)  # as long as it is only weighed; TPE ignores these
        return {**self._space.fixed, **trial.params}
