"""Outcomes: all trials of a search, and what they and the proofs rule out."""

from __future__ import annotations

import math

import msgspec

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.contender import Judgement
from autoaccel.records.knob import Risk
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Trial
from autoaccel.search.failures import FailedProofs
from autoaccel.search.knowledge import Knowledge
from autoaccel.space.change import Change
from autoaccel.space.knobs import RISKS


class Outcomes:
    """Keeps the trials; what failed, or was refused in its proof, is neither tried nor proven again."""

    def __init__(self, knowledge: Knowledge) -> None:
        """Begin without trials; what they show is learned by this knowledge."""
        self.trials: list[Trial] = []
        self._knowledge = knowledge
        self._baseline = knowledge.task.baseline
        self._failed_proofs = FailedProofs(self._baseline)

    def learn(self, trial: Trial) -> Trial:
        """Learn from a finished trial and keep it; return it with what it comes to beside this machine's baseline."""
        self._knowledge.learn(trial)
        if trial.comparison is not None:
            step_seconds = self._knowledge.task.economy.step_seconds / trial.comparison.speedup
            total_seconds = self._knowledge.total_seconds(trial.settings, math.log(trial.comparison.speedup))
            trial = msgspec.structs.replace(trial, step_seconds=step_seconds, total_seconds=total_seconds)
        self.trials.append(trial)
        return trial

    def take_over(self, trial: Trial) -> None:
        """Learn from a trial of an earlier part of the run, and from what its proof showed."""
        self._knowledge.learn(trial)
        self.trials.append(trial)
        if trial.again and isinstance(trial.outcome, Failure):
            self.fail_proof(trial.settings, trial.outcome)
        elif not trial.feasible:
            drops = trial.accuracy is not None
            self._knowledge.rule_out(self._harmful_part(trial.settings) if drops else trial.settings)

    def count_trials(self, settings: Settings) -> int:
        """Return how many trials of settings there were, failed ones included."""
        return sum(trial.settings == settings for trial in self.trials)

    def judge(self, settings: Settings, accuracy: Accuracy | None, judgement: Judgement) -> None:
        """Take the proof of some settings into account: what it ruled out, or left open, is not tried again.

        Args:
            settings: That were to be proven.
            accuracy: What is known of the metric.
            judgement: What the proof says of them.
        """
        if judgement == "drops":
            self._rule_out(self._harmful_part(settings))
        elif judgement == "more than rounding":  # with all that contains it; but later runs may tell more
            self._knowledge.rule_out(self._harmful_part(settings))
        elif judgement != "holds":
            self._knowledge.rule_out(settings)
        risky = self._risky_part(settings)
        self.trials = [
            msgspec.structs.replace(trial, accuracy=accuracy) if self._risky_part(trial.settings) == risky else trial
            for trial in self.trials
        ]

    def leave_out(self, risk: Risk) -> None:
        """Try and prove nothing more with a setting of this risk or a greater one."""
        space = self._knowledge.space
        wished = {name: (value,) for name, value in space.fixed.items()}
        for name, values in {**space.open, **wished}.items():
            for value in values:
                alone = Change({**self._baseline, name: value}, self._baseline, space)
                if RISKS.index(alone.risk) >= RISKS.index(risk):
                    self._knowledge.rule_out({name: value})

    def leave_out_each(self, settings: Settings) -> None:
        """Try and prove nothing more with any of these settings."""
        for name, value in settings.items():
            self._knowledge.rule_out({name: value})

    def fail_proof(self, settings: Settings, failure: Failure) -> None:
        """Take into account that settings failed in their proof: they, and what is to blame, are not tried again."""
        for part in self._failed_proofs.learn(settings, failure):
            self._rule_out(part)

    def chance(self, settings: Settings) -> float:
        """Return the probability that settings do not fail in their proof, by what others have in theirs."""
        return self._failed_proofs.chance(settings)

    def _risky_part(self, settings: Settings) -> Settings:
        return Change(settings, self._baseline, self._knowledge.space).inexact_part

    def _harmful_part(self, settings: Settings) -> Settings:
        """Return what in settings may have harmed the training: all of them where none changes a number."""
        return self._risky_part(settings) or settings

    def _rule_out(self, part: Settings) -> None:
        """Never try or prove again what contains these settings."""
        self._knowledge.rule_out(part)
        self.trials = [
            msgspec.structs.replace(trial, feasible=False) if part.items() <= trial.settings.items() else trial
            for trial in self.trials
        ]
