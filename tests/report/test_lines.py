"""Plain lines: one per event, complete, in one piece, at once."""

from __future__ import annotations

import io

from rich.console import Console

from autoaccel.records.progress import Note, WaitStarted
from autoaccel.report.lines import LineWriter
from autoaccel.report.terminal import watch

from . import samples


class CountingStream(io.StringIO):
    """A stream that counts how often it was flushed."""

    flushes = 0

    def flush(self) -> None:
        self.flushes += 1
        super().flush()


def write(*events, times=None, stream=None):
    stream = stream or io.StringIO()
    clock = iter(times) if times else iter([0.0] * (len(events) + 1))
    writer = LineWriter(Console(file=stream, width=40), clock=lambda: next(clock))
    for event in events:
        writer.hear(event)
    return stream.getvalue().splitlines()


def test_one_line_per_event_however_narrow():
    events = (*samples.EVENTS, *samples.LATER_EVENTS)
    assert len(write(*events)) == len(events)


def test_a_trial_tells_what_was_tried_how_fast_and_whether_it_leads():
    lines = write(*samples.EVENTS)
    (winner,) = [line for line in lines if "] trial 3 " in line]
    assert winner == (
        "[    0.0 s] trial 3  layout.channels_last=on, precision.autocast=bfloat16  19.1 ms/step  "
        "1.52x (1.44 to 1.59)  best"
    )
    (slower,) = [line for line in lines if "] trial 2 " in line]
    assert slower.endswith("0.64x (0.61 to 0.68)  slower")


def test_a_failure_and_a_dropped_metric_are_named():
    lines = write(*samples.EVENTS)
    assert any("] trial 4 " in line and "failed: raised  RuntimeError" in line for line in lines)
    # Faster than the winner, and still not the best.
    assert any("] trial 6 " in line and line.endswith("1.55x (1.46 to 1.62)  infeasible") for line in lines)


def test_every_line_begins_with_the_time_since_the_first():
    lines = write(samples.EVENTS[0], Note("late"), times=[100.0, 100.0, 112.34])
    assert lines[0].startswith("[    0.0 s] run /home/ada/digits.py  budget 10 min 00 s")
    assert lines[1] == "[   12.3 s] note  late"


def test_accuracy_and_pairs_are_told():
    lines = write(*samples.EVENTS, *samples.LATER_EVENTS)
    assert any("pair 4" in line and "test_accuracy 0.9741 -> 0.9736" in line for line in lines)
    assert lines[-2].endswith("too few pairs to compare yet")
    assert "pair 4 of at most 16" in lines[-1] and "1.49x (1.40 to 1.58)  faster" in lines[-1]


def test_each_line_is_flushed_at_once():
    stream = CountingStream()
    writer = LineWriter(Console(file=stream))
    writer.hear(Note("first"))
    assert stream.flushes == 1 and "first" in stream.getvalue()


def test_notes_cannot_break_the_line_or_reach_the_terminal():
    (line,) = write(Note("one\ntwo [red]three[/red] \x1b[2J"))
    assert line.endswith("note  one two [red]three[/red] ?[2J")


def test_no_terminal_gets_plain_lines():
    stream = io.StringIO()
    with watch(Console(file=stream, width=60)) as hear:
        hear(samples.EVENTS[0])
        assert "run /home/ada/digits.py" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_waiting_is_a_line():
    assert write(WaitStarted("waiting for process 7")) == ["[    0.0 s] note  waiting for process 7"]
