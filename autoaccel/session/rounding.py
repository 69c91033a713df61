"""The evidence called rounding: for settings that change nothing but how numbers are rounded."""

from __future__ import annotations

import time
from collections.abc import Mapping

from autoaccel.records.knob import Risk
from autoaccel.records.rounding import CompareUpdates, RecordUpdates, RoundingEvidence, UpdatesCompared, UpdatesRecorded
from autoaccel.records.settings import Settings, changed
from autoaccel.records.trial import Failure
from autoaccel.session.run import Run
from autoaccel.space.knobs import ranks_of, risk_of
from autoaccel.statistics.rounding import judge_updates

POINTS = (6, 8, 10)
"""After so many steps updates are compared: not after the first few, in which many networks are thrown about, and three
times, because the median of three leaves out one that is not like the others."""

BATCHES = 3  # at each point: a variance needs some, and more make it no clearer than points do

UPDATE_STEPS = 1 + POINTS[-1] + len(POINTS) * BATCHES + 1
"""Of the user's own process: one that comes first, those that train, those from points, and one of them once more."""

_TAKES_PARAMETERS = "model.norm_biases"  # whose updates then have no counterpart


def why_not_by_rounding(settings: Settings, own: Settings, risks: Mapping[str, Risk]) -> str:
    """Return why updates cannot tell whether the settings keep the metric; empty if they can.

    Args:
        settings: Some that are not exact.
        own: The user's.
        risks: Of knobs that may do another thing to this training than elsewhere; see `SearchSpace.risks`.
    """
    changes = changed(settings, own)
    others = [name for name in changes if risk_of({name: settings[name]}, own, risks) == "changes_training"]
    if others:
        return f"{', '.join(others)} changes the training itself, not only how numbers are rounded"
    if ranks_of(settings) > 1 or ranks_of(own) > 1:
        return "the updates of several ranks are not compared"
    if _TAKES_PARAMETERS in changes:
        return f"{_TAKES_PARAMETERS} takes parameters away, whose updates have no counterpart"
    return ""


def judge_rounding(run: Run, own: Settings, settings: Settings) -> RoundingEvidence | Failure:
    """Return what a few steps' updates say of settings that only round differently; see `why_not_by_rounding`.

    Two processes make them, one after the other. What the user's own has made stays in the run's folder, so that for
    other settings only the second is needed. Where the user's own process fails, the evidence is open: that says
    nothing of the settings. A Failure is the settings' own, or of the kind "hung" if there was too little time.

    Args:
        run: What all stages share; by the end of its budget both must have ended.
        own: The user's settings, in every call of a run the same.
        settings: To be judged.
    """
    folder, start = run.folder.rounding, time.perf_counter()
    try:
        if not (folder / "complete").exists():
            folder.mkdir(exist_ok=True)
            record = RecordUpdates(str(folder.absolute()), POINTS, BATCHES)
            recorded = run.runner.ask(record, own, "rounding-baseline", UpdatesRecorded, run.clock.left)
            if isinstance(recorded, Failure) and recorded.kind != "hung":
                return RoundingEvidence("open", f"under your own settings, {recorded.message}", 0, 0, 0)
            if isinstance(recorded, Failure):
                return recorded
            (folder / "complete").touch()
        compare = CompareUpdates(str(folder.absolute()))
        compared = run.runner.ask(compare, settings, "rounding-recipe", UpdatesCompared, run.clock.left)
        return compared if isinstance(compared, Failure) else judge_updates(compared)
    finally:
        run.runner.spent_on["training for the metric"] += time.perf_counter() - start
