"""The commands that go on from a recipe, for a shell in this folder."""

from __future__ import annotations

import shlex
from pathlib import Path

from autoaccel.records.recipe import Recipe
from autoaccel.records.request import DEFAULT_METRIC_REPEATS, DEFAULT_RUNS, Request
from autoaccel.records.settings import describe_change
from autoaccel.records.workload import DEFAULT_ENTRY, Workload
from autoaccel.report.wording import one_line
from autoaccel.units import format_duration, round_duration

_CHECKED_PAIRS = 4
"""Pairs of planned runs that a check of the metric is given time for: three are judged first."""


def next_commands(recipe: Recipe, path: Path) -> dict[str, str]:
    """Return the commands that use a recipe, for a shell in this folder, and what each does."""
    workload, left = recipe.workload, recipe.open_proof
    commands: dict[str, str] = {}
    if not recipe.is_baseline:
        rest = [str(path), *_target(workload)]
        commands[shlex.join(["autoaccel", "run", *rest])] = "train with these settings"
        commands[shlex.join(["autoaccel", "verify", *rest])] = "measure again whether it holds on this machine"
        if recipe.accuracy is not None and recipe.accuracy.evidence in ("share", "rounding"):
            seconds = _CHECKED_PAIRS * (recipe.projection.baseline_total_seconds + recipe.projection.total_seconds)
            check = ["--accuracy", "--budget", round_duration(seconds)]
            checks = shlex.join(["autoaccel", "verify", *check, *rest])
            commands[checks] = "see on whole planned runs whether the metric is kept"
    if left is not None and not workload.pickled:
        target, *arguments = _target(workload)
        options = ["--resume", "--output", str(path.parent), "--budget", f"+{round_duration(left.seconds)}"]
        change = describe_change(left.settings, recipe.baseline.settings)
        commands[shlex.join(["autoaccel", "tune", target, *options, *arguments])] = (
            f"go on with the proof of {one_line(change)}, which takes about {format_duration(left.seconds)} more"
        )
    return {one_line(command): purpose for command, purpose in commands.items()}


def tune_command(request: Request) -> str:
    """Return the command that tunes once more, for a shell in this folder; nothing for a function of a program."""
    workload, drop = request.workload, request.constraint
    if workload.pickled:
        return ""
    target, *arguments = _target(workload)
    options = ["--budget", f"{request.budget_seconds:g}s", "--space", request.space]
    if request.max_drop_said:
        options += ["--max-drop", f"{drop.max_drop * 100:g}%" if drop.relative else f"{drop.max_drop:g}"]
    options += ["--runs", str(request.runs)] if request.runs != DEFAULT_RUNS else []
    options += ["--seed", str(request.seed)] if request.seed else []
    options += ["--trials", str(request.most_trials)] if request.most_trials is not None else []
    if request.metric_repeats != DEFAULT_METRIC_REPEATS:
        options += ["--metric-repeats", str(request.metric_repeats)]
    options += ["--evidence", request.evidence] if request.evidence != "any" else []
    options += [part for wish in request.fixed for part in ("--set", wish)]
    options += [part for name in request.excluded for part in ("--exclude", name)]
    return one_line(shlex.join(["autoaccel", "tune", target, *options, *arguments]))


def _target(workload: Workload) -> list[str]:
    """Return how a command names a workload: its file, and its arguments after two dashes."""
    here = Path.cwd()
    file = Path(workload.path)
    file = file.relative_to(here) if file.is_relative_to(here) else file
    target = str(file) if workload.entry == DEFAULT_ENTRY else f"{file}:{workload.entry}"
    return [target, *(["--", *workload.arguments] if workload.arguments else [])]
