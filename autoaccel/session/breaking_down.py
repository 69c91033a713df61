"""Break proven settings down into what each contributes, in what is left of a run's budget."""

from __future__ import annotations

import functools
import math

from autoaccel.proof.contributions import Breakdown, Proven, TimeLeft, break_down, expected_seconds
from autoaccel.records.progress import StageStarted
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Measurement
from autoaccel.runs.plan import EXPLAINING_SHARE
from autoaccel.search.loop import Search
from autoaccel.session.candidates import Attempt, ProofState


def break_down_proven(state: ProofState, attempt: Attempt) -> Breakdown:
    """Return what each setting of a proven change contributes, as far as the rest of the budget allows to tell."""
    search, change, proof = state.search, attempt.candidate.change, attempt.proof
    assert proof.comparison is not None  # nothing is proven without
    run, baseline = state.setup.run, state.setup.baseline
    usual = _batch_factor(search, change.settings) * proof.baseline_step_seconds / proof.comparison.speedup
    recipe = Proven(change, proof.comparison, usual)
    pair_seconds = functools.partial(baseline.pair_seconds, against=recipe.reference)
    log_speedup = math.log(proof.comparison.speedup)
    saved = search.task.economy.saved_seconds(search.knowledge.total_seconds(change.settings, log_speedup))
    time = TimeLeft(run.clock, run.request.budget_seconds, pair_seconds, run.clock.spent + EXPLAINING_SHARE * saved)
    if len(change.names) > 1:
        run.stages.expect("contributions", expected_seconds(recipe, search.knowledge, time))
        run.tell(StageStarted("contributions", f"what each of the {len(change.names)} settings contributes"))
    return break_down(recipe, baseline.compare, search.knowledge, time)


def _batch_factor(search: Search, settings: Settings) -> float:
    """Return the samples of a step under some settings, over those of the user's own.

    Settings without a trial are a part of others that leaves the batch as it is.
    """
    measured = [trial.outcome for trial in search.trials if trial.settings == settings]
    return next((found.batch_factor for found in measured if isinstance(found, Measurement)), 1.0)
