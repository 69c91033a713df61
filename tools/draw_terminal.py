"""Draw the README's terminal picture from a finished run: python tools/draw_terminal.py RUN_FOLDER PICTURE.svg

The clock in it shows the time of the trials alone: a run does not record when its other stages began.
"""

from __future__ import annotations

import io
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from autoaccel.records.progress import (
    BaselineMeasured,
    Event,
    Note,
    RunStarted,
    StageStarted,
    TrialFinished,
)
from autoaccel.report.live import LiveView
from autoaccel.report.terminal import print_recipe
from autoaccel.report.wording import closed_words
from autoaccel.runs.run_folder import RunFolder
from autoaccel.statistics.steps import step_seconds_of_turns

SHOWN_TRIALS = 5  # the upper part is the screen as it was when this many trials were over


def events_of(folder: RunFolder) -> Iterator[Event]:
    """Yield what the run told the terminal until then."""
    record, recipe = folder.load_record(), folder.load_recipe()
    assert record is not None, "a run that left a search behind is needed"
    # As the search saw it: trials are told in its step times, which a proof may correct later.
    step_seconds = statistics.median(step_seconds_of_turns(record.baseline.turns, record.facts.steps_per_epoch))
    saved = recipe.baseline.step_seconds - step_seconds
    total_seconds = recipe.projection.baseline_total_seconds - saved * record.facts.planned_steps
    yield RunStarted(
        record.request.workload.path, str(Path("autoaccel-runs") / folder.path.name), record.request.budget_seconds
    )
    for stage in ("hardware", "baseline", "profile"):
        yield StageStarted(stage, "")
    yield BaselineMeasured(record.baseline_settings, step_seconds, total_seconds)
    for words in closed_words(record.space):
        yield Note(words)
    trials = folder.load_trials()[:SHOWN_TRIALS]
    for count, trial in enumerate(trials, start=1):
        yield StageStarted("search", f"{record.space.size} combinations of {len(record.space.open)} knobs")
        shorter = [one for one in trials[:count] if one.total_seconds and one.total_seconds < total_seconds]
        yield TrialFinished(trial, min(shorter, key=lambda one: one.total_seconds or 0.0, default=None))


def main(folder: RunFolder, picture: Path) -> None:
    """Write the screen during the search, and below it the recipe."""
    console = Console(record=True, force_terminal=True, width=104, height=40, file=io.StringIO(), highlight=False)
    recipe = folder.load_recipe()
    model = f"examples/{Path(recipe.workload.path).name}"
    seconds = iter([0.0, 0.0])  # of the view's making, and of the run's start
    spent = sum(trial.spent_seconds for trial in folder.load_trials()[:SHOWN_TRIALS])
    view = LiveView(lambda: next(seconds, spent))
    for event in events_of(folder):
        view.hear(event)
    console.print(f"[bold]$[/bold] autoaccel tune {model} --budget {recipe.search.budget_seconds / 60:g}m\n")
    console.print(view)
    print_recipe(console, recipe, Path("autoaccel-runs") / folder.path.name / "recipe.json")
    picture.write_text(console.export_svg(title="autoaccel"), encoding="utf-8")


if __name__ == "__main__":
    main(RunFolder(Path(sys.argv[1])), Path(sys.argv[2]))
