"""Ending: what a run comes to, and the recipe that says so."""

from __future__ import annotations

import datetime
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autoaccel import __version__
from autoaccel.records.machine import Machine
from autoaccel.records.recipe import SCHEMA, Baseline, Projection, Recipe, SearchSummary
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.trial import Accuracy, Comparison, Failure, Measurement, Trial
from autoaccel.session.accuracy import AccuracyChecks
from autoaccel.session.contenders import finalists
from autoaccel.session.proof import LEAST_ROUNDS, MOST_ROUNDS, Proof, round_seconds
from autoaccel.session.run import Run
from autoaccel.session.yardstick import Yardstick
from autoaccel.statistics.comparison import CONFIDENCE, NOISE_THRESHOLD
from autoaccel.units import format_duration


@dataclass(frozen=True)
class Ending:
    """What a run comes to: settings, the evidence for them, and one sentence."""

    summary: str
    settings: Settings
    comparison: Comparison
    compile_seconds: float
    baseline_step_seconds: float
    accuracy: Accuracy | None = None


def keep_own(yardstick: Yardstick, summary: str) -> Ending:
    """Return the ending in which the user's own settings stay."""
    unchanged = Comparison(
        speedup=1.0, low=1.0, high=1.0, verdict="within noise", confidence=CONFIDENCE, process_pairs=0, turns=0
    )
    return Ending(
        summary=summary,
        settings=yardstick.settings,
        comparison=unchanged,
        compile_seconds=yardstick.measurement.compile_seconds,
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


def prove_best(run: Run, yardstick: Yardstick, checks: AccuracyChecks, trials: Sequence[Trial]) -> Ending:
    """Prove the best of the trials against the user's own settings in fresh processes; return what it comes to."""
    best = finalists(trials, yardstick.settings, yardstick.total_seconds / (1 + NOISE_THRESHOLD))
    if not best:
        return keep_own(yardstick, _nothing_better(trials))
    proof = Proof(run, yardstick.settings, yardstick.facts.steps_per_epoch, yardstick.turn_seconds)
    each = round_seconds(yardstick.overhead_seconds, yardstick.turn_seconds)
    affordable = int(run.clock.left / each)
    best = best[: max(1, affordable - LEAST_ROUNDS)]
    winner = best[0]
    if len(best) > 1:
        winner = proof.rank(best, yardstick.facts.planned_steps * yardstick.step_seconds)
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, int(run.clock.left / each)))
    proven = proof.prove(winner.settings, rounds)
    change = describe_change(winner.settings, yardstick.settings)
    if isinstance(proven, Failure):
        return keep_own(
            yardstick,
            f"Your own settings stay: {change} looked faster, but its proof was not complete ({proven.message}); "
            "a larger --budget leaves time for it.",
        )
    comparison, pairs = proven
    assert isinstance(winner.outcome, Measurement)  # finalists have succeeded
    step_seconds = statistics.median(own for turns in pairs for own, _ in turns)
    compile_seconds = winner.outcome.compile_seconds
    least_saving = _run_speedup(yardstick, step_seconds, compile_seconds, comparison.low)
    if comparison.verdict != "faster" or least_saving <= 1 + NOISE_THRESHOLD:
        return keep_own(
            yardstick,
            f"Your own settings stay: the best of {len(trials)} trials, {change}, is not proven to shorten the run; "
            f"its steps are {comparison.low:.2f}x to {comparison.high:.2f}x as fast.",
        )
    accuracy = checks.check(winner.settings, keep_seconds=0.0)
    return Ending(
        summary=f"{comparison.speedup:.2f}x faster steps, at least {comparison.low:.2f}x with {CONFIDENCE:.0%} "
        f"confidence: {change}.",
        settings=winner.settings,
        comparison=comparison,
        compile_seconds=compile_seconds,
        baseline_step_seconds=step_seconds,
        # What is unknown here is the metric of settings that change no number: the baseline's, if time is left.
        accuracy=None if isinstance(accuracy, Failure) else accuracy,
    )


def _run_speedup(yardstick: Yardstick, step_seconds: float, compile_seconds: float, speedup: float) -> float:
    """Return how much shorter the whole run gets: its time now over its time with settings of this speed-up."""
    steps_seconds = yardstick.facts.planned_steps * step_seconds
    startup_seconds = yardstick.measurement.startup_seconds
    return (yardstick.overhead_seconds + steps_seconds) / (startup_seconds + compile_seconds + steps_seconds / speedup)


def _nothing_better(trials: Sequence[Trial]) -> str:
    infeasible = [trial for trial in trials if not trial.feasible]
    failed = sum(isinstance(trial.outcome, Failure) for trial in trials)
    unchecked = sum(trial.accuracy is None for trial in infeasible)
    others = {
        "may cost more accuracy than --max-drop allows": len(infeasible) - unchecked,
        "looked faster, but its metric could not be measured": unchecked,
        "failed": failed,
    }
    rest = "; ".join(f"{count} {what}" for what, count in others.items() if count)
    tried = f"none of {len(trials)} trials shortens the run" if trials else "the budget left no time for a trial"
    return f"Your own settings stay: {tried}{f' ({rest})' if rest else ''}."


def make_recipe(
    run: Run, machine: Machine, yardstick: Yardstick, ending: Ending, trials: Sequence[Trial], space: str, ended: str
) -> Recipe:
    """Return the recipe that says what the run has come to."""
    facts, measured = yardstick.facts, yardstick.measurement
    step_seconds = ending.baseline_step_seconds / ending.comparison.speedup
    overhead_seconds = measured.startup_seconds + ending.compile_seconds
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
            compile_seconds=measured.compile_seconds,
            samples_per_second=facts.batch_size / ending.baseline_step_seconds if facts.batch_size else None,
            peak_bytes=measured.peak_bytes,
        ),
        comparison=ending.comparison,
        constraint=run.request.constraint,
        accuracy=ending.accuracy,
        projection=Projection(
            planned_steps=facts.planned_steps,
            startup_seconds=measured.startup_seconds,
            compile_seconds=ending.compile_seconds,
            step_seconds=step_seconds,
            total_seconds=overhead_seconds + facts.planned_steps * step_seconds,
            baseline_total_seconds=yardstick.overhead_seconds + facts.planned_steps * ending.baseline_step_seconds,
        ),
        search=SearchSummary(
            trials=len(trials),
            failed=sum(isinstance(trial.outcome, Failure) for trial in trials),
            infeasible=sum(not trial.feasible for trial in trials),
            spent_seconds=run.clock.spent,
            budget_seconds=run.request.budget_seconds,
            seed=run.request.seed,
            space=space,
            ended=ended,
        ),
        versions={
            "autoaccel": __version__,
            "torch": machine.torch.version if machine.torch else "unknown",
            "python": platform.python_version(),
        },
    )
