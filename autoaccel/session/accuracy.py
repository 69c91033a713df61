"""The accuracy constraint: does the metric survive the settings?"""

from __future__ import annotations

from autoaccel.records.request import Request
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Accuracy, Failure, TrainResult, Trial
from autoaccel.records.workload import TrainingFacts
from autoaccel.session.run import Run
from autoaccel.session.workers import train
from autoaccel.space.knobs import risky_part
from autoaccel.statistics.accuracy import compare_metric

_BUDGET_SHARE = 0.35  # of the budget may go into training runs for the metric
_EXPECTED_CHECKS = 3  # the baseline's own and about two candidates'
_LEAST_STEPS = 20  # a metric after fewer says nothing


def accuracy_steps(facts: TrainingFacts, request: Request, step_seconds: float) -> int:
    """Return how many steps each training run that judges the metric makes: the planned run if time allows."""
    allowed = _BUDGET_SHARE * request.budget_seconds / (_EXPECTED_CHECKS * request.metric_repeats)
    return max(min(facts.planned_steps, _LEAST_STEPS), min(facts.planned_steps, int(allowed / step_seconds)))


class AccuracyChecks:
    """Compares the metric of settings with the baseline's; settings with the same risky part are judged once."""

    def __init__(self, run: Run, facts: TrainingFacts, baseline: Settings, steps: int) -> None:
        self._run = run
        self._facts = facts
        self._baseline = baseline
        self._steps = steps
        self._baseline_runs: tuple[float, ...] = ()
        self._judged: dict[str, Accuracy] = {}

    def remember(self, trial: Trial) -> None:
        """Take over what an earlier part of the run found out."""
        if trial.accuracy is not None:
            self._baseline_runs = trial.accuracy.baseline_runs
            self._judged[self._key(trial.settings)] = trial.accuracy

    def known(self, settings: Settings) -> Accuracy | None:
        """Return what is known of these settings already, without running anything."""
        return self._judged.get(self._key(settings))

    def check(self, settings: Settings, keep_seconds: float) -> Accuracy | Failure:
        """Return the metric's drop, or why it could not be measured.

        Settings that differ from the baseline in exact knobs only share its metric: only the baseline is trained.
        At least `keep_seconds` of the budget are left.
        """
        key = self._key(settings)
        if key in self._judged:
            return self._judged[key]
        if not self._baseline_runs:
            answer = self._train(self._baseline, "accuracy-baseline", keep_seconds)
            if isinstance(answer, Failure):
                return answer
            self._baseline_runs = answer.metrics
        runs = self._baseline_runs
        if key:
            answer = self._train(settings, f"accuracy-{len(self._judged) + 1}", keep_seconds)
            if isinstance(answer, Failure):
                return answer
            runs = answer.metrics
        self._judged[key] = compare_metric(
            self._facts.metric,
            self._facts.direction,
            self._baseline_runs,
            runs,
            share=self._steps / self._facts.planned_steps,
            constraint=self._run.request.constraint,
        )
        return self._judged[key]

    def _key(self, settings: Settings) -> str:
        return settings_key(risky_part(settings, self._baseline))

    def _train(self, settings: Settings, name: str, keep_seconds: float) -> TrainResult | Failure:
        timeout = self._run.clock.left - keep_seconds
        if timeout <= 0:
            return Failure(kind="hung", message="no time was left to check the metric")
        return train(self._run.runner, settings, name, self._run.request.metric_repeats, self._steps, timeout)
