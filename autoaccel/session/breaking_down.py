"""Break proven settings down into what each contributes, in what is left of a run's budget."""

from __future__ import annotations

import functools

from autoaccel.proof.contributions import Breakdown, Proven, TimeLeft, break_down, expected_seconds
from autoaccel.records.progress import StageStarted
from autoaccel.records.trial import Measurement
from autoaccel.runs.limits import EXPLAINING_SHARE
from autoaccel.session.candidates import Attempt, ProofState


def break_down_proven(state: ProofState, attempt: Attempt) -> Breakdown:
    """Return what each setting contributes to settings that were proven, as far as the budget allows to tell."""
    setup, search, change, proof = state.setup, state.search, attempt.candidate.change, attempt.proof
    assert proof.comparison is not None  # nothing is proven without
    run = setup.run
    # Settings without a trial are a part of others that leaves the batch as it is.
    measured = [trial.outcome for trial in search.trials if trial.settings == change.settings]
    batch_factor = next((found.batch_factor for found in measured if isinstance(found, Measurement)), 1.0)
    recipe = Proven(change, proof.comparison, batch_factor * proof.baseline_step_seconds / proof.comparison.speedup)
    pair_seconds = functools.partial(setup.baseline.pair_seconds, against=recipe.reference)
    saved = search.task.economy.saved_seconds(search.knowledge.total_seconds(change.settings, proof.log_speedup))
    time = TimeLeft(run.clock, run.request.budget_seconds, pair_seconds, run.clock.spent + EXPLAINING_SHARE * saved)
    if len(change.names) > 1:
        run.stages.expect("contributions", expected_seconds(recipe, search.knowledge, time))
        run.tell(StageStarted("contributions", f"what each of the {len(change.names)} settings contributes"))
    return break_down(recipe, setup.baseline.compare, search.knowledge, time)
