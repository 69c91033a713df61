"""What is tried while a training runs: by simulated steps, whose seconds depend on the settings alone, or nearly so."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from autoaccel.live.blocks import StepTaken
from autoaccel.live.tuner import LiveTuner, Tried
from autoaccel.records.rounding import UpdateError, UpdatesCompared
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace

OWN: Settings = {"memory.keep_freed": False, "precision.cudnn_benchmark": False, "threads.intra_op": 2}
SPACE = SearchSpace(
    name="of a test",
    open={"memory.keep_freed": (False, True), "precision.cudnn_benchmark": (False, True), "threads.intra_op": (2, 1)},
    fixed={},
    closed={},
)
Seconds = Callable[[Settings, int], float | None]


def rounded(share: float) -> UpdatesCompared:
    """Return updates whose error has this share of their variance."""
    error = UpdateError("weight", "parameter", 1, 10, 10, gradient=1.0, error=share, systematic=0.0, repeat_error=0.0,
                        noise=1.0, mean=1.0)  # fmt: skip
    return UpdatesCompared(True, False, (), 3, (error,), (1.0, 0.5), (1.0, 0.5))


class Run:
    """A training whose steps take what a function says."""

    def __init__(
        self,
        seconds: Seconds,
        guesses: list[Settings] | None = None,
        most: int = 20_000,
        lasting: tuple[str, ...] = (),
        beside: Callable[[Settings], UpdatesCompared | str | None] = lambda settings: rounded(1e-9),
    ) -> None:
        self.tried: list[Tried] = []
        self.tuner = LiveTuner(OWN, guesses or [], SPACE, lasting, self.tried.append, random.Random(0))
        steps, self.made = self.tuner.steps(), 0
        try:
            wanted = next(steps)
            while self.made < most:
                taken = seconds(wanted.settings, self.made)
                self.made += 1
                wanted = steps.send(StepTaken(taken, beside(wanted.beside) if wanted.beside else None))
        except StopIteration:
            pass


def scattered(factors: dict[str, float], deviation: float = 0.05, seed: int = 1) -> Seconds:
    """Return step seconds of 50 ms, times a factor for each setting that is changed, with noise."""
    noise = random.Random(seed)

    def seconds(settings: Settings, number: int) -> float:
        found = 0.05 * noise.lognormvariate(0.0, deviation)
        for name, factor in factors.items():
            if settings[name] != OWN[name]:
                found *= factor
        return found

    return seconds


def test_what_is_faster_is_kept_and_what_is_slower_is_not() -> None:
    run = Run(scattered({"memory.keep_freed": 0.7, "precision.cudnn_benchmark": 1.0, "threads.intra_op": 1.6}))
    assert run.tuner.best == {**OWN, "memory.keep_freed": True}
    assert len(run.tried) == 3


def test_a_guess_of_two_settings_loses_the_one_that_slows_it_down() -> None:
    guess = {**OWN, "memory.keep_freed": True, "threads.intra_op": 1}
    run = Run(scattered({"memory.keep_freed": 0.5, "threads.intra_op": 1.3}), [guess])
    assert run.tuner.best == {**OWN, "memory.keep_freed": True}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_kept_where_nothing_helps(seed: int) -> None:
    run = Run(scattered({}, 0.1, seed))
    assert run.tuner.best == OWN
    assert run.made < 5_000


def test_a_rare_long_step_counts() -> None:
    def seconds(settings: Settings, number: int) -> float:
        if not settings["memory.keep_freed"]:
            return 0.05
        return 0.04 + (0.5 if number % 20 == 0 else 0.0)  # 0.065 in the mean

    assert Run(seconds).tuner.best == OWN


def test_steps_beside_an_evaluation_do_not_count() -> None:
    fast = scattered({"memory.keep_freed": 0.7})
    run = Run(lambda settings, number: None if number % 4 == 0 else fast(settings, number))
    assert run.tuner.best == {**OWN, "memory.keep_freed": True}


def test_a_training_that_ends_in_between_leaves_the_best_so_far() -> None:
    run = Run(scattered({"memory.keep_freed": 0.5}), most=40)
    assert run.tuner.best in (OWN, {**OWN, "memory.keep_freed": True})
    assert run.made == 40


def test_what_rounds_is_kept_only_if_updates_say_so() -> None:
    seconds = scattered({"threads.intra_op": 0.6})
    fast = {**OWN, "threads.intra_op": 1}
    assert Run(seconds).tuner.best == fast
    asked: list[Settings] = []

    def harmful(settings: Settings) -> UpdatesCompared:
        asked.append(settings)
        return rounded(0.4)

    assert Run(seconds, beside=harmful).tuner.best == OWN
    assert asked == [fast]


def test_where_updates_cannot_be_compared_nothing_that_rounds_is_tried_again() -> None:
    seconds = scattered({"threads.intra_op": 0.6, "precision.cudnn_benchmark": 0.6, "memory.keep_freed": 0.8})
    run = Run(seconds, beside=lambda settings: "the model has hooks")
    assert run.tuner.best == {**OWN, "memory.keep_freed": True}
    assert [tried.rounding.reason for tried in run.tried if tried.rounding is not None] == ["the model has hooks"]


def test_what_cannot_be_taken_back_comes_last_and_is_compared_with_what_was_before_it() -> None:
    taken_on = False

    def seconds(settings: Settings, number: int) -> float:
        nonlocal taken_on
        taken_on |= settings["memory.keep_freed"]
        # Most of it stays when it is taken back.
        return (0.035 if settings["memory.keep_freed"] else 0.037 if taken_on else 0.05) * (1 + 0.01 * (number % 3))

    guess = {**OWN, "memory.keep_freed": True, "threads.intra_op": 1}
    run = Run(seconds, [guess], lasting=("memory.keep_freed",))
    assert run.tuner.best == {**OWN, "memory.keep_freed": True}
    assert [tried.settings["memory.keep_freed"] for tried in run.tried] == [False] * (len(run.tried) - 1) + [True]
    comparison = run.tried[-1].compared.comparison
    assert comparison is not None
    assert comparison.low < 0.05 / 0.035 < comparison.high
