"""The live picture: what it shows, at any width, and what it leaves behind."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from autoaccel.records.progress import Note, StageStarted, TrialFinished, WaitStarted
from autoaccel.report import live
from autoaccel.report.live import LiveView
from autoaccel.report.live_state import LiveState, after
from autoaccel.report.terminal import watch

from . import samples


class FakeClock:
    """A clock that stands until it is set."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def view_of(events, at=0.0, ended=False):
    clock = FakeClock()
    view = LiveView(clock)
    for event in events:
        view.hear(event)
    clock.seconds = at
    if ended:
        view.end()
        clock.seconds += 1000.0
    return view


def picture(view, width=120, height=40):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    console.print(view)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_shows_stage_trial_time_left_and_best(width):
    shown = picture(view_of(samples.EVENTS, at=312.4), width)
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "✓ profile" in shown and "▶ search" in shown and "· proof" in shown
    assert "Trial 10" in shown and "threads.intra_op=1" in shown
    assert "5 min 12 s" in shown and "4 min 48 s left" in shown
    assert re.search(r"Baseline +29\.1 ms/step", shown)
    assert re.search(r"Best so far +1\.52x \(1\.44 to 1\.59\) +19\.1 ms/step", shown)
    assert re.search(r"4 +autocast=float16 compile=d.* failed: raised", shown)
    assert re.search(r"6 +channels_last=on .*1\.55x.* infeasible", shown)
    assert "loader.workers is not searched" in shown


def test_only_the_last_eight_trials_are_listed():
    shown = picture(view_of(samples.EVENTS))
    assert not re.search(r"^ +1  autocast=bfloat16", shown, re.MULTILINE)
    assert re.search(r"^ +2  compile=default", shown, re.MULTILINE)


@pytest.mark.parametrize("height", [18, 20, 24])
def test_fits_a_low_terminal(height):
    shown = picture(view_of(samples.EVENTS), width=100, height=height)
    # The cursor stands in a line of its own.
    assert len(shown.splitlines()) < height
    assert re.search(r"^ +9  ", shown, re.MULTILINE)


def test_a_budget_overrun_is_said():
    assert "12 s over" in picture(view_of(samples.EVENTS, at=612.0))


def test_accuracy_and_proof_show_when_they_are_known():
    shown = picture(view_of((*samples.EVENTS, *samples.LATER_EVENTS)))
    assert "test_accuracy 0.9741 -> 0.9736" in shown
    assert "1.49x (1.40 to 1.58) after pair 4 of at most 16" in shown
    assert "▶ proof" in shown and "Trial 10" not in shown


def test_the_best_is_the_baseline_until_something_leads():
    events = samples.EVENTS[:7]
    slower = samples.TRIALS[1]
    shown = picture(view_of([*events, TrialFinished(slower, best=None)]))
    assert re.search(r"Best so far +your own settings", shown)


def test_the_end_stops_the_clock_and_keeps_every_note():
    notes = [Note(f"note number {number}") for number in range(6)]
    running = picture(view_of([*samples.EVENTS, *notes]))
    assert "note number 0" not in running and "note number 5" in running
    ended = picture(view_of([*samples.EVENTS, *notes, StageStarted("report", "")], at=90.0, ended=True))
    assert "took 1 min 30 s of 10 min 00 s" in ended and "left" not in ended
    assert "note number 0" in ended and "✓ report" in ended


def test_a_run_that_was_stopped_does_not_look_done():
    assert "▶ search" in picture(view_of(samples.EVENTS, ended=True))


def test_markup_and_escape_sequences_of_others_are_only_text():
    shown = picture(view_of([*samples.EVENTS, Note("[bold]x[/bold] \x1b[2J")]))
    assert "[bold]x[/bold]" in shown and "\x1b[2J" not in shown


def test_between_events_only_the_clock_is_drawn(monkeypatch):
    clock = FakeClock()
    view = LiveView(clock)
    for event in samples.EVENTS:
        view.hear(event)
    picture(view)
    monkeypatch.setattr(live, "_trials", lambda *arguments: pytest.fail("the trials were laid out again"))
    clock.seconds = 60.0
    assert "9 min 00 s left" in picture(view)


def test_a_terminal_without_utf8_gets_marks_that_it_can_show():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=stream, force_terminal=True, width=100, height=40)
    console.print(view_of(samples.EVENTS, at=30.0))
    stream.flush()
    assert b"> search" in stream.buffer.getvalue()


def test_watch_draws_on_a_terminal_and_leaves_the_last_picture():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40, color_system=None)
    with pytest.raises(KeyboardInterrupt), watch(console) as hear:
        for event in samples.EVENTS:
            hear(event)
        raise KeyboardInterrupt
    last = console.file.getvalue().rpartition("autoaccel digits.py")[2]
    assert "of 10 min 00 s" in last and "1.52x (1.44 to 1.59)" in last


def test_watch_that_hears_nothing_draws_nothing():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40, color_system=None)
    with watch(console):
        pass
    assert "autoaccel" not in console.file.getvalue()


def test_no_color_is_honoured(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40, color_system="truecolor")
    console.print(view_of(samples.EVENTS))
    # Bold (1) and dim (2) may stay; 30 to 37, 38 and 90 to 97 are colours.
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3\d|9\d)", console.file.getvalue())


def test_a_state_is_never_changed_once_it_may_be_drawn():
    state = after(LiveState(), samples.EVENTS[0])
    later = after(state, Note("new"))
    assert state.notes == () and later.notes == ("new",)


def test_waiting_is_told_above_the_picture_and_its_time_is_not_the_runs():
    console = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=100, color_system=None)
    with watch(console) as hear:
        hear(WaitStarted("waiting for process 7"))
        assert "Note: waiting for process 7" in console.file.getvalue()
    clock = FakeClock()
    view = LiveView(clock)
    clock.seconds = 1000.0
    view.hear(samples.EVENTS[0])
    clock.seconds = 1007.0
    assert "7 s" in picture(view) and "9 min 53 s left" in picture(view)
