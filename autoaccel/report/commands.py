"""The commands to run next with a recipe, for a shell in this folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from autoaccel.records.options import TuneOptions, as_arguments, to_repeat
from autoaccel.records.recipe import Recipe
from autoaccel.records.request import Request
from autoaccel.records.settings import describe_change
from autoaccel.records.workload import NOT_WRITTEN, Workload
from autoaccel.space.knobs.arguments import changed_arguments
from autoaccel.text import one_line, shell_command
from autoaccel.units import format_duration, round_duration

_CHECKED_PAIRS = 4
"""Pairs of planned runs that a check of the metric is given time for: three are judged first."""


def next_commands(recipe: Recipe, path: Path) -> dict[str, str]:
    """Return the commands that use a recipe, for a shell in this folder, and what each does.

    The training's own arguments are not in them: "..." stands in their place.
    """
    workload, left = recipe.workload, recipe.open_proof
    commands: dict[str, str] = {}
    if not recipe.is_baseline:
        named = TuneOptions(args=tuple(changed_arguments(recipe.settings, recipe.baseline.settings)))
        rest = [str(path), *_target(workload), *as_arguments(named), *_arguments(workload)]
        given = ", given its own arguments in place of ..." if workload.arguments else ""
        commands[shell_command(["autoaccel", "run", *rest])] = f"train with these settings{given}"
        if recipe.in_place:
            rest.insert(0, "--in-place")
        commands[shell_command(["autoaccel", "verify", *rest])] = "check that the claim holds on this machine"
        if recipe.accuracy is not None and recipe.accuracy.evidence in ("redrawn", "share", "rounding"):
            seconds = _CHECKED_PAIRS * (recipe.projection.baseline_total_seconds + recipe.projection.total_seconds)
            check = ["--accuracy", "--budget", round_duration(seconds)]
            checks = shell_command(["autoaccel", "verify", *check, *rest])
            commands[checks] = "check on whole planned runs that the metric is kept"
    if left is not None and workload.can_be_typed:
        change = describe_change(left.settings, recipe.baseline.settings)
        commands[resume_command(workload, path.parent, f"+{round_duration(left.seconds)}", _asked(recipe))] = (
            f"resume the proof of {one_line(change)}, which takes about {format_duration(left.seconds)} more"
        )
    return commands


def tune_command(request: Request) -> str:
    """Return the command that tunes once more, for a shell in this folder; nothing for a function of a program."""
    if not request.workload.can_be_typed:
        return ""
    options = dataclasses.replace(request.options, output=None, resume=False)
    words = [*_target(request.workload), *as_arguments(options, always=("budget", "space"))]
    return shell_command(["autoaccel", "tune", *words, *_arguments(request.workload)])


def resume_command(workload: Workload, folder: Path, budget: str | None, asked: TuneOptions) -> str:
    """Return the command that resumes the run in a folder, for a shell in this one.

    The training's arguments are in the run's folder.

    Args:
        workload: What is tuned.
        folder: Of the run.
        budget: As it is typed; None: what is left of the run's own.
        asked: What was asked of the run.
    """
    repeated = dataclasses.replace(to_repeat(asked), budget=budget, output=folder, resume=True)
    return shell_command(["autoaccel", "tune", *_target(workload), *as_arguments(repeated)])


def _asked(recipe: Recipe) -> TuneOptions:
    """Return what a recipe tells of the options of its run that must be typed again to resume it."""
    args = tuple(one.name for one in recipe.seen.arguments)
    return TuneOptions(sampler=recipe.search.sampler, args=args, in_place=recipe.in_place)


def _arguments(workload: Workload) -> list[str]:
    return ["--", *NOT_WRITTEN] if workload.arguments else []


def _target(workload: Workload) -> list[str]:
    """Return how a command names a workload, most by their file."""
    target = workload.target(_from_here(workload.path))
    if workload.stdin:
        return ["--stdin", _from_here(workload.stdin), *target]
    return target


def _from_here(path: str) -> str:
    here, file = Path.cwd(), Path(path)
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
