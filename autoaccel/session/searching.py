"""The search: one trial after another, each measured in turns with the baseline, as long as that pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from autoaccel.records.knob import Risk
from autoaccel.records.progress import Listener, Note, TrialFinished, TrialStarted
from autoaccel.records.settings import Settings, changed
from autoaccel.records.study import Look
from autoaccel.records.trial import Accuracy, Failure, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.failures import Cause, Failed, Part, find_causes, part_words
from autoaccel.search.ranking import Ranking
from autoaccel.search.strategy import Evidence, Strategy
from autoaccel.session.patience import most_trial_seconds, patience_for
from autoaccel.session.turn_plan import plan_turns
from autoaccel.session.turns import Enough
from autoaccel.session.yardstick import Reading
from autoaccel.space.knobs import RISKS, risk_of, risky_part
from autoaccel.statistics.comparison import (
    CONFIDENCE,
    NOISE_THRESHOLD,
    PROCESS_DEVIATION,
    Pair,
    compare_in_process,
    log_ratios,
    middle,
    turns_deviation,
)
from autoaccel.statistics.runs import CompileSeconds, slowest_start
from autoaccel.statistics.sequences import normal_radius

if TYPE_CHECKING:
    from autoaccel.search.shared import SharedStudy

_CLEAR = 0.5 * PROCESS_DEVIATION  # a reading's own deviation below this is lost in its process's luck
_EVER_WRONG = 0.05  # probability that a trial is ever given up though it is no worse than the best
_SUSPICIOUS = 3.0  # standard deviations above what the other trials let expect
_NO_MORE_TIME = "the budget has no more for it"

NOTHING_PAYS = "no trial promises to save more time than it takes"
OUT_OF_TIME = "another trial would not fit into the search's share of the budget"
EVERYTHING_TRIED = "every setting of the search space was tried"
"""Why a search ended."""

Judgement = Literal["holds", "drops", "slower", "more than rounding", "open"]
"""What a proof says of settings."""

Reserve = Callable[[Settings, float | None], float]
"""Returns the seconds that must be left to prove settings: with the speed-up that was measured, None if none was."""


class Gauge(Protocol):
    """What measures settings against the baseline: a `Yardstick`, or a table of readings taken before."""

    def measure(self, settings: Settings, name: str, enough: Enough, timeout_seconds: float) -> Reading | Failure: ...


class Timer(Protocol):
    """What knows how much of the budget is left: a `Clock`, or one that a simulation moves."""

    @property
    def left(self) -> float: ...

    @property
    def spent(self) -> float: ...


class Search:
    """What the search needs to measure and to judge."""

    def __init__(
        self,
        gauge: Gauge,
        own: Settings,
        strategy: Strategy,
        economy: Economy,
        clock: Timer,
        keep: Callable[[Trial], None],
        listener: Listener,
        most_trials: int | None = None,
        others: SharedStudy | None = None,
    ) -> None:
        """Begin with nothing tried.

        Args:
            gauge: Measures.
            own: The baseline's settings.
            strategy: Suggests.
            economy: What time is worth.
            clock: Knows the budget.
            keep: Told every finished trial, to keep it.
            listener: Told what happens.
            most_trials: After so many the search ends.
            others: What workers on other machines do, if there are any: their trials count, and none is run twice.
        """
        self._gauge = gauge
        self._own = own
        self._strategy = strategy
        self._economy = economy
        self._clock = clock
        self._keep = keep
        self._tell = listener
        self._most_trials = math.inf if most_trials is None else most_trials
        self._others = others
        self.ranking = Ranking(strategy, own, economy)
        """Knows what could be proven, and what of it first."""
        self.trials: list[Trial] = []
        self._closed: set[Part] = set()  # because of failures, and told
        self._failed_proofs: list[Failed] = []
        self._proof_causes: list[Cause] = []

    @property
    def best(self) -> Trial | None:
        """The trial of the settings that would be proven first; None while the baseline's own are as good."""
        first = self.ranking.first(self.ranking.contenders())
        if first is None:
            return None
        return next(trial for trial in self.trials if trial.comparison and trial.settings == first.settings)

    @property
    def saving_seconds(self) -> float:
        """What the fastest settings are expected to save on all runs."""
        best = min([entry.total_seconds for entry in self._strategy.ranked()[:1]], default=math.inf)
        return self.saving_of(best)

    def saving_of(self, total_seconds: float) -> float:
        """Return what settings whose run takes so long are expected to save on all runs."""
        return self._economy.runs * max(0.0, self._economy.own_total_seconds - total_seconds)

    @property
    def trial_seconds(self) -> float:
        """What a trial usually takes that compiles nothing."""
        return self._strategy.trial_seconds

    def take_over(self, trials: Sequence[Trial]) -> None:
        """Go on from the trials of an earlier part of the run."""
        for trial in trials:
            self._strategy.learn(trial)
            self.trials.append(trial)
            if trial.again and isinstance(trial.outcome, Failure):
                self._fail_proof(trial.settings, trial.outcome)
            elif not trial.feasible:
                drops = trial.accuracy is not None
                self._strategy.rule_out(self._harmful_part(trial.settings) if drops else trial.settings)

    def compile_seconds(self, settings: Settings) -> CompileSeconds:
        """Return what slower first steps cost the first run under these settings, and what all later ones."""
        return self._strategy.compile_seconds(settings)

    def learn_warm_start(self, settings: Settings, seconds: float) -> None:
        """Take into account what slower first steps cost a process of the proof, which finds all compiled."""
        self._strategy.learn_warm_start(settings, seconds)

    def contrast(
        self, settings: Sequence[Settings], weights: Sequence[float], evidence: Sequence[Evidence] = ()
    ) -> tuple[float, float]:
        """Return mean and deviation of the weighted sum of the settings' log speed-ups; see `Strategy.contrast`."""
        return self._strategy.contrast(settings, weights, evidence)

    def least_speedup(self, settings: Settings) -> float:
        """Return the speed-up of the steps with which a whole run under these settings is noticeably shorter.

        Of a whole run as it is on average over all that will be made, even if their slower start takes as long as it
        may: it was measured once.
        """
        total_seconds = self._economy.own_total_seconds / (1 + NOISE_THRESHOLD)
        own_start = self._economy.compile_seconds
        extra = slowest_start(max(0.0, self._average_start(settings) - own_start), CONFIDENCE)
        return math.exp(self._economy.log_speedup_for(total_seconds, own_start + extra))

    def judge(self, settings: Settings, accuracy: Accuracy | None, judgement: Judgement) -> None:
        """Take the proof of some settings into account: what it ruled out, or left open, is not tried again."""
        risky = risky_part(settings, self._own, self._strategy.space.inexact)
        if judgement == "drops":
            self._rule_out(self._harmful_part(settings))
        elif judgement == "more than rounding":  # with all that contains it; but later runs may tell more
            self._strategy.rule_out(self._harmful_part(settings))
        elif judgement != "holds":
            self._strategy.rule_out(settings)

        def judged(trial: Trial) -> Trial:
            alike = risky_part(trial.settings, self._own, self._strategy.space.inexact) == risky
            return msgspec.structs.replace(trial, accuracy=accuracy) if alike else trial

        self.trials = [judged(trial) for trial in self.trials]

    def leave_out(self, risk: Risk) -> None:
        """Try and prove nothing more with a setting of this risk or a greater one."""
        space = self._strategy.space
        wished = {name: (value,) for name, value in space.fixed.items()}
        for name, values in {**space.open, **wished}.items():
            for value in values:
                if RISKS.index(risk_of({name: value}, {name: self._own[name]}, space.risks)) >= RISKS.index(risk):
                    self._strategy.rule_out({name: value})

    def fail(self, settings: Settings, failure: Failure, spent_seconds: float) -> None:
        """Take into account that settings failed in their proof, though not in their trial: that counts as one more."""
        self._fail_proof(settings, failure)
        self._add(Trial(len(self.trials) + 1, settings, failure, spent_seconds, again=True))

    def _fail_proof(self, settings: Settings, failure: Failure) -> None:
        # A trial makes fewer steps: that others worked in theirs excuses nothing.
        self._failed_proofs.append(Failed(changed(settings, self._own), failure))
        self._proof_causes = find_causes(self._failed_proofs, ())
        self._rule_out(settings)
        for closed in filter(None, (cause.closed for cause in self._proof_causes)):
            part = {name: value for name, value in closed if value is not None}
            if len(part) == len(closed):
                self._rule_out(part)

    def chance(self, settings: Settings) -> float:
        """Return the probability that settings do not fail in their proof, by what others have in theirs."""
        change = changed(settings, self._own)
        return math.prod(1 - cause.doubt(change) for cause in self._proof_causes)

    def _harmful_part(self, settings: Settings) -> Settings:
        """Return what in settings may have harmed the training: all of them where none changes a number."""
        return risky_part(settings, self._own, self._strategy.space.inexact) or settings

    def _rule_out(self, part: Settings) -> None:
        """Never try or prove again what contains these settings."""
        self._strategy.rule_out(part)
        self.trials = [
            msgspec.structs.replace(trial, feasible=False) if part.items() <= trial.settings.items() else trial
            for trial in self.trials
        ]

    def run(self, reserve: Reserve) -> str:
        """Try settings until the search is over.

        Args:
            reserve: What of the budget must be left to prove the best, and what is tried, should it become the best.

        Returns:
            Why it ended.
        """
        while True:
            look = self._look_at_others()
            if len(self.trials) >= self._most_trials:
                return f"{len(self.trials)} trials were asked for"
            room = self._room(reserve)
            suggestion = self._strategy.suggest(room, look.busy, look.orphans)
            if suggestion is None:
                if self._strategy.out_of_time:
                    return OUT_OF_TIME
                left = room(self._own)  # which need no proof
                if self._others and look.measuring and left > 0:
                    # What they find may change what pays; and if one dies, somebody must be left who goes on with it.
                    self._others.wait(left)
                    continue
                if not self._strategy.untried_left:
                    return EVERYTHING_TRIED
                return NOTHING_PAYS
            if not self._claim(suggestion.settings):
                continue
            mean, deviation = self._strategy.expects(suggestion.settings)
            trial = self._try(suggestion.settings, suggestion.again, room(suggestion.settings))
            if trial.comparison is None or suggestion.again:
                continue
            suspicious = math.log(trial.comparison.speedup) > mean + _SUSPICIOUS * deviation
            # Too good to be believed: another process must show it too before anything is built on it. If there is no
            # time for that, its proof will tell.
            left = self._room(reserve)(suggestion.settings)  # the best, which it may be by now, has another proof
            if suspicious and left >= self.trial_seconds and self._claim(suggestion.settings):
                self._try(suggestion.settings, True, left)

    def _room(self, reserve: Reserve) -> Callable[[Settings], float]:
        """Return what tells how long a trial of some settings may take, so that the best can be proven after it."""
        best = self.best
        held = reserve(best.settings, best.comparison.speedup) if best and best.comparison else 0.0

        def room(settings: Settings) -> float:
            needed = 0.0 if settings == self._own else reserve(settings, None)
            return min(
                self._clock.left - max(held, needed),
                most_trial_seconds(settings, self._own, self._strategy, self._budget_seconds),
            )

        return room

    @property
    def _budget_seconds(self) -> float:
        return self._clock.spent + self._clock.left

    def _look_at_others(self) -> Look:
        """Learn what others have found since the last time."""
        if self._others is None:
            return Look()
        look = self._others.look()
        for trial in look.trials:
            self._add(msgspec.structs.replace(trial, number=len(self.trials) + 1))
        return look

    def _claim(self, settings: Settings) -> bool:
        """Whether nobody else measures these settings, or has since this worker last looked."""
        if self._others is None:
            return True
        return self._others.claim(settings, reading=sum(trial.settings == settings for trial in self.trials))

    def _try(self, settings: Settings, again: bool, most_seconds: float) -> Trial:
        number = len(self.trials) + 1
        self._tell(TrialStarted(number=number, settings=settings))
        before = self._clock.spent
        patience = patience_for(
            settings, self._own, self._strategy, self._economy.own_total_seconds, self._budget_seconds
        )
        timeout_seconds = max(1.0, min(most_seconds, patience.seconds))
        reading = self._gauge.measure(settings, f"trial-{number:04d}", self._enough_for(settings), timeout_seconds)
        if isinstance(reading, Failure):
            if reading.kind == "hung":
                kind, why = patience[1:] if timeout_seconds == patience.seconds else (reading.kind, _NO_MORE_TIME)
                message = f"given up after {timeout_seconds:.0f} s: {why}"
                reading = msgspec.structs.replace(reading, kind=kind, message=message)
            trial = Trial(number, settings, reading, self._clock.spent - before, again=again)
        else:
            trial = Trial(
                number=number,
                settings=settings,
                outcome=reading.measurement,
                spent_seconds=self._clock.spent - before,
                comparison=compare_in_process(reading.pairs, reading.trusted),
                own_turns=reading.own_turns,
                again=again,
            )
        trial = self._add(trial)
        if self._others is not None:
            self._others.finish(trial)
        return trial

    def _average_start(self, settings: Settings) -> float:
        return self._strategy.compile_seconds(settings).average(self._economy.runs)

    def _add(self, trial: Trial) -> Trial:
        """Learn from a finished trial and keep it; return it with what it comes to beside this machine's baseline."""
        self._strategy.learn(trial)
        if trial.comparison is not None:
            start_seconds = self._average_start(trial.settings)
            total_seconds = self._economy.total_seconds(math.log(trial.comparison.speedup), start_seconds)
            step_seconds = self._economy.step_seconds / trial.comparison.speedup
            trial = msgspec.structs.replace(trial, step_seconds=step_seconds, total_seconds=float(total_seconds))
        self.trials.append(trial)
        self._keep(trial)
        self._tell(TrialFinished(trial=trial, best=self.best))
        if isinstance(trial.outcome, Failure) and self._strategy.is_given_up(trial.settings):
            self._tell(Note(f"what is compiled alike is not tried again: {trial.outcome.message}"))
        self._tell_closed()
        return trial

    def _tell_closed(self) -> None:
        """Tell what failed trials have in common, once that is clear."""
        for cause in self._strategy.causes:
            if cause.closed is not None and cause.closed not in self._closed:
                self._closed.add(cause.closed)
                self._tell(Note(f"{part_words(cause.closed)} is not tried again: {cause.reason}"))

    def _enough_for(self, settings: Settings) -> Enough:
        """Return the rule by which a trial of these settings ends.

        It ends when it is clear that the settings are not the best, judged by an interval that holds at every look;
        when more turns could not make the reading better, because the process's luck is larger; or at the latest
        after the most turns that a trial is worth.
        """
        ranked = self._strategy.ranked()
        best_total = min([self._economy.own_total_seconds, *(entry.total_seconds for entry in ranked[:1])])
        needed = self._economy.log_speedup_for(best_total, self._average_start(settings))
        plan = plan_turns(self._economy.step_seconds)

        def enough(pairs: Sequence[Pair]) -> bool:
            if len(pairs) < 2:
                return False
            logs = log_ratios(pairs)
            own_deviation = turns_deviation(logs)
            deviation = max(own_deviation * math.sqrt(len(logs)), plan.usual_deviation)
            hopeless = middle(logs) + normal_radius(len(logs), deviation, _EVER_WRONG) + PROCESS_DEVIATION < needed
            clear = len(pairs) >= plan.least_turns and own_deviation < _CLEAR
            return hopeless or clear or len(pairs) >= plan.most_turns

        return enough
