"""The chart of a training's step times, and the rows of what was compared."""

from __future__ import annotations

import itertools

import pytest

from autoaccel.live.step_means import MOST, StepMeans
from autoaccel.records.live import LiveTried
from autoaccel.report.step_times import LiveStory, StepMean, step_times, tried_rows

TRIED = (
    LiveTried(1.0, 10, {"threads.intra_op": 1}, {}, None, None, "left"),
    LiveTried(2.0, 50, {"layout.channels_last": True}, {}, None, None, "kept"),
    LiveTried(3.0, 90, {"layout.channels_last": True}, {}, None, None, "given up", "the loss is not finite"),
)


def test_each_switch_is_marked_where_it_was() -> None:
    chart = step_times(LiveStory([StepMean(0, 50, 0.2), StepMean(50, 50, 0.1)], TRIED))
    assert chart is not None
    assert [mark.number for mark in chart.marks] == [2, 3]
    half, end = (chart.left + chart.right) / 2, chart.left + 0.9 * (chart.right - chart.left)
    assert [mark.x for mark in chart.marks] == pytest.approx([half, end], abs=0.1)
    first, second = (float(point.split()[1]) for point in chart.path[1:].split("L"))
    assert chart.bottom - first == pytest.approx(2 * (chart.bottom - second), abs=0.2)
    assert [tick.label for tick in chart.steps] == ["0", "25", "50", "75", "100"]


def test_one_long_step_does_not_flatten_all_others() -> None:
    means = [StepMean(number, 1, 100.0 if number == 3 else 0.1) for number in range(20)]
    chart = step_times(LiveStory(means, ()))
    assert chart is not None
    heights = [chart.bottom - float(point.split()[1]) for point in chart.path[1:].split("L")]
    assert min(heights) > 0.2 * max(heights)
    assert max(heights) <= chart.bottom - chart.top


def test_a_training_without_steps_has_no_chart() -> None:
    assert step_times(LiveStory((), ())) is None


def test_rows_say_what_came_of_each() -> None:
    rows = tried_rows(LiveStory((), TRIED))
    assert [(row.changes, row.outcome, row.became) for row in rows][::2] == [
        (("threads.intra_op=1",), "not compared", "left"),
        (("layout.channels_last=on",), "the loss is not finite", "given up"),
    ]


@pytest.mark.parametrize("steps", [1, 100, 2 * MOST, 5_000, 100_000])
def test_means_of_all_steps_are_few_and_in_order(steps: int) -> None:
    kept = StepMeans()
    for number in range(steps):
        kept.add(None if number % 10 == 7 else float(number))
    means = kept.means
    assert 0 < len(means) < 2 * MOST
    assert means[0].first == 0
    assert all(one.first + one.steps <= other.first for one, other in itertools.pairwise(means))
    assert means[-1].seconds <= steps
    assert all(one.first <= one.seconds <= one.first + 1.2 * one.steps for one in means)
