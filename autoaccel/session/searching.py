"""The search: one trial after another, each measured in turns with the baseline, until nothing more is to be won."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import msgspec

from autoaccel.launch.runner import Measuring
from autoaccel.records.progress import (
    AccuracyChecked,
    Note,
    StageStarted,
    TrialFinished,
    TrialStarted,
)
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.trial import Comparison, Failure, Measurement, Trial
from autoaccel.search.strategy import Strategy
from autoaccel.session.accuracy import AccuracyChecks
from autoaccel.session.contenders import contenders
from autoaccel.session.run import Run
from autoaccel.session.workers import alternate_turns
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import is_exact
from autoaccel.statistics.accuracy import violation
from autoaccel.statistics.comparison import NOISE_THRESHOLD, compare
from autoaccel.statistics.steps import step_seconds_of_turns

_LEAST_TURNS, _MOST_TURNS = 4, 12  # of each of the two, per trial
_HOPELESS = 0.93  # a trial ends early when even its interval's upper end is below this share of the best
_PATIENCE = 12  # trials without a new best end the search


class Search:
    """What the search needs to measure and to judge; its trials are kept in the run folder as they finish."""

    def __init__(self, run: Run, yardstick: Yardstick, checks: AccuracyChecks, strategy: Strategy) -> None:
        self._run = run
        self._yardstick = yardstick
        self._checks = checks
        self._strategy = strategy
        self.trials: list[Trial] = []

    @property
    def best(self) -> Trial | None:
        """The trial with the shortest projected run that is known to keep the metric; None while it is the baseline."""
        return next(iter(contenders(self.trials, self._yardstick.settings, self._yardstick.total_seconds)), None)

    def take_over(self, trials: Sequence[Trial]) -> None:
        """Go on from the trials of an earlier part of the run."""
        for trial in trials:
            self._checks.remember(trial)
            self._strategy.learn(trial, self._yardstick.total_seconds)
            self.trials.append(trial)

    def run(self, keep_seconds: float) -> str:
        """Try settings until the search is over, leaving `keep_seconds` of the budget; return why it ended."""
        since_best = 0
        while True:
            if self._run.request.most_trials is not None and len(self.trials) >= self._run.request.most_trials:
                return f"{len(self.trials)} trials were asked for"
            if self._run.clock.left - keep_seconds < self._typical_trial_seconds():
                return "the rest of the budget is needed for the proof"
            if since_best >= _PATIENCE:
                return f"{_PATIENCE} trials in a row found nothing better"
            settings = self._strategy.suggest()
            if settings is None:
                return "every setting of the search space was tried"
            best_before = self.best
            trial = self._try(len(self.trials) + 1, settings, keep_seconds)
            self.trials.append(trial)
            self._run.folder.add_trial(trial)
            self._strategy.learn(trial, self._yardstick.total_seconds)
            self._run.tell(TrialFinished(trial=trial, best=self.best))
            since_best = since_best + 1 if self.best is best_before else 0

    def _typical_trial_seconds(self) -> float:
        """Return about how long the next trial takes, a check of its metric not included: most need none."""
        measured = [trial.outcome for trial in self.trials if isinstance(trial.outcome, Measurement)]
        if not measured:
            return 2 * self._yardstick.overhead_seconds
        return statistics.median(
            outcome.startup_seconds
            + sum(outcome.warmup_step_seconds)
            # Its turns, and as many of the baseline beside it.
            + 2 * sum(sum(turn.step_seconds) for turn in outcome.turns)
            for outcome in measured
        )

    def _try(self, number: int, settings: Settings, keep_seconds: float) -> Trial:
        self._run.tell(TrialStarted(number=number, settings=settings))
        start = time.perf_counter()
        trial = self._measure(number, settings, max(1.0, self._run.clock.left - keep_seconds))
        if trial.total_seconds is not None:
            trial = self._judge(trial, keep_seconds)
        return msgspec.structs.replace(trial, spent_seconds=time.perf_counter() - start)

    def _measure(self, number: int, settings: Settings, timeout_seconds: float) -> Trial:
        deadline = time.perf_counter() + timeout_seconds
        candidate = self._run.runner.start_measuring(settings, f"trial-{number:04d}", timeout_seconds)
        if isinstance(candidate, Failure):
            return Trial(number=number, settings=settings, outcome=candidate, spent_seconds=0.0)
        try:
            failure = self._take_turns(candidate, deadline)
        finally:
            candidate.close()
        if failure is not None:
            return Trial(number=number, settings=settings, outcome=failure, spent_seconds=0.0)
        outcome = candidate.measurement
        comparison = self._compare(candidate)
        return Trial(
            number=number,
            settings=settings,
            outcome=outcome,
            spent_seconds=0.0,
            comparison=comparison,
            step_seconds=self._yardstick.step_seconds / comparison.speedup,
            total_seconds=self._yardstick.projected_total(outcome.compile_seconds, comparison.speedup),
        )

    def _take_turns(self, candidate: Measuring, deadline: float) -> Failure | None:
        """Give candidate and baseline turns until the comparison is clear enough; return what failed."""
        yardstick = self._yardstick
        yardstick.measuring.turns.clear()
        while len(candidate.turns) < _MOST_TURNS:
            left = deadline - time.perf_counter()
            if candidate.turns and left < 4 * yardstick.turn_seconds:
                break
            pair = (yardstick.measuring, candidate)
            if failed := alternate_turns(pair, 2, yardstick.turn_seconds, max(left, 1.0)):
                who, failure = failed
                if who is yardstick.measuring:
                    yardstick.revive()
                return failure
            if len(candidate.turns) >= _LEAST_TURNS and self._is_hopeless(self._compare(candidate)):
                break
        return None

    def _compare(self, candidate: Measuring) -> Comparison:
        steps_per_epoch = self._yardstick.facts.steps_per_epoch
        own = step_seconds_of_turns(self._yardstick.measuring.turns, steps_per_epoch)
        other = step_seconds_of_turns(candidate.turns, steps_per_epoch)
        return compare([list(zip(own, other, strict=True))])

    def _is_hopeless(self, comparison: Comparison) -> bool:
        best = self.best.comparison.speedup if self.best and self.best.comparison else 1.0
        return comparison.high < _HOPELESS * best

    def _judge(self, trial: Trial, keep_seconds: float) -> Trial:
        """Check the metric of settings that may change it, if they are fast enough to matter."""
        accuracy = self._checks.known(trial.settings)
        best_seconds = self.best.total_seconds if self.best and self.best.total_seconds else None
        to_beat = (best_seconds or self._yardstick.total_seconds) / (1 + NOISE_THRESHOLD)
        assert trial.total_seconds is not None
        if accuracy is None:
            if is_exact(trial.settings, self._yardstick.settings) or trial.total_seconds > to_beat:
                return trial
            change = describe_change(trial.settings, self._yardstick.settings)
            self._run.tell(StageStarted(stage="accuracy", detail=f"does the metric survive {change}?"))
            answer = self._checks.check(trial.settings, keep_seconds)
            if isinstance(answer, Failure):
                self._run.tell(Note(text=f"the metric could not be checked: {answer.message}"))
                return msgspec.structs.replace(trial, feasible=False)
            accuracy = answer
            feasible = violation(accuracy, self._run.request.constraint) <= 0
            self._run.tell(AccuracyChecked(settings=trial.settings, accuracy=accuracy, feasible=feasible))
            self._run.tell(StageStarted(stage="search", detail="going on"))
        feasible = violation(accuracy, self._run.request.constraint) <= 0
        return msgspec.structs.replace(trial, accuracy=accuracy, feasible=feasible)
