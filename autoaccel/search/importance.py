"""Which knobs decided how good a trial was, as Optuna sees it."""

from __future__ import annotations

from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution

from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Trial

_MIN_TRIALS = 6  # of fewer, half are too few to have something in common
_GOOD_SHARE = 0.5
"""Share of the trials that count as good: of the dozens of a search, the tenth that is usual would be one or two."""


def importance(space: SearchSpace, trials: Sequence[Trial]) -> dict[str, float]:
    """Return for each open knob what share it has in whether a trial's run is among the shorter half; largest first.

    By PED-ANOVA (Watanabe, Bansal and Hutter, IJCAI 2023), which asks how the values of good trials differ from those
    of all. The shares add up to 1. Empty where too few trials were measured, or nothing sets the good ones apart.
    """
    measured = [trial for trial in trials if trial.total_seconds is not None]
    distributions: dict[str, BaseDistribution] = {
        name: CategoricalDistribution(values) for name, values in space.open.items()
    }
    seconds = sorted(trial.total_seconds for trial in measured if trial.total_seconds is not None)
    if len(seconds) < _MIN_TRIALS or not distributions or seconds[len(seconds) // 2] == seconds[0]:
        return {}
    # Here, because it imports scikit-learn, which takes longer than anything else before a run begins.
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    study = optuna.create_study()
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={name: trial.settings[name] for name in distributions},
                distributions=distributions,
                value=trial.total_seconds,
            )
            for trial in measured
        ]
    )
    shares = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(target_quantile=_GOOD_SHARE))
    return {name: float(share) for name, share in shares.items()} if sum(shares.values()) > 0 else {}
