"""Samplers of a study: autoaccel's own, and one that proposes what it was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial

from autoaccel.records.settings import Settings, Value
from autoaccel.search.gradient import KnowledgeGradient, Suggestion
from autoaccel.search.task import SearchTask


def distributions_of(task: SearchTask) -> dict[str, CategoricalDistribution]:
    """Return what Optuna is told of each open knob: its values, and the baseline's if a wish has ruled that out."""
    return {
        name: CategoricalDistribution(values if task.baseline[name] in values else (task.baseline[name], *values))
        for name, values in task.space.open.items()
    }


class KnowledgeGradientSampler(optuna.samplers.BaseSampler):
    """Proposes what saves the most time for the time that it costs to try; see `KnowledgeGradient`.

    Where nothing pays it draws at random, which a search does not ask for.
    """

    def __init__(self, task: SearchTask, gradient: KnowledgeGradient) -> None:
        """Go by what has been suggested last.

        Args:
            task: What is searched.
            gradient: Suggests, within the bounds of the search.
        """
        self._distributions = distributions_of(task)
        self._gradient = gradient
        self._random = optuna.samplers.RandomSampler(seed=task.seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return all open knobs: what they do depends on one another."""
        return dict(self._distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the suggested value of each knob."""
        suggestion = self._gradient.latest or self._gradient.suggest()
        settings = suggestion.settings if isinstance(suggestion, Suggestion) else {}
        return {name: settings[name] for name in search_space if _holds(self._distributions[name], settings, name)}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Value:
        """Return a value by chance, where nothing is suggested."""
        value: Value = self._random.sample_independent(study, trial, param_name, param_distribution)
        return value


class GivenSettings(optuna.samplers.BaseSampler):
    """Proposes settings that somebody else has decided on."""

    def __init__(self, settings: Settings) -> None:
        """Propose these settings."""
        self._settings = settings

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return nothing: each value is known by itself."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Value:
        """Return the given value."""
        return self._settings[param_name]


def held_by(distributions: Mapping[str, CategoricalDistribution], settings: Settings) -> dict[str, BaseDistribution]:
    """Return the distributions that have the value of these settings."""
    return {name: one for name, one in distributions.items() if _holds(one, settings, name)}


def _holds(distribution: CategoricalDistribution, settings: Settings, name: str) -> bool:
    return name in settings and settings[name] in distribution.choices
