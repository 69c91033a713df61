"""Ending: what a run comes to, and the recipe that says so."""

from __future__ import annotations

import datetime
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoaccel import __version__
from autoaccel.records.machine import Machine
from autoaccel.records.recipe import (
    SCHEMA,
    Baseline,
    Contribution,
    Interaction,
    OpenProof,
    Projection,
    Recipe,
    SearchSummary,
)
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Accuracy, Comparison, Failure, Measurement, ModelSize, Trial
from autoaccel.report.accuracy import seen_words
from autoaccel.search.importance import importance
from autoaccel.search.starts import start_of
from autoaccel.session.contributions import Breakdown
from autoaccel.session.evidence import MetricPlan
from autoaccel.session.outcomes import value_results
from autoaccel.session.proof import Proof
from autoaccel.session.run import Run
from autoaccel.session.yardstick import Yardstick
from autoaccel.statistics.comparison import CONFIDENCE, NOISE_THRESHOLD, with_drift
from autoaccel.statistics.runs import CompileSeconds, run_speedup
from autoaccel.units import format_duration, round_duration


@dataclass(frozen=True)
class Ending:
    """What a run comes to: settings, the evidence for them, and one sentence."""

    summary: str
    settings: Settings
    comparison: Comparison
    compile_seconds: CompileSeconds
    own_compile_seconds: CompileSeconds
    baseline_step_seconds: float
    accuracy: Accuracy | None = None
    proven_after_seconds: float | None = None
    contributions: tuple[Contribution, ...] = ()
    interaction: Interaction | None = None
    open_proof: OpenProof | None = None


def keep_own(yardstick: Yardstick, summary: str) -> Ending:
    """Return the ending in which the user's own settings stay."""
    unchanged = Comparison(
        speedup=1.0, low=1.0, high=1.0, verdict="within noise", confidence=CONFIDENCE, process_pairs=0, turns=0
    )
    compiling = start_of(yardstick.settings, yardstick.measurement)
    return Ending(
        summary=summary,
        settings=yardstick.settings,
        comparison=unchanged,
        compile_seconds=compiling,
        own_compile_seconds=compiling,
        baseline_step_seconds=yardstick.step_seconds,
    )


def nothing_to_win(yardstick: Yardstick) -> str:
    """Return the sentence for a run whose steps take too little of its time to matter."""
    steps_seconds = yardstick.total_seconds - yardstick.overhead_seconds
    return (
        f"Leave it alone: of the {format_duration(yardstick.total_seconds)} that a run takes, its "
        f"{yardstick.facts.planned_steps} training steps take {format_duration(steps_seconds)} and the rest is "
        f"start-up, so that even steps that took no time would make it only "
        f"{yardstick.total_seconds / yardstick.overhead_seconds:.2f}x faster."
    )


def proven(
    proof: Proof,
    settings: Settings,
    own: Settings,
    compile_seconds: CompileSeconds,
    own_compile_seconds: CompileSeconds,
    drift: float,
) -> Ending:
    """Return the ending in which some settings were proven.

    Args:
        proof: Of the settings.
        settings: That were proven.
        own: The user's.
        compile_seconds: What slower first steps cost with the settings.
        own_compile_seconds: What they cost with the user's.
        drift: Of this machine from hour to hour, for which the claim leaves room; see `with_drift`.
    """
    assert proof.comparison is not None  # nothing is proven without
    comparison = with_drift(proof.comparison, drift)
    change = describe_change(settings, own)
    if comparison.low > 1 + NOISE_THRESHOLD:
        sure = f"at least {comparison.low:.2f}x with {CONFIDENCE:.0%} confidence"
        summary = f"{comparison.speedup:.2f}x faster steps, {sure}: {change}."
    else:
        then = f"{comparison.low:.2f}x to {comparison.high:.2f}x"
        summary = (
            f"{comparison.speedup:.2f}x faster steps while they were measured, {then} at another hour of a shared "
            f"machine, which is no claim for a whole run: {change}."
        )
    return Ending(
        summary=summary,
        settings=settings,
        comparison=comparison,
        compile_seconds=compile_seconds,
        own_compile_seconds=own_compile_seconds,
        baseline_step_seconds=proof.own_step_seconds,
        accuracy=proof.accuracy,
        proven_after_seconds=proof.proven_after_seconds,
    )


def with_contributions(ending: Ending, breakdown: Breakdown) -> Ending:
    """Return the ending with what each of its settings contributes."""
    return replace(ending, contributions=breakdown.contributions, interaction=breakdown.interaction)


def with_open_proof(ending: Ending, left: OpenProof, words: str) -> Ending:
    """Return the ending with a proof that can be gone on with; where nothing was proven it says so in these words."""
    is_all = ending.comparison.process_pairs == 0
    return replace(ending, open_proof=left, summary=f"{ending.summary} {words}" if is_all else ending.summary)


def open_proof_words(
    left: OpenProof, own: Settings, speedup: float, by: MetricPlan | None, whole_seconds: float | None
) -> str:
    """Return the sentence for a proof that a larger budget may complete.

    Args:
        left: Whose.
        own: The user's settings.
        speedup: Of the settings' steps, as the search has it.
        by: What would show whether the metric is kept; None if nothing need be shown.
        whole_seconds: The budget with which planned runs would do so; None if that is not worth telling.
    """
    change, shown = describe_change(left.settings, own), f", by {by.words}" if by is not None else ""
    words = (
        f"A larger budget may prove {change}, {speedup:.2f}x as fast in the search{shown}: "
        f"--resume --budget +{round_duration(left.seconds)}."
    )
    if whole_seconds is None:
        return words
    planned = f"--evidence whole --budget {round_duration(whole_seconds)}"
    return f"{words} Planned runs would tell most: a new run with {planned}."


def why_not(proof: Proof, settings: Settings, own: Settings, trials: int) -> str:
    """Return the sentence for settings whose proof failed."""
    change = describe_change(settings, own)
    if proof.outcome in ("metric drops", "more than rounding") and proof.accuracy is not None:
        return f"Your own settings stay: {change} may cost more than --max-drop allows: {seen_words(proof.accuracy)}."
    if proof.outcome == "metric unclear":
        seen = f" after {seen_words(proof.accuracy)}" if proof.accuracy is not None else ""
        more = " --metric-repeats asks for more of them." if proof.accuracy and proof.accuracy.share == 1 else ""
        told = f"whether {change} keeps the metric was not to be told{seen}"
        return f"Your own settings stay: {told}: {proof.message}.{more}"
    if proof.outcome == "not faster" and proof.comparison is not None:
        low, high = proof.comparison.low, proof.comparison.high
        return (
            f"Your own settings stay: the best of {trials} trials, {change}, is not proven to shorten the run; "
            f"its steps are {low:.2f}x to {high:.2f}x as fast."
        )
    if proof.outcome == "fails":
        return f"Your own settings stay: {change} looked faster, but failed in its proof: {proof.message}."
    known = []
    if proof.comparison is not None:
        known.append(f"its steps were {proof.comparison.low:.2f}x to {proof.comparison.high:.2f}x as fast")
    runs = proof.accuracy
    if runs is not None and runs.rounding is None and runs.repeats and runs.drop_high is not None:
        known.append(f"{seen_words(runs)} may still be a drop of {runs.drop_high:.2g}")
    return (
        f"Your own settings stay: {change} looked faster, but its proof was not complete ({proof.message}"
        f"{''.join(f'; {one}' for one in known)})."
    )


def not_worth_proving(saving_seconds: float, runs: int) -> str:
    """Return the sentence for a best that would save less time than its proof takes."""
    return (
        f"Your own settings stay: the best that was found would save about {format_duration(saving_seconds)} in all on "
        f"{runs:,} runs, less than its proof takes. If you train more often than that, say so with --runs."
    )


def too_disturbed(share: float) -> str:
    """Return the sentence for a machine that was too busy with something else."""
    return (
        f"Your own settings stay: this machine is too disturbed to tell. In {share:.0%} of the turns your own training "
        f"took more than one and a half times as long as usual. Tune again when nothing else runs here."
    )


def nothing_better(trials: Sequence[Trial]) -> str:
    """Return the sentence for a search without a winner."""
    others = {
        "may cost more accuracy than --max-drop allows": sum(not trial.feasible for trial in trials),
        "failed": sum(isinstance(trial.outcome, Failure) for trial in trials),
    }
    rest = "; ".join(f"{count} {what}" for what, count in others.items() if count)
    tried = f"none of {len(trials)} trials shortens the run" if trials else "no trial was worth its time"
    return f"Your own settings stay: {tried}{f' ({rest})' if rest else ''}."


def break_even_steps(extra_seconds: float, step_seconds: float, own_step: float) -> int | None:
    """Return from how many steps on settings with this step time repay what they start slower; None: never."""
    if extra_seconds <= 0:
        return 0
    return math.ceil(extra_seconds / (own_step - step_seconds)) if step_seconds < own_step else None


def make_recipe(
    run: Run,
    machine: Machine,
    yardstick: Yardstick,
    ending: Ending,
    trials: Sequence[Trial],
    space: SearchSpace,
    ended: str,
) -> Recipe:
    """Return the recipe that says what the run has come to."""
    facts, measured = yardstick.facts, yardstick.measurement
    return Recipe(
        schema=SCHEMA,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        summary=ending.summary,
        workload=run.request.workload,
        machine=machine,
        settings=ending.settings,
        baseline=Baseline(
            settings=yardstick.settings,
            step_seconds=ending.baseline_step_seconds,
            startup_seconds=measured.startup_seconds,
            compile_seconds=ending.own_compile_seconds.average(run.request.runs),
            samples_per_second=facts.batch_size / ending.baseline_step_seconds if facts.batch_size else None,
            peak_bytes=measured.peak_bytes,
        ),
        comparison=ending.comparison,
        constraint=run.request.constraint,
        accuracy=ending.accuracy,
        projection=_project(yardstick, ending, run.request.runs),
        search=_sum_up(run, yardstick, ending, trials, space, ended),
        versions={
            "autoaccel": __version__,
            "torch": machine.torch.version if machine.torch else "unknown",
            "python": platform.python_version(),
        },
        device=facts.device,
        model_size=_model_size(trials, ending.settings),
        contributions=ending.contributions,
        interaction=ending.interaction,
        open_proof=ending.open_proof,
    )


def _project(yardstick: Yardstick, ending: Ending, runs: int) -> Projection:
    """Return how long the planned run will take, on average over so many."""
    planned_steps, startup_seconds = yardstick.facts.planned_steps, yardstick.measurement.startup_seconds
    own_step, compiling = ending.baseline_step_seconds, ending.compile_seconds
    step_seconds = own_step / ending.comparison.speedup
    own_compile_seconds, compile_seconds = ending.own_compile_seconds.average(runs), compiling.average(runs)
    extra = compile_seconds - own_compile_seconds
    warmed_up_seconds = startup_seconds + planned_steps * step_seconds
    own_overhead_seconds = startup_seconds + own_compile_seconds
    is_proven = ending.comparison.process_pairs > 0
    return Projection(
        planned_steps=planned_steps,
        startup_seconds=startup_seconds,
        compile_seconds=compile_seconds,
        step_seconds=step_seconds,
        total_seconds=warmed_up_seconds + compile_seconds,
        baseline_total_seconds=own_overhead_seconds + planned_steps * own_step,
        break_even_steps=break_even_steps(extra, step_seconds, own_step),
        run=run_speedup(ending.comparison, planned_steps * own_step, own_overhead_seconds, extra)
        if is_proven
        else None,
        first_run_seconds=warmed_up_seconds + compiling.cold,
        later_run_seconds=warmed_up_seconds + compiling.warm,
    )


def _sum_up(
    run: Run, yardstick: Yardstick, ending: Ending, trials: Sequence[Trial], space: SearchSpace, ended: str
) -> SearchSummary:
    """Return what the search did."""
    spent_on = dict(run.runner.spent_on)
    return SearchSummary(
        trials=len(trials),
        failed=sum(isinstance(trial.outcome, Failure) for trial in trials),
        infeasible=sum(not trial.feasible for trial in trials),
        spent_seconds=run.clock.spent,
        budget_seconds=run.request.budget_seconds,
        seed=run.request.seed,
        space=space.name,
        ended=ended,
        runs=run.request.runs,
        proven_after_seconds=ending.proven_after_seconds,
        disturbed_share=yardstick.disturbed_share,
        spent_on={**spent_on, "everything else": max(0.0, run.clock.spent - sum(spent_on.values()))},
        importance=importance(space, trials),
        values=value_results(space, yardstick.settings, ending.settings, trials, ended),
        stages=run.stages.times(run.clock.spent),
    )


def _model_size(trials: Sequence[Trial], settings: Settings) -> ModelSize | None:
    """Return what these settings make of the model's size, as their last trial told."""
    measured = [trial.outcome for trial in trials if trial.settings == settings]
    return next((found.model_size for found in reversed(measured) if isinstance(found, Measurement)), None)
