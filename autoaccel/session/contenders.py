"""Contenders: the best settings that a search finds, proven one after the other until one holds."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from autoaccel.records.machine import Machine
from autoaccel.records.progress import Note, StageStarted
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.search.starts import start_of
from autoaccel.session.contributions import Breakdown, break_down
from autoaccel.session.ending import (
    Ending,
    keep_own,
    not_worth_proving,
    nothing_better,
    proven,
    too_disturbed,
    why_not,
    with_contributions,
)
from autoaccel.session.evidence import MetricJudge
from autoaccel.session.pairs import FreshPairs
from autoaccel.session.proof import MOST_CONTENDERS, Proof, Prover, proof_seconds
from autoaccel.session.run import Run
from autoaccel.session.searching import Search
from autoaccel.session.sharing import proof_elsewhere
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import compiles
from autoaccel.statistics.comparison import SHARED_DRIFT
from autoaccel.statistics.deciding import LEAST_PAIRS
from autoaccel.statistics.disturbance import TOO_DISTURBED
from autoaccel.statistics.runs import CompileSeconds

if TYPE_CHECKING:
    from autoaccel.search.shared import SharedStudy


def search_and_prove(
    run: Run,
    machine: Machine,
    yardstick: Yardstick,
    search: Search,
    space: SearchSpace,
    judge: MetricJudge,
    study: SharedStudy | None,
) -> tuple[Ending, str] | None:
    """Search, and prove the best; if its metric drops, go on without what harms it. Return what it comes to and why.

    None if another of the study's workers proves it.
    """
    own = yardstick.settings
    steps_per_epoch = yardstick.facts.steps_per_epoch
    plan, scatter = yardstick.plan, yardstick.scatter
    usual, apart = yardstick.usual_seconds, yardstick.is_apart
    pairs = FreshPairs(run, own, steps_per_epoch, plan, usual, apart=apart, scatter=scatter)
    prover = Prover(run, yardstick.facts, pairs)

    def reserve(settings: Settings, speedup: float | None) -> float:
        plan = judge.plan(settings, speedup)
        if plan is not None and not plan.fits:
            return math.inf  # whatever they win, nothing could show that they keep the metric
        needed = proof_seconds(plan.steps if plan else None, run.request.metric_repeats, yardstick, speedup)
        return run.stages.held_back(needed, len(search.trials))

    refused = ""
    for contender in range(1, MOST_CONTENDERS + 1):
        ended = search.run(reserve)
        best = search.best
        if study and (elsewhere := proof_elsewhere(study, best, len(search.trials))):
            run.tell(Note(elsewhere))
            return None
        if best is None:
            break
        if search.saving_seconds < LEAST_PAIRS * search.trial_seconds:
            refused = not_worth_proving(search.saving_seconds, run.request.runs)
            break
        yardstick.rest()  # whose memory the proof may need
        least_speedup = search.least_speedup(best.settings)
        speedup = best.comparison.speedup if best.comparison else None
        speed_seconds = proof_seconds(None, 0, yardstick, speedup)
        metric = judge.begin(best.settings, speedup, contender, run.clock.left - speed_seconds)
        run.stages.expect("confirm", speed_seconds)
        run.stages.expect("metric", judge.seconds(metric.plan, speedup) if metric else 0.0)
        run.tell(StageStarted("confirm", f"the best against your own settings, in fresh processes ({ended})"))
        proof = prover.prove(best.settings, contender, metric, least_speedup)
        if study and proof.outcome != "incomplete":
            study.show_judged(best.settings)
        if proof.outcome == "proven":
            search.judge(best.settings, proof.accuracy, "holds")
            run.folder.save_trials(search.trials)
            drift = SHARED_DRIFT if machine.cpu.is_virtual else 0.0
            starts = _slower_starts(run, yardstick, search, best.settings)
            ending = proven(proof, best.settings, own, *starts, drift)
            return with_contributions(ending, _break_down(run, yardstick, search, space, best, proof)), ended
        refused = why_not(proof, best.settings, own, len(search.trials))
        search.judge(best.settings, proof.accuracy, "drops" if proof.outcome.startswith("metric") else "slower")
        run.folder.save_trials(search.trials)
        if proof.outcome == "incomplete":
            break
        run.tell(Note(refused.replace("Your own settings stay: ", "")))
        run.tell(StageStarted("search", "going on without it"))
    disturbed_share = max(yardstick.disturbed_share, pairs.disturbed_share)
    if disturbed_share > TOO_DISTURBED:
        return keep_own(yardstick, too_disturbed(disturbed_share)), ended
    return keep_own(yardstick, refused or nothing_better(search.trials)), ended


def _slower_starts(
    run: Run, yardstick: Yardstick, search: Search, settings: Settings
) -> tuple[CompileSeconds, CompileSeconds]:
    """Return what slower first steps cost under these settings, and under the user's own.

    The processes of the proof found compiled what the first with their settings had left, as later runs will.
    """
    own = start_of(yardstick.settings, yardstick.measurement)
    pairs = [pair for pair in run.folder.load_pairs("proof") if pair.settings == settings]
    for pair in pairs:
        search.learn_warm_start(settings, pair.recipe.compile_seconds)
    if pairs and compiles(yardstick.settings):
        warm = statistics.median(pair.baseline.compile_seconds for pair in pairs)
        own = CompileSeconds(own.cold, min(own.cold, warm))
    return search.compile_seconds(settings), own


def _break_down(
    run: Run, yardstick: Yardstick, search: Search, space: SearchSpace, best: Trial, proof: Proof
) -> Breakdown:
    """Return what each of the proven settings contributes, as far as the rest of the budget allows to tell."""
    assert proof.comparison is not None  # nothing is proven without
    count = len(changed(best.settings, yardstick.settings))
    if count > 1:
        run.tell(StageStarted("contributions", f"what each of the {count} settings contributes"))
    # A step of its own may be one of a larger batch.
    factor = best.outcome.batch_factor if isinstance(best.outcome, Measurement) else 1.0
    usual = factor * proof.own_step_seconds / proof.comparison.speedup
    steps_per_epoch = yardstick.facts.steps_per_epoch
    return break_down(
        chosen=best.settings,
        own=yardstick.settings,
        space=space,
        whole=proof.comparison,
        pairs=FreshPairs(
            run,
            best.settings,
            steps_per_epoch,
            yardstick.plan,
            usual,
            purpose="contributions",
            apart=yardstick.is_apart,
            scatter=yardstick.scatter,
        ),
        believer=search,
        clock=run.clock,
        budget_seconds=run.request.budget_seconds,
        pair_seconds=yardstick.pair_seconds(),
    )
