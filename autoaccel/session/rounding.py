"""The evidence called rounding: for settings that change nothing but how numbers are rounded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection

from autoaccel.records.rounding import CompareUpdates, RecordUpdates, RoundingEvidence, UpdatesCompared, UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Failure
from autoaccel.session.run import Run
from autoaccel.space.knobs import KNOBS, ranks_of, risky_part
from autoaccel.statistics.rounding import judge_updates

_OWN_SHARE = 0.4
"""Of the time: for the user's own steps. As many are made under the settings, which are hardly slower but may compile,
and both processes start."""


def why_not_by_rounding(settings: Settings, own: Settings, inexact: Collection[str]) -> str:
    """Return why updates cannot tell whether the settings keep the metric; empty if they can.

    Args:
        settings: Some that are not exact.
        own: The user's.
        inexact: Knobs that are exact elsewhere, but not on this training.
    """
    others = [name for name in risky_part(settings, own, inexact) if KNOBS[name].risk != "rounding"]
    if others:
        return f"{', '.join(others)} changes the training itself, not only how numbers are rounded"
    if ranks_of(settings) > 1 or ranks_of(own) > 1:
        return "the updates of several ranks are not compared"
    return ""


def judge_rounding(run: Run, own: Settings, settings: Settings, seconds: float) -> RoundingEvidence | Failure:
    """Return what a few steps' updates say of settings that only round differently; see `why_not_by_rounding`.

    Two processes make them, one after the other. The states that they start from lie in the run's folder meanwhile.

    Args:
        run: What all stages share.
        own: The user's settings.
        settings: To be judged.
        seconds: That all may take; a Failure of the kind "hung" if they do not suffice.
    """
    deadline = time.perf_counter() + seconds
    folder = run.folder.rounding
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        record = RecordUpdates(str(folder.absolute()), _OWN_SHARE * seconds)
        recorded = run.runner.ask(record, own, "rounding-baseline", UpdatesRecorded, seconds)
        if isinstance(recorded, Failure):
            return recorded
        left = deadline - time.perf_counter()
        compare = CompareUpdates(str(folder.absolute()))
        compared = run.runner.ask(compare, settings, "rounding-recipe", UpdatesCompared, left)
        return compared if isinstance(compared, Failure) else judge_updates(compared)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
