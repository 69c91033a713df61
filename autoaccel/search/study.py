"""SearchStudy: the Optuna study of a search, in which one worker or several find out something together. Nobody leads.

Optuna's sampler proposes settings; the trial that it is asked for becomes a claim on them once its attributes say so:
RUNNING while its worker measures them, then finished with the record of the trial in its attributes. A claim counts if
no earlier one, in the order that the storage gives them, holds the same settings.

Beside the claims are the baseline of each worker, what proofs have found, and proposals that were not measured: trials
without "settings" among their attributes. Optuna's constraint "metric" is above zero where the metric may drop further
than is allowed, or could not be shown to be kept.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from autoaccel.errors import AutoaccelError
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.study import PeerActivity, StudyHead
from autoaccel.records.trial import Measurement, Trial
from autoaccel.search.attributes import MAX_CHARACTERS, is_of_storage, pieces_of, reached, read_record
from autoaccel.search.claims import Claim, claims_among, refuse_impossible, refuse_other_settings
from autoaccel.search.peers import GRACE_SECONDS, Peers
from autoaccel.search.sampler import GivenSettings, distributions_of, held_by
from autoaccel.search.task import SearchTask
from autoaccel.space.knobs import KnobContext

_ASKING_SECONDS = 0.05  # between two looks at a trial whose worker has not said yet what it claims
_MAX_DEATHS = 2  # of workers, while they measured the same settings: after that nobody tries these again
_METRIC = "metric"  # Optuna's constraint

GivenUp = Literal["duplicate", "interrupted", "silent"]


class SearchStudy:
    """A study as one worker sees it, and how it takes part."""

    def __init__(self, storage: BaseStorage, name: str, host: str, grace_seconds: float = GRACE_SECONDS) -> None:
        """Open the study, or begin it; nobody else sees this worker before its first `beat`.

        Args:
            storage: From `open_storage`.
            name: Of the study.
            host: What others call this machine.
            grace_seconds: How long a worker may be silent.

        Raises:
            AutoaccelError: If the storage cannot be reached, as everything else here does.
        """
        self.name = name
        self._storage = storage
        self._told: set[int] = set()  # numbers of finished trials of others
        self._running: set[int] = set()  # others' claims at the last look
        self._task: SearchTask | None = None
        self._distributions: dict[str, CategoricalDistribution] = {}
        self.context: KnobContext | None = None
        """In which settings of others must be possible: they may be measured and proven here. None: there are none."""
        self._proposed: optuna.Trial | None = None  # by the sampler, and neither claimed nor refused yet
        with reached():
            self._study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
            self._id = storage.get_study_id_from_name(name)
        self.peers = Peers(storage, self._id, host, grace_seconds)

    def leave(self) -> None:
        """Give up what this worker measures, and say that it is gone."""
        with reached():
            for claim in claims_among(self._trials()):
                if claim.worker == self.peers.worker and claim.running:
                    self._give_up(claim.number, "interrupted")
        self.peers.leave()

    # --- what all start from -------------------------------------------------------------------------------

    def head(self) -> StudyHead | None:
        """Return what the study starts from; None if it has not begun."""
        with reached():
            for trial in self._trials():
                if found := read_record(trial, StudyHead, "head"):
                    return found
        return None

    def begin(self, head: StudyHead) -> StudyHead:
        """Offer what the study could start from; return what it starts from: another worker may have been faster."""
        with reached():
            template = create_trial(state=TrialState.FAIL, user_attrs=pieces_of(head, "head"))
            self._storage.create_new_trial(self._id, template)
        return self.head() or head

    # --- what is measured ----------------------------------------------------------------------------------

    def look(self) -> PeerActivity:
        """Return what the others have done and are doing; give up what a dead worker was measuring."""
        with reached():
            claims, live = claims_among(self._trials()), self.peers.live()
            if self.context is not None and self._task is not None:
                others = [claim for claim in claims if claim.worker != self.peers.worker]
                refuse_impossible(others, self._task.baseline, self.context)
            silent = [claim for claim in claims if claim.running and claim.worker not in (self.peers.worker, *live)]
            for claim in silent:
                self._give_up(claim.number, "silent")
            if silent:
                claims = claims_among(self._trials())
            running = [claim for claim in claims if claim.running and claim.worker != self.peers.worker]
            self._running = {claim.number for claim in running}
            # A worker may hold two claims on the same settings: it dies of them once.
            died = {(claim.key, claim.worker) for claim in claims if claim.given_up == "silent" and not claim.finished}
            deaths = Counter(key for key, _ in died)
            deadly = {key for key, count in deaths.items() if count >= _MAX_DEATHS}
            taken = {claim.key for claim in claims if claim.holds} | deadly
            left = [claim for claim in claims if not claim.holds and claim.given_up != "duplicate"]
            orphans = {claim.key: claim.settings for claim in left if claim.key not in taken}
            busy = {claim.key for claim in running} | deadly
            return PeerActivity(self._news(claims), frozenset(busy), tuple(orphans.values()), bool(running))

    def _news(self, claims: Sequence[Claim]) -> tuple[Trial, ...]:
        """Return the trials that others have finished and that were not returned before."""
        hosts = {worker: state.host for worker, state in self.peers.states().items()}
        news = []
        for claim in claims:
            if claim.finished and claim.worker != self.peers.worker and claim.number not in self._told:
                trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._id, claim.number)
                if trial := read_record(self._storage.get_trial(trial_id), Trial, "trial"):
                    refuse_other_settings(claim, trial)
                    news.append(msgspec.structs.replace(trial, host=hosts.get(claim.worker, "another machine")))
                self._told.add(claim.number)
        return tuple(news)

    def wait(self, seconds: float) -> None:
        """Wait until another worker has finished, begun or died, but no longer than this."""
        deadline = time.monotonic() + seconds
        with reached():
            while time.monotonic() < deadline:
                live = self.peers.live()
                if {
                    claim.number for claim in claims_among(self._trials()) if claim.running and claim.worker in live
                } != self._running:
                    return
                time.sleep(self.peers.poll_seconds)

    # --- what this worker tries ----------------------------------------------------------------------------

    def search(self, task: SearchTask, sampler: BaseSampler) -> None:
        """Let a sampler propose settings of this task from now on."""
        self._task = task
        self._distributions = distributions_of(task)
        self._study.sampler = sampler

    def propose(self) -> Settings:
        """Return what the sampler would try next: it is to be claimed or refused before anything else is.

        Raises:
            AutoaccelError: If the sampler fails.
        """
        assert self._task is not None  # whoever asks has said what is searched
        with reached():
            try:
                self._proposed = self._study.ask(dict(self._distributions))
            except UpdateFinishedTrialError:  # it took so long that others have given it up
                return self.propose()
            except Exception as error:
                if is_of_storage(error):
                    raise
                sampler = type(self._study.sampler).__name__
                raise AutoaccelError(
                    f"the sampler {sampler} has failed ({type(error).__name__}: {error}). Finished trials are kept: "
                    "correct the sampler and use --resume, or start a new run with another --sampler."
                ) from error
        space = self._task.space
        return space.settle({**self._task.baseline, **space.fixed, **self._proposed.params})

    def refuse(self, why: str) -> None:
        """Say why what was proposed is not measured."""
        assert self._proposed is not None  # only a proposal is refused
        with reached():
            self._proposed.set_user_attr("not measured", why)
            self._end(self._proposed)
            self._proposed = None

    def claim(self, settings: Settings, reading: int) -> optuna.Trial | None:
        """Return the claim of this worker on these settings; None if somebody was before it.

        Args:
            settings: What to measure: what was proposed, if something was.
            reading: How often they have been measured before.
        """
        with reached():
            trial, self._proposed = self._proposed or self._ask_for(settings), None
            try:
                # The settings last: with them the claim is complete.
                for name, value in (("worker", self.peers.worker), ("reading", reading), ("settings", settings)):
                    trial.set_user_attr(name, value)
            except UpdateFinishedTrialError:  # it took so long that others have given it up
                return self.claim(settings, reading)
            if not self._is_first(trial.number, settings_key(settings), reading):
                self._give_up(trial.number, "duplicate")
                return None
            return trial

    def _ask_for(self, settings: Settings) -> optuna.Trial:
        """Return a new trial of settings that the sampler was not asked for."""
        sampler, self._study.sampler = self._study.sampler, GivenSettings(settings)
        try:
            return self._study.ask(held_by(self._distributions, settings))
        finally:
            self._study.sampler = sampler

    def _is_first(self, number: int, key: str, reading: int) -> bool:
        """Whether no earlier claim is on the same; one that is not complete yet is waited for, unless it never is."""
        deadline = time.monotonic() + self.peers.grace_seconds
        while True:
            # The storage numbers trials one after the other, so that of two alike the later sees the earlier.
            earlier = [trial for trial in self._trials() if trial.number < number]
            if any(one.holds and (one.reading, one.key) == (reading, key) for one in claims_among(earlier)):
                return False
            running = [trial for trial in earlier if trial.state == TrialState.RUNNING]
            asking = [trial.number for trial in running if "settings" not in trial.user_attrs]
            if not asking:
                return True
            if time.monotonic() > deadline:
                for one in asking:
                    self._give_up(one, "silent")
            time.sleep(_ASKING_SECONDS)

    def finish(self, claimed: optuna.Trial, trial: Trial) -> None:
        """Tell the trial that came of this worker's claim.

        A worker that was taken for dead meanwhile, because its machine stood still, claims the same once more. If
        another worker holds it by now, that worker's trial counts.
        """
        with reached():
            try:
                self._tell(claimed, trial)
            except UpdateFinishedTrialError:
                if once_more := self.claim(trial.settings, int(claimed.user_attrs["reading"])):
                    self._tell(once_more, trial)

    def tell_baseline(self, settings: Settings, total_seconds: float) -> None:
        """Tell what the user's own settings take on this machine."""
        self._tell_beside(settings, {"baseline": settings}, total_seconds, is_feasible=True)

    def tell_proof(self, settings: Settings, found: str, total_seconds: float, accuracy: Accuracy | None) -> None:
        """Tell what a proof has found, as a trial of its own: those of the search have ended.

        Args:
            settings: That were to be proven.
            found: What the proof says of them.
            total_seconds: Projected for the whole planned run, as the proof's pairs show it.
            accuracy: What is known of the metric.
        """
        attributes = {"proof": found, **(pieces_of(accuracy, "accuracy") if accuracy else {})}
        self._tell_beside(settings, attributes, total_seconds, is_feasible=found in ("holds", "slower"))

    def tell_failed_proof(self, trial: Trial) -> None:
        """Tell that settings failed in their proof."""
        with reached():
            self._tell(self._ask_for(trial.settings), trial)

    def _tell_beside(
        self, settings: Settings, attributes: Mapping[str, Any], total_seconds: float, is_feasible: bool
    ) -> None:
        with reached():
            trial = self._ask_for(settings)
            for name, value in {"worker": self.peers.worker, **attributes}.items():
                trial.set_user_attr(name, value)
            trial.set_constraint(_METRIC, 0.0 if is_feasible else 1.0)
            self._end(trial, total_seconds)

    def _tell(self, trial: optuna.Trial, record: Trial) -> None:
        """Tell a finished trial; a complete record counts, whoever has ended it."""
        for step, log in enumerate(_turn_logs(record)):
            trial.report(log, step)
        if record.total_seconds is None:
            reason = record.outcome.message if isinstance(record.outcome, Failure) else "it could not be compared"
            trial.set_user_attr("reason", reason[:MAX_CHARACTERS])
        for name, piece in pieces_of(record, "trial").items():
            trial.set_user_attr(name, piece)
        if record.total_seconds is None:
            self._end(trial)
        else:
            trial.set_constraint(_METRIC, 0.0 if record.feasible else 1.0)
            self._end(trial, record.total_seconds)

    def _end(self, trial: optuna.Trial, value: float | None = None) -> None:
        """End one of Optuna's trials; without a value it has failed."""
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        try:
            self._study.tell(trial, value, state, skip_if_finished=True)
        except UpdateFinishedTrialError:
            raise
        except RuntimeError as error:
            # The trial has ended; whether the search has is for its own rule to say.
            if not _was_stopped(error):
                raise

    def _give_up(self, number: int, why: GivenUp) -> None:
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
        try:
            self._storage.set_trial_user_attr(trial_id, "given up", why)
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            pass  # its worker, or another that looked too, was faster

    def _trials(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._id, deepcopy=False)


def study_in_memory() -> SearchStudy:
    """Return a study that nobody else sees, and that ends with this process."""
    return SearchStudy(InMemoryStorage(), "search", "")


def _was_stopped(error: RuntimeError) -> bool:
    """Whether a sampler that has nothing left has stopped the study, which Optuna allows in `Study.optimize()` only.

    Optuna tells it in words alone.
    """
    return "Study.stop" in str(error)


def _turn_logs(trial: Trial) -> list[float]:
    """Return the logarithm of the speed-up that each turn of a trial showed."""
    if not isinstance(trial.outcome, Measurement):
        return []
    turns = zip(trial.baseline_turns, trial.outcome.turns, strict=False)
    means = [
        (statistics.fmean(baseline.step_seconds), statistics.fmean(other.step_seconds) / trial.outcome.batch_factor)
        for baseline, other in turns
        if baseline.step_seconds and other.step_seconds
    ]
    return [math.log(baseline / other) for baseline, other in means if baseline > 0 and other > 0]
