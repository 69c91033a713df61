"""The evidence called rounding: for settings that change nothing but how numbers are rounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from autoaccel.bench.limits import BATCHES, LATER_POINTS, POINTS
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Note
from autoaccel.records.rounding import CompareUpdates, RecordUpdates, RoundingEvidence, UpdatesCompared, UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.space.change import Change
from autoaccel.space.knobs import count_processes
from autoaccel.statistics.rounding import judge_updates, may_settle


def update_steps(points: Sequence[int]) -> int:
    """Return how many steps the user's own process makes.

    One that comes first, those that train, those from points, and one of them once more.
    """
    return 1 + points[-1] + len(points) * BATCHES + 1


UPDATE_STEPS = update_steps(POINTS)


def recorded_steps(folder: Path) -> frozenset[int]:
    """Return after how many steps the user's own updates are kept in this folder of a run: see `update_steps`."""
    return frozenset(update_steps(points) for points in (POINTS, LATER_POINTS) if _complete(folder, points).exists())


def _complete(folder: Path, points: Sequence[int]) -> Path:
    """Return the file that is there once the user's own updates at some points are."""
    return folder / str(points[-1]) / "complete"


def may_compare_updates(facts: TrainingFacts) -> bool:
    """Return whether single updates of this training can be compared, and there are enough of them."""
    return facts.seen.shows_updates and facts.most_steps >= UPDATE_STEPS


_TAKES_PARAMETERS = "model.norm_biases"  # whose updates then have no counterpart

NotByRounding = Literal["changes the training", "several ranks", "takes parameters away"]
"""Why updates cannot tell: they would be another training's, are not compared among ranks, or have no counterpart."""


def why_not_by_rounding(change: Change) -> NotByRounding | None:
    """Return why updates cannot tell whether a change, which is not exact, keeps the metric; None if they can."""
    if change.risk == "changes_training":
        return "changes the training"
    if change.processes > 1 or count_processes(change.own) > 1:
        return "several ranks"
    return "takes parameters away" if _TAKES_PARAMETERS in change.names else None


def judge_rounding(
    run: TuningRun, baseline_settings: Settings, settings: Settings, has_time: Callable[[int], bool]
) -> RoundingEvidence | Failure:
    """Return what a few steps' updates say of settings that only round differently; see `why_not_by_rounding`.

    Two processes make them, one after the other. What the user's own has made stays in the run's folder, so that for
    other settings only the second is needed. Where the user's own process fails, the evidence is open: that says
    nothing of the settings. A Failure is the settings' own, or of the kind "hung" if there was too little time.

    Args:
        run: What all stages share; by the end of its budget both must have ended.
        baseline_settings: The user's settings, in every call of a run the same.
        settings: To be judged.
        has_time: Returns whether there is time to compare updates after so many steps. Asked before later points are
            looked at, because the first show too large an error: the first, large changes of a network are over then.
    """
    start = time.perf_counter()
    try:
        compared = _compare(run, baseline_settings, settings, POINTS)
        if not isinstance(compared, UpdatesCompared):
            return compared
        first = judge_updates(compared)
        if not may_settle(compared, first) or not has_time(update_steps(LATER_POINTS)):
            return first
        run.tell(Note(f"{_span(POINTS)} {first.reason}; checked again {_span(LATER_POINTS)}"))
        compared = _compare(run, baseline_settings, settings, LATER_POINTS)
        if isinstance(compared, UpdatesCompared):
            return judge_updates(compared, by_losses=True)
        settings_failed = isinstance(compared, Failure) and compared.kind != "hung"
        return compared if settings_failed else first
    finally:
        run.starter.spent_on["training for the metric"] += time.perf_counter() - start


def _span(points: Sequence[int]) -> str:
    return f"after {points[0]} to {points[-1]} steps"


def _compare(
    run: TuningRun, baseline_settings: Settings, settings: Settings, points: Sequence[int]
) -> UpdatesCompared | RoundingEvidence | Failure:
    """Return how settings change the updates at some points; open evidence if the user's own process fails."""
    complete = _complete(run.folder.rounding, points)
    folder = complete.parent
    if not complete.exists():
        folder.mkdir(exist_ok=True, parents=True)
        record = RecordUpdates(str(folder.absolute()), tuple(points), BATCHES)
        recorded = run.starter.ask(record, baseline_settings, "rounding-baseline", UpdatesRecorded, run.clock.left)
        if isinstance(recorded, Failure) and recorded.kind != "hung":
            return RoundingEvidence("open", f"under your own settings, {recorded.message}", 0, 0, 0)
        if isinstance(recorded, Failure):
            return recorded
        complete.touch()
    compare = CompareUpdates(str(folder.absolute()))
    compared = run.starter.ask(compare, settings, "rounding-recipe", UpdatesCompared, run.clock.left)
    if isinstance(compared, UpdatesCompared) and not compared.finite:
        message = "its updates or losses are not finite where those under your own settings are"
        return Failure(kind="diverged", message=message, signature="")
    return compared
