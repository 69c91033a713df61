"""LiveState: what is known of a run after the events so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoaccel.records.progress import (
    BaselineMeasured,
    Event,
    Note,
    PairFinished,
    RunStarted,
    StageName,
    StageStarted,
    TrialFinished,
    TrialStarted,
)
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Trial


@dataclass(frozen=True)
class LiveState:
    """What is known of a run. Replaced as a whole, never changed: another thread may be drawing it."""

    run: RunStarted | None = None
    stages: tuple[StageStarted, ...] = ()  # the last is the current one
    baseline: BaselineMeasured | None = None
    running: TrialStarted | None = None
    trials: tuple[Trial, ...] = ()
    best: Trial | None = None
    pair: PairFinished | None = None  # the last
    notes: tuple[str, ...] = ()

    @property
    def stage(self) -> StageName | None:
        """The current stage."""
        return self.stages[-1].stage if self.stages else None

    def baseline_settings(self, otherwise: Settings) -> Settings:
        """The user's own settings, or others as long as those are not known."""
        return self.baseline.settings if self.baseline else otherwise


def after(state: LiveState, event: Event) -> LiveState:
    """Return what is known once the event has happened."""
    if isinstance(event, RunStarted):
        return LiveState(run=event)
    if isinstance(event, StageStarted):
        return replace(state, stages=(*state.stages, event), running=None)
    if isinstance(event, BaselineMeasured):
        return replace(state, baseline=event)
    if isinstance(event, TrialStarted):
        return replace(state, running=event)
    if isinstance(event, TrialFinished):
        return replace(state, trials=(*state.trials, event.trial), best=event.best, running=None)
    if isinstance(event, PairFinished):
        return replace(state, pair=event)
    if isinstance(event, Note):
        return replace(state, notes=(*state.notes, event.text))
    return state
