"""The search: one trial after another, each measured in turns with the baseline, as long as that pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.conclusion import Part, part_words
from autoaccel.records.contender import Judgement
from autoaccel.records.messages import Failure
from autoaccel.records.options import OWN_SAMPLER
from autoaccel.records.progress import Note, TrialFinished, TrialStarted
from autoaccel.records.recipe import StopReason
from autoaccel.records.settings import Settings
from autoaccel.records.study import PeerActivity
from autoaccel.records.trial import Comparison, Trial
from autoaccel.search.gradient import FREE, KnowledgeGradient, Proofs, Suggestion, SuggestionBounds
from autoaccel.search.instruments import Instruments, QuickLook
from autoaccel.search.knowledge import Knowledge
from autoaccel.search.outcomes import Outcomes
from autoaccel.search.patience import enough_for, given_up, max_trial_seconds, patience_for
from autoaccel.search.proposing import propose
from autoaccel.search.ranking import Ranking
from autoaccel.search.sampler import KnowledgeGradientSampler
from autoaccel.search.samplers import make_sampler
from autoaccel.search.study import SearchStudy, study_in_memory
from autoaccel.search.task import SearchTask
from autoaccel.statistics.comparison import compare_in_process

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler

_SUSPICIOUS = 3.0  # standard deviations above what the other trials predict

Reserve = Callable[[Settings, float | None], float]
"""Returns the seconds that must be left to prove settings: with the speed-up that was measured, None if none was."""


class Search:
    """Tries settings as long as that pays, and knows what they have shown."""

    def __init__(self, task: SearchTask, instruments: Instruments, study: SearchStudy | None = None) -> None:
        """Begin with nothing tried but the baseline, which is told to the study.

        Args:
            task: What is searched.
            instruments: What measures, and who is told.
            study: That keeps the trials, and knows those of other workers, if there are any: none is run twice. One in
                memory if None.
        """
        self.task = task
        """What is searched."""
        self.stop: StopReason = "proof left open"
        """Why it last ended; before it has begun, why it need not: a proof is open."""
        self._instruments = instruments
        self._baseline = task.baseline
        self._economy = task.economy
        self.knowledge = Knowledge(task)
        """What all trials together say."""
        self.outcomes = Outcomes(self.knowledge)
        """The trials, and what they and the proofs rule out."""
        self.ranking = Ranking(self.knowledge, task.baseline, task.economy)
        """Knows what could be proven, and what of it first."""
        self._gradient = KnowledgeGradient(task, self.knowledge)
        self._clock = instruments.clock
        self._tell = instruments.tell
        self._max_trials = math.inf if task.max_trials is None else task.max_trials
        self._study = study or study_in_memory()
        if task.sampler == OWN_SAMPLER:
            sampler: BaseSampler = KnowledgeGradientSampler(task, self._gradient)
        else:
            # Workers with the same seed would all try the same.
            sampler = make_sampler(task.sampler, task.seed + self._study.peers.number)
        self._study.search(task, sampler)
        self._study.tell_baseline(task.baseline, task.economy.baseline_total_seconds)
        self._closed: set[Part] = set()  # because of failures, and told

    @property
    def trials(self) -> list[Trial]:
        """All trials so far, those of other workers included."""
        return self.outcomes.trials

    @property
    def best(self) -> Trial | None:
        """The trial of the settings that would be proven first; None while the baseline's own are as good."""
        first = self.ranking.first(self.ranking.candidates())
        if first is None:
            return None
        return next(trial for trial in self.trials if trial.comparison and trial.settings == first.settings)

    @property
    def saving_seconds(self) -> float:
        """What the fastest settings are expected to save on all runs."""
        best = min([entry.total_seconds for entry in self.knowledge.ranked()[:1]], default=math.inf)
        return self._economy.saved_seconds(best)

    @property
    def fastest_speedup(self) -> float:
        """Of the steps under the settings with the shortest run, as all trials see them; 1 if none was measured."""
        return math.exp(max([entry.log_speedup for entry in self.knowledge.ranked()[:1]], default=0.0))

    def take_over(self, trials: Sequence[Trial]) -> None:
        """Resume from the trials of an earlier part of the run, which the study is told once more."""
        for trial in trials:
            if claimed := self._study.claim(trial.settings, self.outcomes.count_trials(trial.settings)):
                self._study.finish(claimed, trial)
            self.outcomes.take_over(trial)

    def judge(
        self,
        settings: Settings,
        accuracy: Accuracy | None,
        judgement: Judgement,
        comparison: Comparison | None = None,
    ) -> None:
        """Take the proof of some settings into account; see `Outcomes.judge`.

        Args:
            settings: That were to be proven.
            accuracy: What is known of the metric.
            judgement: What the proof says of them.
            comparison: Of their speed, if this run has proven it: the study is told.
        """
        if comparison is not None:
            total_seconds = self.knowledge.total_seconds(settings, math.log(comparison.speedup))
            self._study.tell_proof(settings, judgement, total_seconds, accuracy)
        self.outcomes.judge(settings, accuracy, judgement)

    def fail(self, settings: Settings, failure: Failure, spent_seconds: float) -> None:
        """Take into account that settings failed in their proof, though not in their trial: that counts as one more."""
        self.outcomes.fail_proof(settings, failure)
        trial = self._add(Trial(len(self.trials) + 1, settings, failure, spent_seconds, again=True))
        self._study.tell_failed_proof(trial)

    def run(
        self, reserve: Reserve, begin: Callable[[Settings], None] | None = None, proofs: Proofs = FREE
    ) -> StopReason:
        """Try settings until the search is over.

        Args:
            reserve: What of the budget must be left to prove the best, and what is tried, should it become the best.
            begin: Called with the settings of the first trial before it starts, if there is one.
            proofs: What a proof takes, which what is tried must save beside its trial.

        Returns:
            Why it ended.
        """
        self.stop = self._run(reserve, begin, proofs)
        return self.stop

    def _run(self, reserve: Reserve, begin: Callable[[Settings], None] | None, proofs: Proofs) -> StopReason:
        while True:
            look = self._look_at_others()
            if len(self.trials) >= self._max_trials:
                return "trials made"
            room = self._room(reserve)
            bounds = SuggestionBounds(room, look.busy, look.orphans, proofs)
            suggestion = self._gradient.suggest(bounds)
            if not isinstance(suggestion, Suggestion):
                if suggestion == "out of time":
                    return suggestion
                left = room(self._baseline)  # which need no proof
                if look.measuring and left > 0:
                    # What they find may change what pays; and if one dies, somebody must be left to take it over.
                    self._study.wait(left)
                    continue
                return suggestion
            settings = suggestion.settings
            if self.trials:  # the first is the experts' first guess, whatever the sampler
                settings = propose(self._study, self._gradient, suggestion, bounds)
            if claimed := self._study.claim(settings, self.outcomes.count_trials(settings)):
                if begin is not None:
                    begin(settings)
                    begin = None
                self._measure(claimed, settings, bounds, reserve)

    def _measure(self, claimed: optuna.Trial, settings: Settings, bounds: SuggestionBounds, reserve: Reserve) -> None:
        """Try settings; try them once more if the result is too good to be believed."""
        mean, deviation = self.knowledge.expects(settings)
        again = self.knowledge.readings_of(settings) > 0
        trial = self._try(settings, again, bounds.room(settings))
        once_more = None if again else self._claim_once_more(trial, mean + _SUSPICIOUS * deviation, reserve)
        # Told only now: other workers, who may have nothing left to try, wait as long as this one holds a claim.
        self._study.finish(claimed, trial)
        if once_more:
            self._study.finish(once_more, self._try(settings, True, self._room(reserve)(settings)))

    def _claim_once_more(self, trial: Trial, most: float, reserve: Reserve) -> optuna.Trial | None:
        """Return the claim on another reading of settings whose log speed-up was above `most`; None if there is none.

        Another process must show it too before anything is built on it. If there is no time for that, its proof will
        tell.
        """
        if trial.comparison is None or math.log(trial.comparison.speedup) <= most:
            return None
        left = self._room(reserve)(trial.settings)  # the best, which it may be by now, has another proof
        if left < self.knowledge.trial_seconds:
            return None
        return self._study.claim(trial.settings, self.outcomes.count_trials(trial.settings))

    def _room(self, reserve: Reserve) -> Callable[[Settings], float]:
        """Return what tells how long a trial of some settings may take, so that the best can be proven after it."""
        best = self.best
        held = reserve(best.settings, best.comparison.speedup) if best and best.comparison else 0.0

        def room(settings: Settings) -> float:
            needed = 0.0 if settings == self._baseline else reserve(settings, None)
            return min(
                self._clock.left - max(held, needed),
                max_trial_seconds(settings, self.knowledge, self._budget_seconds),
            )

        return room

    @property
    def _budget_seconds(self) -> float:
        return self._clock.spent + self._clock.left

    def _look_at_others(self) -> PeerActivity:
        """Learn what others have found since the last time."""
        look = self._study.look()
        for trial in look.trials:
            self._add(msgspec.structs.replace(trial, number=len(self.trials) + 1))
        return look

    def _try(self, settings: Settings, again: bool, max_seconds: float) -> Trial:
        number = len(self.trials) + 1
        self._tell(TrialStarted(number=number, settings=settings))
        before = self._clock.spent
        patience = patience_for(settings, self.knowledge, self._budget_seconds)
        timeout_seconds = max(1.0, min(max_seconds, patience.seconds))
        look = QuickLook(f"trial-{number:04d}", enough_for(settings, self.knowledge), timeout_seconds)
        reading = self._instruments.compare(settings, look)
        if isinstance(reading, Failure):
            if reading.kind == "hung":
                reading = given_up(reading, patience, timeout_seconds)
            trial = Trial(number, settings, reading, self._clock.spent - before, again=again)
        else:
            trial = Trial(
                number=number,
                settings=settings,
                outcome=reading.measurement,
                spent_seconds=self._clock.spent - before,
                comparison=compare_in_process(reading.pairs, reading.trusted),
                baseline_turns=reading.reference_turns,
                again=again,
            )
        return self._add(trial)

    def _add(self, trial: Trial) -> Trial:
        """Learn from a finished trial and keep it, tell of it, and return it as it is kept."""
        trial = self.outcomes.learn(trial)
        self._instruments.keep(trial)
        self._tell(TrialFinished(trial=trial, best=self.best))
        if isinstance(trial.outcome, Failure) and self.knowledge.is_given_up(trial.settings):
            self._tell(Note(f"settings that compile to the same code are not tried again: {trial.outcome.message}"))
        self._tell_closed()
        return trial

    def _tell_closed(self) -> None:
        """Tell what failed trials have in common, once that is clear."""
        for cause in self.knowledge.causes:
            common = cause.common
            if common is not None and common.part not in self._closed:
                self._closed.add(common.part)
                self._tell(Note(f"{part_words(common.part)} is not tried again: {common.words}"))
