"""One plain line per event, for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from autoaccel.records.messages import Failure
from autoaccel.records.progress import (
    BaselineMeasured,
    Event,
    Note,
    PairFinished,
    RunStarted,
    ScriptSeen,
    StageStarted,
    TrialFinished,
    TrialStarted,
    WaitStarted,
)
from autoaccel.records.settings import describe_change
from autoaccel.report.accuracy import metric_change_words
from autoaccel.report.live_state import LiveState, after
from autoaccel.report.script import script_rows
from autoaccel.report.wording import (
    comparison_words,
    outcome_words,
    pair_words,
    stage_name,
    step_words,
)
from autoaccel.text import one_line
from autoaccel.units import format_duration, two_digits


class LineWriter:
    """Writes one line per event as it happens, with the seconds since the first."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._start = clock()
        self._state = LiveState()

    def hear(self, event: Event) -> None:
        """Write the event's line."""
        self._state = after(self._state, event)
        elapsed = self._clock() - self._start
        for line in lines_of(event, self._state):
            # Soft-wrapped, so that a line stays one line however narrow the pipe claims to be; rich flushes each print.
            self._console.print(Text(f"[{elapsed:7.1f} s] {line}"), soft_wrap=True, highlight=False)


def lines_of(event: Event, state: LiveState) -> list[str]:
    """Return an event as lines: of a script one for each thing that was seen, of any other event one."""
    if isinstance(event, ScriptSeen):
        return [f"script  {one_line(kind)}  {one_line(words)}" for kind, words in script_rows(event)]
    return [line_of(event, state)]


def line_of(event: Event, state: LiveState) -> str:
    """Return an event as one line; its first word says which kind it is. `state` includes the event."""
    return "  ".join(one_line(part) for part in _parts_of(event, state) if part)


def _parts_of(event: Event, state: LiveState) -> list[str]:
    if isinstance(event, RunStarted):
        return [f"run {event.workload}", f"budget {format_duration(event.budget_seconds)}", f"output {event.output}"]
    if isinstance(event, StageStarted):
        return [f"stage {stage_name(event.stage)}", event.detail]
    if isinstance(event, BaselineMeasured):
        return ["baseline", step_words(event.step_seconds), f"whole run {format_duration(event.total_seconds)}"]
    if isinstance(event, TrialStarted):
        return [f"start trial {event.number}", _change(event, state)]
    if isinstance(event, TrialFinished):
        trial = event.trial
        compared = comparison_words(trial.comparison) if trial.comparison else ""
        message = trial.outcome.message if isinstance(trial.outcome, Failure) else ""
        return [
            f"trial {trial.number} on {trial.host}" if trial.host else f"trial {trial.number}",
            describe_change(trial.settings, state.baseline_settings(trial.settings)),
            step_words(trial.step_seconds),
            compared,
            outcome_words(trial, event.best),
            message,
        ]
    if isinstance(event, PairFinished):
        comparison = event.comparison
        said = [comparison_words(comparison), comparison.verdict] if comparison else []
        if event.accuracy and event.accuracy.drop_high is not None:
            said += [metric_change_words(event.accuracy), f"drop at most {two_digits(event.accuracy.drop_high)}"]
        return [pair_words(event), _change(event, state), *(said or ["too few pairs to compare yet"])]
    return ["note", event.text] if isinstance(event, (Note, WaitStarted)) else []


def _change(event: TrialStarted | PairFinished, state: LiveState) -> str:
    return describe_change(event.settings, state.baseline_settings(event.settings))
