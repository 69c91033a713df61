"""What leaves a training that was tuned while it ran: recipe.json and report.html, as `autoaccel tune` writes them."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path
from typing import NamedTuple

import msgspec

from autoaccel import __version__
from autoaccel.machine.torch_version import read_torch_version
from autoaccel.records.accuracy import Accuracy, exact_numbers, redrawn_numbers
from autoaccel.records.base import write_json, write_text
from autoaccel.records.live import LiveTried
from autoaccel.records.machine import Machine
from autoaccel.records.options import DEFAULT_TRAININGS
from autoaccel.records.recipe import SCHEMA, Baseline, Constraint, Projection, Recipe, SearchSummary
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import TrainingFacts, Workload, without_arguments
from autoaccel.report.conclusions import faster_words
from autoaccel.report.step_times import LiveStory
from autoaccel.space.change import Change
from autoaccel.statistics.comparison import CONFIDENCE
from autoaccel.statistics.runs import run_speedup

_UNCHANGED = Comparison(1.0, 1.0, 1.0, "within noise", CONFIDENCE, process_pairs=0, turns=0)


class Trained(NamedTuple):
    """A training that was tuned while it ran, up to now."""

    workload: Workload
    machine: Machine
    facts: TrainingFacts
    planned_steps: int
    space: SearchSpace
    own: Settings
    best: Settings
    comparison: Comparison | None  # of these; None where too few blocks were compared
    rounding: RoundingEvidence | None  # that the best is harmless; None where it is exact
    own_step_seconds: float
    startup_seconds: float
    seconds: float
    peak_bytes: int
    story: LiveStory


def leave(folder: Path, trained: Trained) -> None:
    """Write the recipe and the report.

    Raises:
        OSError: If they cannot be written.
    """
    from autoaccel.report.html import render_report  # it takes a tenth of a second

    recipe = make_recipe(trained)
    write_text(folder / "report.html", render_report(recipe, None, (), trained.space, story=trained.story))
    write_json(folder / "recipe.json", recipe)


def make_recipe(trained: Trained) -> Recipe:
    """Return the recipe; with the user's own settings where nothing was found to be faster, or too little is known."""
    facts, own = trained.facts, trained.own
    found, settings = trained.comparison, trained.best
    if found is None or found.low <= 1:
        found, settings = _UNCHANGED, own
    is_own = settings == own
    summary = (
        "Keep your own settings: nothing that was tried while it trained was shown to be faster."
        if is_own
        else faster_words(found, describe_change(settings, own))
    )
    step_seconds = trained.own_step_seconds / found.speedup
    of_steps = trained.planned_steps * trained.own_step_seconds
    return Recipe(
        schema=SCHEMA,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        summary=summary,
        workload=without_arguments(trained.workload),
        machine=trained.machine,
        settings=settings,
        baseline=Baseline(
            settings=own,
            step_seconds=trained.own_step_seconds,
            startup_seconds=trained.startup_seconds,
            compile_seconds=0.0,
            samples_per_second=facts.batch_size / trained.own_step_seconds if facts.batch_size else None,
            peak_bytes=trained.peak_bytes,
        ),
        comparison=found,
        constraint=Constraint(0.01, relative=True),
        accuracy=None if is_own else _accuracy(trained),
        projection=Projection(
            planned_steps=trained.planned_steps,
            startup_seconds=trained.startup_seconds,
            compile_seconds=0.0,
            step_seconds=step_seconds,
            total_seconds=trained.startup_seconds + trained.planned_steps * step_seconds,
            baseline_total_seconds=trained.startup_seconds + of_steps,
            break_even_steps=0,
            run=None if is_own else run_speedup(found, of_steps, trained.startup_seconds, 0.0),
        ),
        search=_search(trained),
        versions={"autoaccel": __version__, "torch": read_torch_version(), "python": platform.python_version()},
        device=facts.device,
        script=facts.script,
        live=True,
    )


def _accuracy(trained: Trained) -> Accuracy:
    metric, direction = trained.facts.metric, trained.facts.direction
    redrawn = Change(trained.best, trained.own, trained.space).redrawn
    known = redrawn_numbers(metric, direction, redrawn) if redrawn else exact_numbers(metric, direction)
    if trained.rounding is None:
        return known
    return msgspec.structs.replace(known, evidence="rounding", rounding=trained.rounding)


def _search(trained: Trained) -> SearchSummary:
    tried: tuple[LiveTried, ...] = tuple(trained.story.tried)
    return SearchSummary(
        trials=len(tried),
        failed=0,
        infeasible=sum(one.rounding is not None and one.rounding.verdict != "holds" for one in tried),
        spent_seconds=trained.seconds,
        budget_seconds=trained.seconds,
        seed=0,
        space=trained.space.name,
        ended="the training ended",
        trainings=DEFAULT_TRAININGS,
        proven_after_seconds=next((one.after_seconds for one in tried if one.became == "kept"), None),
        disturbed_share=0.0,
        spent_on={},
        sampler="",
    )
