"""Break proven settings down into what each contributes, in what is left of a run's budget."""

from __future__ import annotations

from autoaccel.records.progress import StageStarted
from autoaccel.records.settings import Settings, changed
from autoaccel.records.trial import Measurement
from autoaccel.search.loop import Search
from autoaccel.session.contributions import MAX_PAIRS_EACH, Breakdown, ProvenSettings, TimeLeft, break_down
from autoaccel.session.pairs import FreshPairs
from autoaccel.session.proof import Proof
from autoaccel.session.setup import Setup


def break_down_proven(setup: Setup, search: Search, settings: Settings, proof: Proof) -> Breakdown:
    """Return what each of the proven settings contributes, as far as the rest of the budget allows to tell."""
    assert proof.comparison is not None  # nothing is proven without
    run, baseline = setup.run, setup.baseline
    count = len(changed(settings, setup.baseline_settings))
    usual = _batch_factor(search, settings) * proof.baseline_step_seconds / proof.comparison.speedup
    plan = baseline.plan._replace(step_seconds=usual)
    reference = baseline.reference._replace(settings=settings, usual_seconds=usual, plan=plan)
    time = TimeLeft(run.clock, run.request.budget_seconds, reference.pair_seconds(baseline.ready_again_seconds))
    if count > 1:
        run.stages.expect("contributions", min(time.most_seconds, count * MAX_PAIRS_EACH * time.pair_seconds))
        run.tell(StageStarted("contributions", f"what each of the {count} settings contributes"))
    return break_down(
        ProvenSettings(settings, setup.baseline_settings, setup.space, proof.comparison),
        FreshPairs(run, reference, purpose="contributions"),
        search.knowledge,
        time,
    )


def _batch_factor(search: Search, settings: Settings) -> float:
    """Return the samples of a step under some settings, over those of the user's own.

    Settings without a trial are a part of others that leaves the batch as it is.
    """
    measured = [trial.outcome for trial in search.trials if trial.settings == settings]
    return next((found.batch_factor for found in measured if isinstance(found, Measurement)), 1.0)
