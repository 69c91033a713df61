"""Watch a run on a terminal or in a log, and print how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from autoaccel.records.check import AccuracyCheck, ClaimVerdict, Verification
from autoaccel.records.messages import TrainResult
from autoaccel.records.progress import Event, Listener, ScriptSeen, WaitStarted
from autoaccel.records.recipe import Projection, Recipe
from autoaccel.records.settings import changed, format_value
from autoaccel.report.accuracy import (
    accuracy_words,
    check_advice,
    evidence_words,
    known_accuracy,
    metric_change_words,
)
from autoaccel.report.commands import next_commands
from autoaccel.report.lines import LineWriter
from autoaccel.report.live import LiveView
from autoaccel.report.script import script_rows, script_table
from autoaccel.report.wording import (
    before,
    break_even_words,
    comparison_words,
    contribution_words,
    interaction_words,
    interval_words,
    product_words,
    proof_words,
    proven_words,
    run_parts,
    runs_words,
    saving_words,
    search_words,
    speedup_words,
    stage_words,
    step_words,
)
from autoaccel.text import one_line, say
from autoaccel.units import format_duration

# Drawing competes with the measurement for cores, and the clock it draws moves in seconds.
_DRAWINGS_PER_SECOND = 1


@contextmanager
def watch(console: Console) -> Iterator[Listener]:
    """Yield what shows the events of a run: a live picture on a terminal, else one plain line per event.

    However the block ends, the last picture stays on the screen.
    """
    if not (console.is_terminal and console.is_interactive):
        yield LineWriter(console).hear
        return
    view = LiveView()
    with Live(view, console=console, refresh_per_second=_DRAWINGS_PER_SECOND):

        def hear(event: Event) -> None:
            if isinstance(event, ScriptSeen):
                console.print(script_table(script_rows(event)))  # above the picture, where it stays
            if isinstance(event, WaitStarted):
                console.print(Text(f"Note: {one_line(event.text)}", style="yellow"))
            view.hear(event)

        try:
            yield hear
        finally:
            view.end()


def print_recipe(console: Console, recipe: Recipe, path: Path) -> None:
    """Print how a run ended: the verdict first, then the proof, then what to type next."""
    console.print()
    console.print(Text(one_line(recipe.summary), style="bold" if recipe.is_baseline else "bold green"))
    console.print()
    if recipe.is_baseline:
        _print_nothing_faster(console, recipe)
    else:
        _print_changes(console, recipe)
        console.print()
        _print_proof(console, recipe)
    commands = next_commands(recipe, path)
    if commands:
        console.print()
    for command, purpose in commands.items():
        console.print(Text(f"{purpose[0].upper()}{purpose[1:]}:", style="dim"))
        # Soft-wrapped: a command must come out whole when it is copied from a narrow terminal.
        console.print(Text.assemble(("  ", ""), (command, "bold cyan")), soft_wrap=True)


def _print_nothing_faster(console: Console, recipe: Recipe) -> None:
    grid = _fact_grid()
    grid.add_row("Settings", Text("keep your own; there is nothing to change"))
    baseline = recipe.baseline
    grid.add_row("Step", Text(step_words(baseline.step_seconds)))
    grid.add_row("Whole run", _run_words(recipe, recipe.projection.baseline_total_seconds))
    grid.add_row("Search", Text(search_words(recipe)))
    if words := stage_words(recipe.search):
        grid.add_row("", Text(words, style="dim"))
    if recipe.search.stop != "nothing to win":
        more = "a longer training" if recipe.live else "a larger budget"
        grid.add_row("", Text(f"{more} or another search space may still find something", style="dim"))
    console.print(grid)


def _print_changes(console: Console, recipe: Recipe) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("Change", overflow="fold")
    table.add_column("from", overflow="fold")
    table.add_column("to", style="bold", overflow="fold")
    found = {one.setting: contribution_words(one) for one in recipe.contributions}
    if found:
        table.add_column("contributes", overflow="fold")
    baseline = recipe.baseline.settings
    for name, value in changed(recipe.settings, baseline).items():
        table.add_row(
            Text(one_line(name)),
            Text(one_line(format_value(baseline[name])) if name in baseline else ""),
            Text(one_line(format_value(value))),
            *([Text(found.get(name, ""))] if found else []),
        )
    console.print(table)
    if found:
        console.print(Text(product_words(recipe), style="dim"))
    if recipe.interaction is not None:
        console.print(Text(interaction_words(recipe.interaction), style="yellow"))


def _print_proof(console: Console, recipe: Recipe) -> None:
    comparison, accuracy, now = recipe.comparison, known_accuracy(recipe), recipe.projection
    then = before(recipe.baseline, now)
    grid = _fact_grid()
    grid.add_row(
        "Speed-up",
        Text.assemble((speedup_words(comparison.speedup), "bold green"), f" ({interval_words(comparison)})"),
    )
    grid.add_row("", Text(proof_words(comparison, recipe.live), style="dim"))
    grid.add_row("Accuracy", Text(f"{metric_change_words(accuracy)}: {accuracy_words(accuracy, recipe.constraint)}"))
    grid.add_row("", Text(evidence_words(accuracy), style="dim"))
    grid.add_row(
        "Whole run",
        Text.assemble(
            f"{format_duration(then.total_seconds)} -> ",
            (format_duration(now.total_seconds), "bold"),
            f", {saving_words(now)}",
        ),
    )
    grid.add_row("", _run_parts(then, now))
    if words := runs_words(recipe):
        grid.add_row("", Text(words))
    if words := break_even_words(now):
        grid.add_row("", Text(words))
    grid.add_row("Search", Text(search_words(recipe)))
    if words := proven_words(recipe.search):
        grid.add_row("", Text(words, style="dim"))
    console.print(grid)


def _run_parts(then: Projection, now: Projection) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "left", "right"):
        table.add_column(justify=justify, style="dim", no_wrap=True)
    for name, was, becomes in zip(run_parts(then), run_parts(then).values(), run_parts(now).values(), strict=True):
        table.add_row(name, format_duration(was), "->", format_duration(becomes))
    return table


def _run_words(recipe: Recipe, seconds: float) -> Text:
    return Text(f"{format_duration(seconds)} for {recipe.projection.planned_steps:,} steps")


def _fact_grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def print_verification(console: Console, result: Verification) -> None:
    """Print whether a recipe's claim holds, the claim beside what was measured now, and what to do next."""
    sentence, style, advice = _CLAIM_WORDS[result.verdict]
    console.print(Text(sentence, style=style))
    grid = _fact_grid()
    for name, comparison in (("Claimed", result.claimed), ("Measured", result.measured)):
        if comparison is None:
            grid.add_row(name, Text("too few pairs of processes to compare: at least two are needed"))
            continue
        grid.add_row(name, Text(f"{comparison_words(comparison)}, {comparison.verdict}"))
        grid.add_row("", Text(proof_words(comparison), style="dim"))
    console.print(grid)
    if advice:
        console.print(Text(advice))


_CLAIM_WORDS: dict[ClaimVerdict, tuple[str, str, str]] = {
    "holds": ("The recipe holds on this machine.", "bold green", ""),
    "does not hold": (
        "The recipe does not hold on this machine.",
        "bold red",
        "Tune again on this machine to find settings that do.",
    ),
    "inconclusive": (
        "It is not clear whether the recipe holds on this machine.",
        "bold yellow",
        "Measure longer with --budget, such as --budget 30m, when nothing else runs here.",
    ),
}
"""What is said of a claim: the sentence, its style, and what to do next."""


def print_check(console: Console, check: AccuracyCheck, path: Path) -> None:
    """Print whether a recipe keeps the metric on whole planned runs, and what to do next."""
    sentence, style = _CHECK_WORDS[check.verdict]
    console.print(Text(sentence, style=style))
    grid = _fact_grid()
    accuracy = check.accuracy
    if check.message:
        grid.add_row("Failed", Text(one_line(check.message)))
    elif accuracy is None:
        grid.add_row("Accuracy", Text("too few pairs of planned runs to compare: at least three are needed"))
    else:
        grid.add_row("Accuracy", Text(f"{metric_change_words(accuracy)}: {accuracy_words(accuracy, check.constraint)}"))
        grid.add_row("", Text(evidence_words(accuracy), style="dim"))
    console.print(grid)
    if check.verdict == "inconclusive":
        console.print(Text(f"{check_advice(check)}."))
    console.print(Text(f"Written to {path}", style="dim"), soft_wrap=True)


_CHECK_WORDS: dict[ClaimVerdict, tuple[str, str]] = {
    "holds": ("The recipe keeps the metric on whole planned runs.", "bold green"),
    "does not hold": ("The recipe does not keep the metric on whole planned runs.", "bold red"),
    "inconclusive": ("It is not clear yet whether the recipe keeps the metric on whole planned runs.", "bold yellow"),
}


def print_training(result: TrainResult, recipe: Recipe) -> None:
    """Print the speed and the metric of a training with a recipe, beside what the recipe has recorded."""
    seconds, made = result.train_seconds[0], result.steps - result.resumed_at
    if result.step_seconds is None:
        say(f"all {result.steps} steps were already done: the checkpoint belongs to a finished training")
    else:
        rate = result.samples * made / result.steps / seconds
        after = f" after resuming at step {result.resumed_at}" if result.resumed_at else ""
        say(
            f"trained {made} steps{after} in {format_duration(seconds)}: {rate:,.0f} samples/s, "
            f"{format_duration(result.step_seconds)} per step (median)"
        )
    recorded = ""
    accuracy = recipe.accuracy
    if accuracy is not None and accuracy.recipe is not None:
        runs = accuracy.recipe_runs
        partly = "" if accuracy.share == 1 else f", after {accuracy.share:.0%} of the planned run"
        recorded = f" (recorded: {accuracy.recipe:.6g}, {min(runs):.6g} to {max(runs):.6g} over seeds{partly})"
    say(f"{result.metric}: {result.metrics[0]:.6g}{recorded}")
