"""What the proofs of a run come to: the recipe that is kept, or why the user's own settings are, and what is open."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from autoaccel.proof.contributions import Breakdown
from autoaccel.records.conclusion import (
    KeptBecause,
    LeftOpen,
    NothingBetter,
    NothingToWin,
    NotWorthProving,
    TooDisturbed,
    TooSmall,
)
from autoaccel.records.messages import Failure
from autoaccel.records.progress import Note, StageName
from autoaccel.records.recipe import OpenProof
from autoaccel.records.settings import Settings
from autoaccel.runs.limits import BUDGET_MARGIN, PROOF_MARGIN
from autoaccel.search.starts import start_of
from autoaccel.session.best import Best, FirstProven
from autoaccel.session.candidates import Attempt, ProofState, left_over, not_begun
from autoaccel.session.concluding import keep
from autoaccel.session.limits import EVEN_CHANCE
from autoaccel.session.setup import SearchResult, Setup
from autoaccel.space.knobs import compiles
from autoaccel.statistics.comparison import PROCESS_DEVIATION
from autoaccel.statistics.deciding import chance_of_proof, provable_log
from autoaccel.statistics.disturbance import TOO_DISTURBED
from autoaccel.statistics.runs import CompileSeconds

_MEASURED_ANEW: tuple[StageName, ...] = ("hardware", "baseline")  # by each part of a resumed run


def left_alone(setup: Setup) -> SearchResult | None:
    """Return the user's own settings if nothing can be won, or nothing that repays its search; None if something may.

    An earlier part of the run may have searched all the same, by other times of the baseline.
    """
    baseline = setup.baseline
    if not setup.can_win:
        why = NothingToWin(setup.facts.planned_steps, baseline.overhead_seconds, baseline.total_seconds)
        return SearchResult(tuple(setup.run.folder.load_trials()), Best.own(baseline, why), "nothing to win")
    if not setup.may_pay:
        return SearchResult((), Best.own(baseline, setup.not_worth_trying), "nothing pays")
    return None


def keep_recipe(state: ProofState, attempt: Attempt) -> None:
    """Write a recipe of what was proven, and tell that it is there: the run may be interrupted."""
    run, search, settings = state.setup.run, state.search, attempt.candidate.settings
    state.first = state.first or FirstProven(attempt.proof.proven_after_seconds, run.clock.spent)
    keep(state.setup, SearchResult(tuple(search.trials), _best_of(state, attempt), search.stop))
    if settings != state.kept:
        run.tell(Note(f"proven and saved in {run.folder.recipe}, where it stays if you stop the run now"))
    state.kept = settings


def proven_result(state: ProofState, attempt: Attempt, breakdown: Breakdown) -> SearchResult:
    """Return what was proven, with what each of its settings contributes."""
    search, proof = state.search, attempt.proof
    search.judge(attempt.candidate.settings, proof.accuracy, "holds", proof.comparison)
    state.setup.run.folder.save_trials(search.trials)
    best = replace(
        _best_of(state, attempt),
        contributions=breakdown.contributions,
        interaction=breakdown.interaction,
        left_open=_left_open(state, state.open, attempt.candidate.total_seconds),
    )
    return SearchResult(tuple(search.trials), best, search.stop)


def own_settings_result(state: ProofState) -> SearchResult:
    """Return the user's own settings, where nothing was proven."""
    kept, candidate = Best.own(state.setup.baseline, _why_kept(state)), left_over(state)
    without_time = [] if candidate is None else [not_begun(state, candidate)]
    best = replace(kept, left_open=_left_open(state, [*state.open, *without_time]))
    return SearchResult(tuple(state.search.trials), best, state.search.stop)


def _best_of(state: ProofState, attempt: Attempt) -> Best:
    """Return what was proven, with nothing known yet of what its settings contribute."""
    settings = attempt.candidate.settings
    return Best.proven(settings, attempt.proof, _slower_starts(state, settings), state.first)


def _slower_starts(state: ProofState, settings: Settings) -> tuple[CompileSeconds, CompileSeconds]:
    """Return what slower first steps cost under these settings, and under the user's own.

    The processes of the proof found compiled what the first with their settings had left, as later runs will.
    """
    setup, knowledge = state.setup, state.search.knowledge
    baseline = start_of(setup.baseline_settings, setup.baseline.measurement)
    pairs = [pair for pair in setup.run.folder.load_pairs("proof") if pair.settings == settings]
    for pair in pairs:
        knowledge.learn_warm_start(settings, pair.recipe.compile_seconds)
    if pairs and compiles(setup.baseline_settings):
        warm = statistics.median(pair.baseline.compile_seconds for pair in pairs)
        baseline = CompileSeconds(baseline.cold, min(baseline.cold, warm))
    return knowledge.compile_seconds(settings), baseline


def _why_kept(state: ProofState) -> KeptBecause:
    """Return why the user's own settings stay."""
    run, search = state.setup.run, state.search
    if (disturbed_share := state.setup.baseline.disturbed_share) > TOO_DISTURBED:
        return TooDisturbed(disturbed_share)
    if state.refused is not None:
        return state.refused
    if search.best is not None:  # whose proof was not even begun
        if chance_of_proof(search.fastest_speedup, run.drift) < EVEN_CHANCE:
            return TooSmall(search.fastest_speedup, math.exp(provable_log(run.drift) + PROCESS_DEVIATION))
        return NotWorthProving(search.saving_seconds, run.request.options.trainings)
    if not search.trials and search.stop == "nothing pays":
        return state.setup.not_worth_trying
    return NothingBetter(
        trials=len(search.trials),
        infeasible=sum(not trial.feasible for trial in search.trials),
        failed=sum(isinstance(trial.outcome, Failure) for trial in search.trials),
    )


def _left_open(state: ProofState, left: Sequence[Attempt], total_seconds: float = math.inf) -> LeftOpen | None:
    """Return the best of what is left open, if its run is expected to be shorter than this."""
    better = [one for one in left if one.candidate.total_seconds < total_seconds and math.isfinite(one.missing_seconds)]
    if not better:
        return None
    best = min(better, key=lambda one: one.candidate.total_seconds)
    run, judge, speedup = state.setup.run, state.judge, math.exp(best.candidate.log_speedup)
    # The next part of the run looks at the machine and measures the baseline again, and needs the least proof.
    again = sum(run.stages.spent(stage, run.clock.spent) for stage in _MEASURED_ANEW)
    least = BUDGET_MARGIN * run.stages.current.min_proof if run.stages.current else 0.0
    proof = OpenProof(best.candidate.settings, PROOF_MARGIN * again + max(best.missing_seconds, least))
    whole_seconds = None
    if best.proof.result != "incomplete" and best.by is not None and best.by.evidence == "share":
        whole_seconds = judge.budget_seconds(judge.planned_runs(), best.candidate.change, speedup)
    return LeftOpen(proof, speedup, best.by, whole_seconds)
