"""One HTML file that tells what a run found, for those who were not there."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template

from autoaccel.records.advice import Diagnosis
from autoaccel.records.messages import Failure
from autoaccel.records.profile import PythonFunction
from autoaccel.records.recipe import Contribution, Recipe
from autoaccel.records.request import Request
from autoaccel.records.settings import changed, format_value
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.report import pareto, roofline
from autoaccel.report import step_times as step_times_chart
from autoaccel.report.accuracy import (
    accuracy_words,
    evidence_words,
    known_accuracy,
    metric_change_words,
    metric_words,
)
from autoaccel.report.chart import HEIGHT, WIDTH, search_history
from autoaccel.report.commands import next_commands, tune_command
from autoaccel.report.pareto import speed_and_accuracy
from autoaccel.report.roofline import plot_roofline
from autoaccel.report.step_times import LiveStory, step_times, tried_rows
from autoaccel.report.tables import machine_facts
from autoaccel.report.wording import (
    before,
    break_even_words,
    comparison_words,
    contribution_words,
    interaction_words,
    interval_words,
    left_out_words,
    memory_peak_words,
    outcome_words,
    product_words,
    proof_words,
    proven_words,
    rates_words,
    roofline_words,
    run_parts,
    runs_words,
    saving_words,
    search_words,
    slowest_modules,
    speedup_words,
    spent_parts,
    stage_name,
    step_words,
    tracing_words,
    worth_showing,
)
from autoaccel.text import printable
from autoaccel.units import format_bytes, format_duration, format_share

_MAX_OPERATORS = 15
_MAX_FUNCTIONS = 10
_MIN_FUNCTION = 0.01  # share of the step in its own lines


@dataclass(frozen=True)
class TrialRow:
    """One trial as the table shows it; None where there is nothing to sort by."""

    trial: Trial
    changes: tuple[str, ...]
    outcome: str
    kind: str
    failure: Failure | None
    speedup: float | None
    peak_bytes: int | None


@dataclass(frozen=True)
class RunBar:
    """The planned run as one stacked bar: parts as shares of the longer of the two runs."""

    title: str
    short: str
    total: str
    parts: tuple[tuple[str, str, float], ...]  # name, duration, share


@dataclass(frozen=True)
class IntervalStrip:
    """Where a speed-up, its interval and 1 lie between the ends of a strip, as shares of its length."""

    one: float
    low: float
    high: float
    speedup: float


@functools.cache
def _template() -> Template:
    """Return the page's template, which takes a third of a second to compile."""
    # Everything but the template comes from the user, or from whoever sent the recipe.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.finalize = lambda value: printable(value) if type(value) is str else value
    for filter_ in _FILTERS:
        environment.filters[filter_.__name__] = filter_
    return environment.from_string((files(__package__) / "report.html.j2").read_text(encoding="utf-8"))


def render_report(
    recipe: Recipe,
    diagnosis: Diagnosis | None,
    trials: Sequence[Trial],
    space: SearchSpace | None = None,
    request: Request | None = None,
    story: LiveStory | None = None,
) -> str:
    """Return one self-contained HTML page that asks nothing of the network.

    Args:
        recipe: What the run has come to.
        diagnosis: None if nothing was looked at, for there is nothing to win.
        trials: All of the run, failed ones included.
        space: What was searched, and why not the rest; None if that is not known.
        request: What was asked for; None if that is not known.
        story: Of a training that was tuned while it ran; None if this is not of one.
    """
    template = _template()
    baseline, accuracy = recipe.baseline.settings, known_accuracy(recipe)
    rows = _trial_rows(recipe, trials)
    profile = diagnosis.profile if diagnosis else None
    return template.render(
        recipe=recipe,
        title=Path(recipe.workload.path).name,
        changes=[(name, baseline.get(name, ""), value) for name, value in changed(recipe.settings, baseline).items()],
        accuracy=accuracy,
        accuracy_runs=list(zip(accuracy.baseline_runs, accuracy.recipe_runs, strict=True)),
        bars=_run_bars(recipe),
        strip=_strip(recipe.comparison),
        contributions=_contribution_rows(recipe),
        pareto=speed_and_accuracy(recipe, trials, space.inexact if space else ()),
        pareto_width=pareto.WIDTH,
        pareto_height=pareto.HEIGHT,
        profile=profile,
        operators=profile.operators[:_MAX_OPERATORS] if profile else (),
        functions=_functions(profile.python) if profile else (),
        ceilings=diagnosis.ceilings if diagnosis else None,
        roofline=plot_roofline(diagnosis.ceilings) if diagnosis else None,
        roofline_width=roofline.WIDTH,
        roofline_height=roofline.HEIGHT,
        findings=worth_showing(diagnosis.findings) if diagnosis else (),
        chart=search_history(trials, recipe.projection.baseline_total_seconds),
        chart_width=WIDTH,
        chart_height=HEIGHT,
        rows=rows,
        failures=[row for row in rows if row.failure],
        not_searched=space.closed if space else {},
        machine=machine_facts(recipe.machine),
        commands=next_commands(recipe, Path("recipe.json")),
        step_times=step_times(story) if story else None,
        step_times_width=step_times_chart.WIDTH,
        step_times_height=step_times_chart.HEIGHT,
        tried=tried_rows(story) if story else (),
        again=tune_command(request) if request else "",
    )


_FILTERS = (
    accuracy_words,
    break_even_words,
    comparison_words,
    contribution_words,
    evidence_words,
    format_bytes,
    format_duration,
    format_share,
    format_value,
    interaction_words,
    interval_words,
    left_out_words,
    memory_peak_words,
    metric_change_words,
    metric_words,
    product_words,
    proof_words,
    proven_words,
    rates_words,
    roofline_words,
    runs_words,
    saving_words,
    search_words,
    slowest_modules,
    speedup_words,
    spent_parts,
    stage_name,
    step_words,
    tracing_words,
)


def _functions(functions: Sequence[PythonFunction]) -> list[PythonFunction]:
    """Return the user's own functions whose lines cost anything, the most expensive first."""
    return [function for function in functions if function.line_share >= _MIN_FUNCTION][:_MAX_FUNCTIONS]


def _trial_rows(recipe: Recipe, trials: Sequence[Trial]) -> list[TrialRow]:
    rows = []
    for trial in trials:
        failure = trial.outcome if isinstance(trial.outcome, Failure) else None
        difference = changed(trial.settings, recipe.baseline.settings)
        won = not recipe.is_baseline and trial.settings == recipe.settings and failure is None
        rows.append(
            TrialRow(
                trial=trial,
                changes=tuple(f"{name}={format_value(value)}" for name, value in difference.items()),
                outcome="proven" if won else outcome_words(trial),
                kind="failed" if failure else "best" if won else "feasible" if trial.feasible else "infeasible",
                failure=failure,
                speedup=trial.comparison.speedup if trial.comparison else None,
                peak_bytes=trial.outcome.peak_bytes if isinstance(trial.outcome, Measurement) else None,
            )
        )
    return rows


def _run_bars(recipe: Recipe) -> list[RunBar]:
    now = recipe.projection
    then = before(recipe.baseline, now)
    baseline, new = ("Your own settings", "your own", then), ("Recipe", "recipe", now)
    runs = [baseline] if recipe.is_baseline else [baseline, new]
    longest = max(sum(run_parts(run).values()) for _, _, run in runs) or 1.0
    return [
        RunBar(
            title=title,
            short=short,
            total=format_duration(run.total_seconds),
            parts=tuple((name, format_duration(part), part / longest) for name, part in run_parts(run).items()),
        )
        for title, short, run in runs
    ]


def _contribution_rows(recipe: Recipe) -> list[tuple[Contribution, IntervalStrip]]:
    """Return each contribution with its strip; all strips have the same ends."""
    low = min((one.low for one in recipe.contributions), default=1.0)
    high = max((one.high for one in recipe.contributions), default=1.0)
    return [(one, _strip(one, low, high)) for one in recipe.contributions]


def _strip(found: Comparison | Contribution, low: float = math.inf, high: float = 0.0) -> IntervalStrip:
    """Return where things lie on a strip that shows 1, the interval, and what is between `low` and `high`."""
    low, high = min(1.0, low, found.low), max(1.0, high, found.high)
    room = 0.12 * (high - low) or 0.1
    start, length = low - room, high - low + 2 * room
    return IntervalStrip(
        one=(1.0 - start) / length,
        low=(found.low - start) / length,
        high=(found.high - start) / length,
        speedup=(found.speedup - start) / length,
    )
