"""Words for numbers and outcomes, the same on the terminal and in the HTML file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from autoaccel.records.machine import GpuSet
from autoaccel.records.messages import Failure
from autoaccel.records.profile import Finding, ModuleTime, Profile
from autoaccel.records.progress import PairFinished, StageName
from autoaccel.records.rates import Rates, Roofline
from autoaccel.records.recipe import (
    Baseline,
    Contribution,
    Interaction,
    Projection,
    Recipe,
    SearchSummary,
    StageTimes,
)
from autoaccel.records.settings import Value, changed, format_value
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Trial
from autoaccel.statistics.comparison import NOISE_THRESHOLD
from autoaccel.statistics.long_turns import rarest_seen
from autoaccel.text import one_line
from autoaccel.units import format_bytes, format_duration, format_flops

_MAX_MODULES = 10
_FAR_FROM_ITS_LIMITS = 100.0  # times what arithmetic and memory take: something else takes the time
_WORTH_SHOWING = 1.01  # expected of a finding's remedies


def step_words(seconds: float | None) -> str:
    """Return a step time as `17.9 ms/step`, or nothing if there is none."""
    return "" if seconds is None else f"{format_duration(seconds)}/step"


def speedup_words(speedup: float) -> str:
    """Return a speed-up as `1.52x`."""
    return f"{speedup:.2f}x"


def interval_words(comparison: Comparison) -> str:
    """Return the interval of a speed-up as `1.47 to 1.57`."""
    return f"{comparison.low:.2f} to {comparison.high:.2f}"


def comparison_words(comparison: Comparison) -> str:
    """Return a speed-up with its interval as `1.52x (1.47 to 1.57)`."""
    return f"{speedup_words(comparison.speedup)} ({interval_words(comparison)})"


def proof_words(comparison: Comparison, live: bool = False) -> str:
    """Return what a comparison rests on: processes, turns, confidence.

    Args:
        comparison: To be told of.
        live: Whether its pairs are blocks of a training's own steps.
    """
    pairs = "1 pair" if comparison.process_pairs == 1 else f"{comparison.process_pairs} pairs"
    drift = ", with room for the drift of a shared machine" if comparison.drift else ""
    of = "blocks of the training's own steps" if live else "fresh processes"
    spared = (
        f"; at least {comparison.spared:.2f}x by what the operating system no longer does" if comparison.spared else ""
    )
    told = f"{pairs} of {of}, {comparison.turns} turns, {comparison.confidence * 100:.3g} % interval{drift}{spared}"
    if not comparison.steps:
        return told
    return f"{told}; long steps that come less often than every {rarest_seen(comparison.steps):,} may have been missed"


def pair_words(event: PairFinished) -> str:
    """Return how many pairs a proof has, and how many it may have: `pair 3 of at most 16`, `pair 3`."""
    return f"pair {event.number}" + (f" of at most {event.of}" if event.of is not None else "")


def outcome_words(trial: Trial, best: Trial | None = None) -> str:
    """Return the outcome of a trial in one to three words: `best`, `faster`, `infeasible`, `failed: hung`."""
    if isinstance(trial.outcome, Failure):
        return f"failed: {trial.outcome.kind}"
    if not trial.feasible:
        return "infeasible"
    if best is not None and best.number == trial.number:
        return "best"
    if trial.comparison is None:
        return "not compared"
    return f"{trial.comparison.verdict} (again)" if trial.again else trial.comparison.verdict


# A run has one knob of most names, so that the part after the dot is enough where space is short.
_SHORT_NAMES = {"compile.mode": "compile"}


def short_change(settings: Mapping[str, Value], baseline: Mapping[str, Value]) -> str:
    """Return what differs from the baseline without the groups of the knobs: `autocast=bfloat16 workers=2`."""
    difference = changed(settings, baseline)
    if not difference:
        return "your own settings"
    short = {name: _SHORT_NAMES.get(name, name.rpartition(".")[2]) for name in difference}
    return one_line(" ".join(f"{short[name]}={format_value(value)}" for name, value in difference.items()))


def contribution_words(contribution: Contribution) -> str:
    """Return what a setting contributes as `1.31x (1.24 to 1.39)`; an estimate says that it is one."""
    interval = f"{contribution.low:.2f} to {contribution.high:.2f}"
    estimated = "" if contribution.measured else ", estimated"
    return f"{speedup_words(contribution.speedup)} ({interval}{estimated})"


def product_words(recipe: Recipe) -> str:
    """Return how the contributions multiply up beside the whole."""
    product = math.prod(one.speedup for one in recipe.contributions)
    whole = speedup_words(recipe.comparison.speedup)
    agrees = "equal within their intervals" if recipe.interaction is None else "which differ"
    return f"product {speedup_words(product)}, whole recipe {whole}, {agrees}"


def interaction_words(interaction: Interaction) -> str:
    """Return which two settings depend on each other, and how."""
    one, other = map(one_line, interaction.settings)
    how = "reinforce each other" if interaction.factor > 1 else "partly do the same work"
    seem = "seem to " if interaction.low <= 1 <= interaction.high else ""
    interval = f"{interaction.low:.2f} to {interaction.high:.2f}"
    return (
        f"{one} and {other} {seem}{how}: together they give {speedup_words(interaction.factor)} ({interval}) the "
        "product of what each contributes alone"
    )


def ring_words(gpu_set: GpuSet) -> str:
    """Return why these GPUs: the links of their ring, as `NV2 between all neighbours of the ring 0-3-2-1`."""
    counts = Counter(gpu_set.hops)
    if len(gpu_set.gpus) == 2:
        return f"{gpu_set.slowest} between them"
    ring = "-".join(map(str, gpu_set.ring))
    if len(counts) == 1:
        return f"{gpu_set.slowest} between all neighbours of the ring {ring}"
    hops = ", ".join(f"{count} x {link}" for link, count in counts.items())
    return f"at least {gpu_set.slowest} between neighbours of the ring {ring} ({hops})"


def before(baseline: Baseline, projection: Projection) -> Projection:
    """Return the projection of the planned run under the user's own settings."""
    return Projection(
        planned_steps=projection.planned_steps,
        startup_seconds=baseline.startup_seconds,
        compile_seconds=baseline.compile_seconds,
        step_seconds=baseline.step_seconds,
        total_seconds=projection.baseline_total_seconds,
        baseline_total_seconds=projection.baseline_total_seconds,
    )


def run_parts(projection: Projection) -> dict[str, float]:
    """Return the seconds of each part of the planned run."""
    return {
        "start-up": projection.startup_seconds,
        "compile": projection.compile_seconds,
        f"{projection.planned_steps:,} steps": projection.planned_steps * projection.step_seconds,
    }


def saving_words(projection: Projection) -> str:
    """Return what the whole planned run gains: `saves 44 min 10 s`, or takes longer; and how sure that is."""
    saved = projection.baseline_total_seconds - projection.total_seconds
    words = f"saves {format_duration(saved)}" if saved >= 0 else f"takes {format_duration(-saved)} longer"
    if projection.run is None:
        return words
    run = projection.run
    if run.low > 1 + NOISE_THRESHOLD:
        return f"{words}: {speedup_words(run.speedup)} as fast ({run.low:.2f} to {run.high:.2f})"
    return f"not claimed to be shorter: {run.low:.2f}x to {run.high:.2f}x as fast"


def runs_words(recipe: Recipe) -> str:
    """Return what the first run takes, which compiles, and what all later ones do; nothing where they are alike."""
    first, later = recipe.projection.first_run_seconds, recipe.projection.later_run_seconds
    if first is None or later is None or format_duration(first) == format_duration(later):
        return ""
    trainings = "1 training" if recipe.search.trainings == 1 else f"an average of {recipe.search.trainings:,} trainings"
    return f"{trainings}: the first compiles and takes {format_duration(first)}, later ones {format_duration(later)}"


def break_even_words(projection: Projection) -> str:
    """Return from which step on an average run gains; an empty string where there is nothing to repay."""
    steps = projection.break_even_steps
    if steps is None:
        return "never repays its slower start"
    return f"pays off from step {steps:,} on; a shorter run is faster without it" if steps else ""


def proven_words(search: SearchSummary) -> str:
    """Return when the first recipe's speed was proven, and when all of it; an empty string if there was none."""
    speed, whole = search.proven_after_seconds, search.recipe_after_seconds
    if speed is None:
        return ""
    words = f"the first recipe's speed was proven {format_duration(speed)} after the start"
    return words if whole is None else f"{words}; the recipe was written after {format_duration(whole)}"


def spent_parts(search: SearchSummary) -> list[tuple[str, float, float]]:
    """Return what the run's time was spent on: name, seconds, share of all."""
    total = sum(search.spent_on.values()) or 1.0
    return [(name, seconds, seconds / total) for name, seconds in search.spent_on.items()]


def stage_name(stage: StageName) -> str:
    """Return the name that people see: that on disk, except that "confirm" is the proof."""
    return "proof" if stage == "confirm" else stage


def stage_words(search: SearchSummary) -> str:
    """Return what each stage took, and was planned to take where that differs by a quarter or more.

    An empty string for recipes of versions that did not record it.
    """

    def words(times: StageTimes) -> str:
        planned, spent = times.planned_seconds, times.spent_seconds
        differs = abs(spent - planned) >= max(1.0, planned / 4)
        beside = f" of {format_duration(planned)} planned" if differs and planned else ""
        return f"{stage_name(times.stage)} {format_duration(spent)}{beside}"

    return ", ".join(words(times) for times in search.stages)


def search_words(recipe: Recipe) -> str:
    """Return what the search cost and why it ended."""
    search = recipe.search
    trials = "1 trial" if search.trials == 1 else f"{search.trials} trials"
    if recipe.live:
        return f"{trials} in blocks of the training's own steps, {format_duration(search.spent_seconds)} in all"
    return (
        f"{trials} ({search.failed} failed, {search.infeasible} infeasible) "
        f"in {format_duration(search.spent_seconds)} of {format_duration(search.budget_seconds)}; "
        f"{one_line(search.ended)}{'; written before the run ended' if search.unfinished else ''}"
    )


def roofline_words(line: Roofline) -> str:
    """Return what a step attains, and how much faster it could become at most."""
    limit = f"This step can become at most {speedup_words(line.max_speedup)} faster on this machine"
    if line.max_speedup > _FAR_FROM_ITS_LIMITS:
        limit = "Neither arithmetic nor memory limits this step"
    return (
        f"{limit}: its {format_flops(line.flops)} run at {format_flops(line.achieved)}/s; with its operators, "
        f"{format_flops(line.attainable)}/s are attainable, limited by {line.limited_by}"
    )


def rates_words(rates: Rates) -> str:
    """Return what the machine was measured to do at most."""
    fastest = ", ".join(f"{dtype} {format_flops(rate)}/s" for dtype, rate in rates.matmul.items())
    memory = f"memory {format_bytes(rates.memory_bytes_per_second)}/s"
    return f"Measured here with {rates.threads} threads: matrix products {fastest}; {memory}"


def worth_showing(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings whose remedies people would notice; all of them are in the JSON."""
    return [finding for finding in findings if finding.expected_speedup >= _WORTH_SHOWING]


def tracing_words(profile: Profile) -> str:
    """Return what recording operators cost, or nothing if that is not known."""
    if profile.tracing_overhead is None:
        return ""
    slower = profile.tracing_overhead
    what = f"made a step {slower:.0%} slower" if slower >= 0.005 else "did not make a step slower"
    return f"Recording operators {what}; phases are timed without it"


def closed_words(space: SearchSpace) -> list[str]:
    """Return what is not searched and why, a line for each reason."""
    names: dict[str, list[str]] = {}
    for name, reason in space.closed.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(of)} {'is' if len(of) == 1 else 'are'} not searched: {why}" for why, of in names.items()]


def inexact_words(space: SearchSpace) -> list[str]:
    """Return what is open that is exact elsewhere but not in this training, and why, a line for each reason."""
    names: dict[tuple[str, str], list[str]] = {}
    for name in space.open:
        if name in space.inexact:
            redraws = space.risks.get(name) == "redraws"
            effect = "may change results as another seed does" if redraws else "must be shown to keep the metric too"
            names.setdefault((effect, space.inexact[name]), []).append(name)
    return [f"{', '.join(of)} {effect}: {why}" for (effect, why), of in names.items()]


def left_out_words(profile: Profile) -> str:
    """Return what was not measured, because of the time that it takes or because it failed; nothing if all was."""
    said = []
    if profile.left_out:
        step = format_duration(profile.step_seconds)
        said.append(f"Left out to save time, because a step takes {step}: {', '.join(profile.left_out)}")
    if profile.failed:
        reasons = (f"{what} ({one_line(why)})" for what, why in profile.failed.items())
        said.append(f"Could not be measured: {', '.join(reasons)}")
    return ". ".join(said)


def memory_peak_words(profile: Profile) -> str:
    """Return how much memory tensors take at most and when, or nothing if that is not known."""
    if profile.memory is None:
        return ""
    peak = format_bytes(profile.memory.bytes_above_start)
    return f"Tensor memory peaks in {profile.memory.phase}, {peak} above its level between steps"


def slowest_modules(modules: Sequence[ModuleTime]) -> list[ModuleTime]:
    """Return those with the most time of their own, in the model's order."""
    slowest = sorted(modules, key=lambda module: -module.own_seconds)[:_MAX_MODULES]
    return [module for module in modules if module in slowest]
