"""The live picture of a run on a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, get_args

from rich.console import Console, ConsoleOptions, Group, OverflowMethod, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from autoaccel.records.messages import Failure
from autoaccel.records.progress import Event, RunStarted, StageName
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.trial import Trial
from autoaccel.report.accuracy import metric_change_words
from autoaccel.report.live_state import LiveState, after
from autoaccel.report.wording import (
    comparison_words,
    outcome_words,
    pair_words,
    short_change,
    speedup_words,
    stage_name,
    step_words,
)
from autoaccel.text import one_line
from autoaccel.units import format_duration

STAGES: tuple[StageName, ...] = get_args(StageName)

_MAX_TRIALS = 8
_MIN_TRIALS = 2
_COLUMNS_FOR_INTERVALS = 80
_COLUMNS_FOR_STEPS = 100
_MAX_NOTES = 3
_TABLE_HEADER_LINES = 3  # an empty one, the headings, and the one that the cursor stands in
Lines: TypeAlias = list[list[Segment]]

_OUTCOME_STYLES = {"best": "bold green", "faster": "green", "slower": "yellow", "infeasible": "magenta"}


class LiveView:
    """Draws what is known of a run, each time it is asked, with the time that has passed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._state = LiveState()
        self._ended_after: float | None = None
        self._laid_out_for: tuple[object, ...] = ()
        self._over: Lines = []
        self._under: Lines = []

    def hear(self, event: Event) -> None:
        """Take in an event; it shows the next time the view is drawn. Time counts from the start of the run."""
        if isinstance(event, RunStarted):
            self._start = self._clock()
        self._state = after(self._state, event)

    def end(self) -> None:
        """Stop the clock: from now on the view is what remains on the screen."""
        self._ended_after = self._clock() - self._start

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        state = self._state
        if state.run is None:
            return
        ended = self._ended_after is not None
        # Only the clock changes between events. All else is laid out once per event: a measurement runs beside this.
        laid_out_for = (state, ended, options.max_width, console.height)
        if self._laid_out_for != laid_out_for:
            self._over = _over_clock(state, ended, console, options)
            height = console.height - len(self._over) - 1
            self._under = _under_clock(state, ended, height, console, options)
            self._laid_out_for = laid_out_for
        elapsed = self._clock() - self._start if self._ended_after is None else self._ended_after
        clock = _clock(elapsed, state.run.budget_seconds, ended, options.max_width)
        for line in (*self._over, *console.render_lines(clock, options, pad=False), *self._under):
            yield from line
            yield Segment.line()


def _over_clock(state: LiveState, ended: bool, console: Console, options: ConsoleOptions) -> Lines:
    rows: list[RenderableType] = [_header(state, options), *_stages(state, ended, options)]
    if not ended and (now := _now(state)) is not None:
        rows.append(now)
    return console.render_lines(Group(*rows), options, pad=False)


def _under_clock(state: LiveState, ended: bool, height: int, console: Console, options: ConsoleOptions) -> Lines:
    """Baseline, best, the last trials and notes: as many trials as fit into the height."""
    standing, trials, notes = _standing(state), Group(), Group()
    over = console.render_lines(Group("", _facts(standing, "bold")) if standing else Group(), options, pad=False)
    texts = state.notes if ended else state.notes[-_MAX_NOTES:]
    if texts:
        notes = Group("", *(Text(f"Note: {one_line(text)}", style="yellow") for text in texts))
    under = console.render_lines(notes, options, pad=False)
    if state.trials:
        spare = _MAX_TRIALS if ended else height - len(over) - len(under) - _TABLE_HEADER_LINES
        trials = Group("", _trials(state, options, max(_MIN_TRIALS, min(_MAX_TRIALS, spare))))
    return [*over, *console.render_lines(trials, options, pad=False), *under]


def _header(state: LiveState, options: ConsoleOptions) -> Text:
    workload, output = (state.run.workload, state.run.output) if state.run else ("", "")
    text = Text.assemble(
        ("autoaccel ", "bold cyan"),
        (one_line(Path(workload).name or workload), "bold"),
        (f"  {one_line(output)}", "dim"),
    )
    text.no_wrap, text.overflow = True, _overflow(options)
    return text


def _stages(state: LiveState, ended: bool, options: ConsoleOptions) -> list[Text]:
    """All stages in their order: done, current, to come."""
    done, now, later = ("x", ">", "-") if options.ascii_only else ("✓", "▶", "·")
    seen = {started.stage for started in state.stages}
    lines = [Text()]
    for name in STAGES:
        # A run that ended before its last stage was stopped in this one: it is not done.
        if name == state.stage and not (ended and name == STAGES[-1]):
            stage = Text(f"{now} {stage_name(name)}  ", style="bold yellow" if ended else "bold cyan")
        elif name in seen:
            stage = Text(f"{done} {stage_name(name)}  ", style="green")
        else:
            stage = Text(f"{later} {stage_name(name)}  ", style="dim")
        # Not left to word wrapping, which would part a mark from its name.
        if lines[-1].cell_len + stage.cell_len - 2 > options.max_width:
            lines.append(Text())
        lines[-1].append_text(stage)
    return lines


def _now(state: LiveState) -> Table | None:
    """What runs at this moment: a trial, a pair of the proof, or what the stage does."""
    if not state.stages:
        return None
    what, detail = stage_name(state.stages[-1].stage).capitalize(), one_line(state.stages[-1].detail)
    if state.running is not None:
        what, detail = f"Trial {state.running.number}", _change(state.running.settings, state)
    return _facts({what: Text(detail)}, "bold cyan")


def _clock(elapsed: float, budget: float, ended: bool, width: int) -> RenderableType:
    """The time as a bar of the budget, in whole seconds."""
    passed = format_duration(math.floor(elapsed)) if elapsed >= 60 else f"{elapsed:.0f} s"
    if ended:
        return Text(f"took {passed} of {format_duration(budget)}", style="dim")
    left = math.ceil(budget - elapsed)
    rest = f"{_whole(left)} left" if left >= 0 else f"{_whole(-left)} over"
    style = "cyan" if left >= 0 else "yellow"
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        Text(passed, no_wrap=True),
        ProgressBar(
            total=max(budget, 1e-9),
            completed=min(elapsed, budget),
            width=max(10, min(48, width - len(passed) - len(rest) - 2)),
            complete_style=style,
            finished_style=style,
        ),
        Text(rest, style="bold", no_wrap=True),
    )
    return grid


def _whole(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else format_duration(seconds)


def _standing(state: LiveState) -> dict[str, Text]:
    """Baseline against the best so far."""
    facts: dict[str, Text] = {}
    if state.baseline:
        whole = f"   whole run {format_duration(state.baseline.total_seconds)}"
        facts["Baseline"] = Text.assemble(step_words(state.baseline.step_seconds), (whole, "dim"))
    if state.best:
        best = state.best
        text = Text()
        if best.comparison:
            text.append(comparison_words(best.comparison), style="bold green")
            text.append("   ")
        text.append(step_words(best.step_seconds))
        if best.total_seconds is not None:
            text.append(f"   whole run {format_duration(best.total_seconds)}", style="dim")
        text.append(f"\n{_change(best.settings, state)}")
        facts["Best so far"] = text
    elif state.trials:
        facts["Best so far"] = Text("your own settings")
    if state.pair:
        if state.pair.accuracy:
            facts["Accuracy"] = Text(metric_change_words(state.pair.accuracy))
        done = pair_words(state.pair)
        said = f"{comparison_words(state.pair.comparison)} after {done}" if state.pair.comparison else f"{done} done"
        facts["Proof"] = Text.assemble(said, (_of_others(state.pair.settings, state), "dim"))
    return facts


def _of_others(settings: Settings, state: LiveState) -> str:
    """Return a line that names the settings, unless they are the best, which are named already."""
    return "" if state.best and settings == state.best.settings else f"\n{_change(settings, state)}"


def _change(settings: Settings, state: LiveState) -> str:
    return one_line(describe_change(settings, state.baseline_settings(settings)))


def _overflow(options: ConsoleOptions) -> OverflowMethod:
    # Rich's ellipsis is one character, which a terminal without UTF-8 cannot show.
    return "crop" if options.ascii_only else "ellipsis"


def _facts(facts: dict[str, Text], style: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in facts.items():
        grid.add_row(Text(name, style=style), text)
    return grid


def _trials(state: LiveState, options: ConsoleOptions, count: int) -> Table:
    """The last trials, one row each however long their settings are, so that the picture does not jump."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("Trial", justify="right", no_wrap=True)
    # Rich takes width from wrapping columns first; the cells themselves do not wrap.
    table.add_column("Settings")
    if options.max_width >= _COLUMNS_FOR_STEPS:
        table.add_column("Step", justify="right", no_wrap=True)
    table.add_column("Speed-up", no_wrap=True)
    table.add_column("", no_wrap=True)
    for trial in state.trials[-count:]:
        table.add_row(*_trial_row(trial, state, options))
    return table


def _trial_row(trial: Trial, state: LiveState, options: ConsoleOptions) -> list[Text]:
    outcome = outcome_words(trial, state.best)
    style = "red" if isinstance(trial.outcome, Failure) else _OUTCOME_STYLES.get(outcome, "")
    settings = short_change(trial.settings, state.baseline_settings(trial.settings))
    row = [Text(str(trial.number)), Text(settings, no_wrap=True, overflow=_overflow(options))]
    if options.max_width >= _COLUMNS_FOR_STEPS:
        row.append(Text("" if trial.step_seconds is None else format_duration(trial.step_seconds)))
    speedup = ""
    if trial.comparison:
        wide = options.max_width >= _COLUMNS_FOR_INTERVALS
        speedup = comparison_words(trial.comparison) if wide else speedup_words(trial.comparison.speedup)
    return [*row, Text(speedup, style=style), Text(outcome, style=style)]
