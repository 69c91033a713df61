"""Why searches and proofs ended, and the result of a run: the sentences for what sessions decide."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.conclusion import (
    KeptBecause,
    LeftOpen,
    Lost,
    LostBecause,
    NothingBetter,
    NothingToWin,
    NoTime,
    NotWorthProving,
    NotWorthTrying,
    Obstacle,
    ProofElsewhere,
    Refused,
    RunsMissing,
    TooSmall,
    Unprovable,
    part_words,
)
from autoaccel.records.contender import ProofReason
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.messages import Failure
from autoaccel.records.recipe import StopReason, ValueResult
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.trial import Comparison
from autoaccel.report.accuracy import more_runs_words, seen_words
from autoaccel.units import format_duration, round_duration

_STOPPED: dict[StopReason, str] = {
    "nothing to win": "there is nothing to win",
    "nothing pays": "no further trial was expected to save more time than it takes",
    "out of time": "no further trial fitted into the search's share of the budget",
    "everything tried": "the whole search space was tried",
    "proof left open": "it was resumed only to complete a proof",
}

_UNTRIED: dict[StopReason, str] = {
    "nothing pays": "cannot repay its cost: it might save less time than a trial of it takes",
    "out of time": "out of budget: too little time was left to try and prove it",
}

_LOST: dict[LostBecause, str] = {
    "not compared": "could not be compared",
    "metric may drop": "the metric may drop more than allowed",
    "slower": "slower than your own settings in every trial",
    "not faster": "not faster than your own settings in any trial",
    "more than rounding": "it changes more than rounding: only runs could show whether the metric is kept",
    "not proven": "not proven to make the run shorter",
    "slow start": "its steps are faster, but its slower start is not repaid",
    "slower than the recipe": "even its best trial is slower than the recipe",
    "no better than the recipe": "its best trial is not clearly better than the recipe",
}


def stop_words(stop: StopReason, trials: int) -> str:
    """Return why a search ended after this many trials."""
    return f"all {trials} requested trials were made" if stop == "trials made" else _STOPPED[stop]


def proof_start_words(why: ProofReason, trials: int) -> str:
    """Return what is to be proven, and why now, after this many trials."""
    if why == "without what slows it down":
        return "the recipe without what seems to slow it down, against your own settings, in fresh processes"
    if why == "better than what is proven":
        return "what seems better still, against your own settings, in fresh processes"
    return f"the best against your own settings, in fresh processes ({stop_words(why, trials)})"


def further_search_words(proven: Comparison) -> str:
    """Return why the search continues although something is proven."""
    speed = f"{proven.speedup:.2f}x ({proven.low:.2f} to {proven.high:.2f})"
    return f"{speed} is proven; looking for something better in the time that is left"


def value_result(lost: Lost, stop: StopReason, trials: int) -> ValueResult:
    """Return what became of a value, in a search that ended for this reason after this many trials."""
    return ValueResult(lost.knob, lost.value, lost.trials, lost.speedup, _lost_words(lost, stop, trials))


def _lost_words(lost: Lost, stop: StopReason, trials: int) -> str:
    if lost.because == "untried":
        return _UNTRIED.get(stop) or stop_words(stop, trials)
    if lost.cause is not None:
        return f"{part_words(lost.cause.part)} was ruled out: {lost.cause.words}"
    if lost.because in ("failed", "failed in its proof"):
        return f"{lost.because}: {lost.message}"
    return _LOST[lost.because]


def trainings_words(plan: MetricPlan) -> str:
    """Return the trainings that are to show that the metric is kept: `runs of 40 steps`."""
    if plan.evidence == "rounding":
        return f"the updates in two runs of {plan.steps:,} steps"
    return "planned runs" if plan.evidence == "whole" else f"runs of {plan.steps:,} steps"


def plan_words(plan: MetricPlan) -> str:
    """Return these trainings with their number: `3 pairs of runs of 40 steps`."""
    trains = trainings_words(plan)
    return trains if plan.evidence == "rounding" else f"{plan.pairs} pairs of {trains}"


def obstacle_words(obstacle: Obstacle) -> str:
    """Return what stood in the way of a proof; an empty string where its numbers say it all."""
    if isinstance(obstacle, Failure):
        return obstacle.message
    if isinstance(obstacle, RoundingEvidence):
        return obstacle.reason
    if isinstance(obstacle, NoTime):
        return f"{plan_words(obstacle.plan)} would decide it, but do not fit in the remaining budget"
    if isinstance(obstacle, RunsMissing):
        return more_runs_words(*obstacle)
    said: Mapping[Obstacle, str] = {
        "budget spent": "the budget was spent",
        "pairs disturbed": "too few pairs were undisturbed",
        "pairs undecided": "as many pairs as are made at most leave it open whether it is faster",
        "speed settles": "the speed-up still changed from step to step as late as the proof could look",
    }
    return said.get(obstacle, "")


def faster_words(comparison: Comparison, change: str) -> str:
    """Return the sentence for settings that were proven; `change` says what they change."""
    sure = f"at least {comparison.low:.2f}x with {comparison.confidence * 100:.3g} % confidence"
    return f"{comparison.speedup:.2f}x faster steps, {sure}: {change}."


def kept_words(why: KeptBecause, baseline: Settings) -> str:
    """Return the sentence for a run in which the user's own settings stay."""
    if isinstance(why, NothingToWin):
        return _nothing_to_win_words(why)
    if isinstance(why, Refused):
        return f"Keep your own settings: {refused_words(why, baseline)}"
    if isinstance(why, NothingBetter):
        return f"Keep your own settings: {_nothing_better_words(why)}"
    if isinstance(why, NotWorthProving):
        return (
            "Keep your own settings: the best that was found would save about "
            f"{format_duration(why.saving_seconds)} in total over {why.trainings:,} trainings, less than its proof "
            "takes. If you train more often, increase --trainings."
        )
    if isinstance(why, NotWorthTrying):
        trainings = "One training takes" if why.trainings == 1 else f"{why.trainings:,} trainings like this one take"
        return (
            f"Keep your own settings: {trainings[0].lower()}{trainings[1:]} "
            f"{format_duration(why.trainings * why.total_seconds)} in total, too little for trials and a proof to "
            "repay their time. If you train longer or more often, increase --trainings."
        )
    if isinstance(why, TooSmall):
        return (
            f"Keep your own settings: the best that was found makes steps about {why.speedup:.2f}x as fast. Processes "
            f"on this machine differ so much from one another that a proof is likely from {why.least:.2f}x on."
        )
    return (
        f"Keep your own settings: this machine is too disturbed for a comparison. In {why.share:.0%} of the turns "
        "your own training took more than 1.5 times as long as usual. Tune again when nothing else runs here."
    )


def _nothing_to_win_words(why: NothingToWin) -> str:
    steps_seconds = why.total_seconds - why.overhead_seconds
    return (
        f"Tuning cannot help: a run takes {format_duration(why.total_seconds)}, of which its {why.planned_steps} "
        f"training steps take {format_duration(steps_seconds)} and start-up the rest. Even if steps took no time, a "
        f"run would be only {why.total_seconds / why.overhead_seconds:.2f}x faster."
    )


def _nothing_better_words(why: NothingBetter) -> str:
    others = {"may cost more accuracy than --max-drop allows": why.infeasible, "failed": why.failed}
    rest = "; ".join(f"{count} {what}" for what, count in others.items() if count)
    tried = f"none of {why.trials} trials shortens the run" if why.trials else "no trial was worth its time"
    return f"{tried}{f' ({rest})' if rest else ''}."


def refused_words(refused: Refused, baseline: Settings) -> str:
    """Return why settings were not proven."""
    change, accuracy, comparison = describe_change(refused.settings, baseline), refused.accuracy, refused.comparison
    why = obstacle_words(refused.obstacle)
    if refused.result in ("metric drops", "more than rounding") and accuracy is not None:
        return f"{change} may cost more than --max-drop allows: {seen_words(accuracy)}."
    if refused.result == "metric unclear":
        seen = f" after {seen_words(accuracy)}" if accuracy is not None else ""
        more = " Increase --metric-repeats for more runs." if accuracy and accuracy.share == 1 else ""
        return f"it is unclear whether {change} keeps the metric{seen}: {why}.{more}"
    if refused.result == "not faster" and comparison is not None:
        return (
            f"the best of {refused.trials} trials, {change}, is not proven to shorten the run; "
            f"its steps are {comparison.low:.2f}x to {comparison.high:.2f}x as fast."
        )
    if refused.result == "fails":
        return f"{change} looked faster, but failed in its proof: {why}."
    known = [why]
    if comparison is not None:
        known.append(f"its steps were {comparison.low:.2f}x to {comparison.high:.2f}x as fast")
    if accuracy is not None and accuracy.rounding is None and accuracy.repeats and accuracy.drop_high is not None:
        known.append(f"{seen_words(accuracy)} may still be a drop of {accuracy.drop_high:.2g}")
    return f"{change} looked faster, but its proof was not complete ({'; '.join(known)})."


def left_open_words(left: LeftOpen, baseline: Settings) -> str:
    """Return the sentence for a proof that a larger budget may complete."""
    change = describe_change(left.proof.settings, baseline)
    shown = f", by {plan_words(left.by)}" if left.by is not None else ""
    words = (
        f"A larger budget may prove {change}, {left.speedup:.2f}x as fast in the search{shown}: "
        f"--resume --budget +{round_duration(left.proof.seconds)}."
    )
    if left.whole_seconds is None:
        return words
    planned = f"--evidence whole --budget {round_duration(left.whole_seconds)}"
    return f"{words} Whole planned runs are the strongest evidence: start a new run with {planned}."


def unprovable_words(found: Unprovable) -> str:
    """Return why a change is not searched: what it would take to show that it keeps the metric."""
    return (
        f"showing that the metric is kept takes {plan_words(found.plan)} ({format_duration(found.seconds)}); "
        f"--budget {found.budget_minutes}m leaves time for that"
    )


def unprovable_lines(found: Mapping[str, Unprovable]) -> list[str]:
    """Return which knobs are not searched because nothing could show that they keep the metric, a line per reason."""
    names: dict[Unprovable, list[str]] = {}
    for name, why in found.items():
        names.setdefault(why, []).append(name)
    return [f"{', '.join(of)}: not searched, because {unprovable_words(why)}" for why, of in names.items()]


def elsewhere_words(proof: ProofElsewhere, trials: int) -> str:
    """Return the sentence for a worker that leaves the proof to another, with the trials of all."""
    found = f"{trials} trials of all workers are in the study {proof.study}"
    if proof.has_ended:
        return f"{found}; {proof.host} has already tried to prove the best: the result is in its run folder"
    return f"{found}; {proof.host}, the first of its workers, proves the best and writes the recipe to its run folder"
