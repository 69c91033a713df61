"""What is tried while a training runs: by simulated steps, whose seconds depend on the settings alone, or nearly so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from autoaccel.live.allowance import START_SECONDS, Allowance
from autoaccel.live.blocks import POINTS, StepTaken, StepWanted
from autoaccel.live.searching import LivePlan, Tried
from autoaccel.live.tuner import LiveTuner
from autoaccel.live.usual import UNKNOWN_DRIFT
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
PLAN = LivePlan(OWN, (), SPACE)
FAST: Settings = {**OWN, "memory.keep_freed": True}
REMEMBERS = PLAN._replace(remembered=FAST, searched_before=True)
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
        plan: LivePlan = PLAN,
        most: int = 6_000,
        beside: Callable[[Settings], UpdatesCompared | str | None] = lambda settings: rounded(1e-9),
        harm: Callable[[Settings, int], str] = lambda settings, number: "",
        doubt: Callable[[Settings, int], str] = lambda settings, number: "",
        size: Callable[[int], int] = lambda number: 0,
        system: Callable[[Settings], float] = lambda settings: 0.0,
    ) -> None:
        self.tried: list[Tried] = []
        self.steps: list[tuple[Settings, float]] = []
        self.best: list[Settings] = []
        self.points: list[int] = []  # at which each comparison of updates was asked for
        self.ended_after: int | None = None  # steps, from where on nobody looks
        self.tuner = LiveTuner(plan, Allowance(most), self.tried.append, random.Random(0))
        steps = self.tuner.steps()
        wanted: StepWanted | None = next(steps)
        while len(self.steps) < most:
            settings = wanted.settings if wanted is not None else self.tuner.best
            taken = seconds(settings, len(self.steps))
            self.steps.append((settings, taken or 0.0))
            self.best.append(self.tuner.best)
            if wanted is None:
                continue
            found = beside(wanted.beside) if wanted.beside else None
            self.points += [wanted.points] if wanted.beside else []
            try:
                said = harm(settings, len(self.steps)), doubt(settings, len(self.steps))
                wanted = steps.send(StepTaken(taken, found, *said, size(len(self.steps) - 1), system(settings)))
            except StopIteration:
                wanted, self.ended_after = None, len(self.steps)

    @property
    def seconds(self) -> float:
        """What all of them took."""
        return sum(taken for _, taken in self.steps)


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
    run = Run(scattered({"memory.keep_freed": 0.5, "threads.intra_op": 1.3}), PLAN._replace(guesses=[guess]))
    assert run.tuner.best == {**OWN, "memory.keep_freed": True}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_kept_where_nothing_helps(seed: int) -> None:
    run = Run(scattered({}, 0.1, seed))
    assert run.tuner.best == OWN


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
    assert len(run.steps) == 40


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


LASTS = PLAN._replace(lasting=("memory.keep_freed",))


def of_the_system(settings: Settings) -> float:
    """Return the seconds of a step of 50 ms that kept memory saves."""
    return 0.0 if settings["memory.keep_freed"] else 0.015


def test_what_cannot_be_taken_back_comes_first_and_is_compared_with_what_was_before_it() -> None:
    taken_on = False

    def seconds(settings: Settings, number: int) -> float:
        nonlocal taken_on
        taken_on |= settings["memory.keep_freed"]
        # Most of it stays when it is taken back.
        return (0.035 if settings["memory.keep_freed"] else 0.037 if taken_on else 0.05) * (1 + 0.01 * (number % 3))

    guess = {**OWN, "threads.intra_op": 1, "precision.cudnn_benchmark": True}
    run = Run(seconds, LASTS._replace(guesses=[guess]), system=of_the_system)
    assert run.tuner.best == FAST
    assert [tried.settings["memory.keep_freed"] for tried in run.tried] == [True] * len(run.tried)
    assert run.tried[1].settings == {**guess, "memory.keep_freed": True}  # the guess, under what is in use
    compared = run.tried[0].compared
    assert compared is not None
    comparison = compared.comparison
    assert comparison is not None
    assert comparison.low < 0.05 / 0.035 < comparison.high
    claim = run.tuner.claim(compared)  # the machine has been seen to drift little since
    assert claim is not None
    assert comparison.low < claim.low < 0.05 / 0.035 < claim.high < comparison.high


@pytest.mark.parametrize("step", [0.05, 1.0, 3.0])
def test_what_cannot_be_taken_back_is_in_use_after_a_few_seconds_or_steps(step: float) -> None:
    usual = scattered({"memory.keep_freed": 0.8})
    run = Run(
        lambda settings, number: (usual(settings, number) or 0.0) * step / 0.05,
        LASTS,
        most=2_000,
        system=lambda settings: step / 0.05 * of_the_system(settings),
    )
    first = next(number for number, best in enumerate(run.best) if best != OWN)
    assert first * step < max(8.0, 18 * step)


def test_what_cannot_be_taken_back_is_not_tried_where_it_can_save_nothing() -> None:
    run = Run(scattered({"memory.keep_freed": 0.7}), LASTS)
    assert not any(settings["memory.keep_freed"] for settings, _ in run.steps)


@pytest.mark.parametrize("seed", range(8))
def test_a_machine_that_becomes_faster_is_not_taken_for_what_cannot_be_taken_back(seed: int) -> None:
    usual = scattered({}, seed=seed)

    def seconds(settings: Settings, number: int) -> float:
        return (usual(settings, number) or 0.0) * (0.7 if number > 100 else 1.0)

    run = Run(seconds, LASTS, system=lambda settings: 0.01)
    assert run.tuner.best == OWN


def test_a_slow_beginning_is_not_counted_for_what_cannot_be_taken_back() -> None:
    usual = scattered({"memory.keep_freed": 0.7})

    def seconds(settings: Settings, number: int) -> float:
        return (usual(settings, number) or 0.0) * (1 + math.exp(-number / 60))

    run = Run(seconds, LASTS, system=of_the_system)
    compared = run.tried[0].compared
    assert compared is not None
    claim = run.tuner.claim(compared)
    assert claim is not None
    assert claim.speedup == pytest.approx(1 / 0.7, rel=0.1)
    assert claim.low < 1 / 0.7 < claim.high


@pytest.mark.parametrize("factor", [1.05, 1.3, 3.0, 10.0])
@pytest.mark.parametrize("step", [0.005, 0.05, 2.0])
def test_where_nothing_helps_a_second_and_a_hundredth_of_the_run_are_lost_at_most(factor: float, step: float) -> None:
    noise = random.Random(2)

    def seconds(settings: Settings, number: int) -> float:
        slower = sum(settings[name] != OWN[name] for name in OWN)
        return step * factor**slower * noise.lognormvariate(0.0, 0.02)

    run = Run(seconds, most=int(300 / step))
    plain = sum(step * noise.lognormvariate(0.0, 0.02) for _ in run.steps)
    # The last block may exceed what is allowed: how slow settings are is only seen in their steps.
    assert run.seconds - plain < START_SECONDS + 0.01 * plain + 0.002 * plain + 4 * factor * step
    assert run.tuner.best == OWN


def test_what_earlier_runs_have_found_is_in_use_after_the_first_steps_and_is_not_searched_again() -> None:
    run = Run(scattered({"memory.keep_freed": 0.7}), REMEMBERS, most=1_000)
    assert sum(best == FAST for best in run.best) > 990
    assert len(run.tried) == 1
    watch = run.tuner.watch
    assert watch is not None
    assert watch.comparison is not None
    assert watch.comparison.low < 1 / 0.7 < watch.comparison.high


def test_what_earlier_runs_have_found_is_given_up_where_it_is_slower_now() -> None:
    run = Run(
        scattered({"memory.keep_freed": 1.3, "threads.intra_op": 0.6}),
        REMEMBERS,
    )
    assert run.tuner.best == {**OWN, "threads.intra_op": 1}
    assert [tried.became for tried in run.tried[:2]] == ["kept", "given up"]


def test_what_rounds_of_earlier_runs_is_judged_once_more() -> None:
    remembered = {**OWN, "threads.intra_op": 1}
    run = Run(scattered({"threads.intra_op": 0.6}), PLAN._replace(remembered=remembered), 400, lambda _: rounded(0.4))
    assert all(settings["threads.intra_op"] == 2 for settings, _ in run.steps)
    assert run.tuner.best == OWN


def test_what_rounds_is_left_to_the_search_where_to_judge_it_takes_too_much_of_the_run() -> None:
    asked: list[Settings] = []

    def beside(settings: Settings) -> UpdatesCompared:
        asked.append(settings)
        return rounded(1e-9)

    plan = PLAN._replace(remembered={**OWN, "threads.intra_op": 1})
    short = Run(scattered({"threads.intra_op": 0.6}), plan, 60, beside)
    assert not asked
    assert short.tuner.best == OWN
    long = Run(scattered({"threads.intra_op": 0.6}), plan, 600, beside)
    assert asked
    assert long.best[10] == plan.remembered


def test_what_a_training_before_has_left_stays_and_is_not_claimed() -> None:
    begins = {**OWN, "memory.keep_freed": True}
    lasting = PLAN._replace(lasting=("memory.keep_freed",), begins=begins)
    seconds = scattered({"memory.keep_freed": 0.5, "threads.intra_op": 0.6})
    for plan in (lasting, lasting._replace(remembered={**begins, "threads.intra_op": 1})):
        run = Run(seconds, plan, most=1_000)
        assert all(settings["memory.keep_freed"] for settings, _ in run.steps)
        assert run.tuner.best == {**begins, "threads.intra_op": 1}
        assert run.tuner.own_step_seconds == pytest.approx(0.025, rel=0.1)
        watch = run.tuner.watch
        assert watch is not None
        assert watch.comparison is not None
        assert watch.comparison.low < 1 / 0.6 < watch.comparison.high


@pytest.mark.parametrize("change", [500, 2_000])
def test_settings_that_become_slow_are_given_up(change: int) -> None:
    noise = random.Random(3)

    def seconds(settings: Settings, number: int) -> float:
        usual = 0.05 * noise.lognormvariate(0.0, 0.05)
        return usual if settings == OWN else usual * (0.7 if number < change else 1.5)

    run = Run(seconds, PLAN._replace(guesses=[FAST]))
    assert run.best[change] != OWN
    slow = sum(settings != OWN for settings, _ in run.steps[change:])
    assert slow < 250
    assert run.tuner.best == OWN


@pytest.mark.parametrize(("every", "longer"), [(1, 0.02), (2, 0.05), (5, 0.2)])
def test_what_becomes_slow_now_and_then_is_given_up_within_seconds(every: int, longer: float) -> None:
    usual = scattered({})

    def seconds(settings: Settings, number: int) -> float:
        taken = usual(settings, number)
        assert taken is not None
        if not settings["memory.keep_freed"]:
            return 0.4 * taken
        return 0.2 * taken + (longer if number > 1_000 and number % every == 0 else 0.0)

    run = Run(seconds, PLAN._replace(guesses=[FAST]), most=2_000)
    assert run.best[1_000]["memory.keep_freed"]
    assert not run.tuner.best["memory.keep_freed"]
    assert sum(taken - 0.4 * 0.05 for _, taken in run.steps[1_000:]) < 3.0


def test_harm_ends_all_that_rounds() -> None:
    slower = scattered({"threads.intra_op": 0.6, "memory.keep_freed": 0.9})

    def harm(settings: Settings, number: int) -> str:
        return "the loss is not finite" if number > 800 and settings["threads.intra_op"] == 1 else ""

    run = Run(slower, harm=harm)
    assert run.best[790]["threads.intra_op"] == 1
    assert run.tuner.best == FAST
    assert all(settings["threads.intra_op"] == 2 for settings, _ in run.steps[801:])
    assert [tried.harm for tried in run.tried if tried.became == "given up"] == ["the loss is not finite"]


def rises_at(step: int) -> Callable[[Settings, int], str]:
    """Return what says once, at a step under a setting that rounds, that the loss rose."""
    said: list[int] = []

    def doubt(settings: Settings, number: int) -> str:
        if number <= step or said or settings["threads.intra_op"] == 2:
            return ""
        said.append(number)
        return "the loss rose"

    return doubt


def test_a_loss_that_rises_is_harm_only_if_updates_are_others_by_then() -> None:
    usual = scattered({"threads.intra_op": 0.6})
    compared: list[Settings] = []

    def harmless(settings: Settings) -> UpdatesCompared:
        compared.append(settings)
        return rounded(1e-9)

    run = Run(usual, beside=harmless, doubt=rises_at(800))
    one_thread = {**OWN, "threads.intra_op": 1}
    assert compared == [one_thread, one_thread]
    assert run.points == [POINTS, 1]
    assert run.best[790] == run.tuner.best == one_thread
    assert [one.became for one in run.tried if one.settings == one_thread] == ["kept"]
    assert run.tuner.watch is not None
    assert run.tuner.watch.pairs > 8

    later = iter((1e-9, 0.4, 0.4))  # at one point, then at all
    run = Run(usual, beside=lambda settings: rounded(next(later)), doubt=rises_at(800))
    assert run.best[790] == one_thread
    assert all(settings["threads.intra_op"] == 2 for settings, _ in run.steps[830:])
    (given_up,) = [one for one in run.tried if one.became == "given up"]
    assert given_up.harm == "the loss rose, and its updates are no longer those of your own settings"
    assert given_up.is_undone
    assert run.points == [POINTS, 1, POINTS]

    answers = iter((rounded(1e-9), "the model has hooks"))
    run = Run(usual, beside=lambda settings: next(answers), doubt=rises_at(800))
    (given_up,) = [one for one in run.tried if one.became == "given up"]
    assert given_up.harm == "the loss rose, and updates do not tell why (the model has hooks)"
    assert not given_up.is_undone

    # In a block of settings that are only tried, nothing is said, and nothing is undone.
    run = Run(usual, beside=lambda settings: "the model has hooks", doubt=rises_at(0))
    (tried,) = [one for one in run.tried if one.settings == one_thread]
    assert (tried.became, tried.harm, tried.is_undone) == ("left", "", False)
    assert all(settings["threads.intra_op"] == 2 for settings, _ in run.steps[60:])


def test_no_step_is_made_with_what_may_harm_before_updates_have_shown_that_it_does_not() -> None:
    seconds = scattered({"threads.intra_op": 0.6})
    plan = PLAN._replace(judged_first=("threads.intra_op",))
    run = Run(seconds, plan, beside=lambda settings: rounded(0.4))
    assert all(settings["threads.intra_op"] == 2 for settings, _ in run.steps)
    assert Run(seconds, plan).tuner.best == {**OWN, "threads.intra_op": 1}


def test_what_cannot_be_taken_back_is_compared_with_the_first_steps_where_it_is_known_from_earlier_runs() -> None:
    run = Run(scattered({"memory.keep_freed": 0.7}), REMEMBERS._replace(lasting=("memory.keep_freed",)), most=500)
    (tried,) = run.tried
    assert tried.compared is not None
    comparison = tried.compared.comparison
    assert comparison is not None
    assert comparison.low < 1 / 0.7 < comparison.high
    assert run.steps[50][0] == FAST
    assert run.tuner.watch is None


def test_steps_are_heard_after_the_search_until_it_is_known_how_they_drift() -> None:
    lasting = PLAN._replace(lasting=("memory.keep_freed",))

    def a_tenth(settings: Settings) -> float:
        return of_the_system(settings) / 3

    run = Run(scattered({"memory.keep_freed": 0.9}), lasting, most=2_000, system=a_tenth)
    (kept,) = [one for one in run.tried if one.is_kept]
    assert kept.compared is not None
    assert kept.compared.comparison is not None
    claim = run.tuner.claim(kept.compared)
    assert claim is not None
    assert claim.low > 1.02  # so that there is a recipe
    assert claim.low < 1 / 0.9 < claim.high
    assert kept.compared.comparison.low < 1
    assert claim.drift < UNKNOWN_DRIFT / 2
    assert 1.02 < claim.spared < 1 / (1 - 0.1)  # by what the system no longer does
    assert run.ended_after is not None
    assert run.ended_after < 1_000
    nothing = Run(scattered({"memory.keep_freed": 0.9}), lasting, most=2_000)
    assert nothing.ended_after is not None
    assert nothing.ended_after < 500


@pytest.mark.parametrize("factor", [1.0, 0.85])
def test_batches_of_different_sizes_hide_nothing_and_feign_nothing(factor: float) -> None:
    chance = random.Random(4)
    sizes = [chance.choice((400, 700, 1_000, 1_600)) for _ in range(3_000)]
    usual = scattered({"memory.keep_freed": factor})

    def seconds(settings: Settings, number: int) -> float:
        taken = usual(settings, number)
        assert taken is not None
        return taken * (0.2 + 0.8 * sizes[number] / 925)

    run = Run(seconds, most=3_000, size=sizes.__getitem__)
    assert run.tuner.best == (FAST if factor < 1 else OWN)
    if run.tuner.watch is not None and run.tuner.watch.comparison is not None:
        comparison = run.tuner.watch.comparison
        assert comparison.low < 1 / factor < comparison.high


@pytest.mark.parametrize(("step", "ends"), [(0.001, True), (0.05, False)])
def test_short_steps_are_left_alone_once_enough_was_seen(step: float, ends: bool) -> None:
    chance = random.Random(5)

    def seconds(settings: Settings, number: int) -> float:
        return step * (0.7 if settings["memory.keep_freed"] else 1.0) * chance.lognormvariate(0.0, 0.05)

    run = Run(seconds, most=int(200 / step))
    assert run.tuner.best == FAST
    assert run.tuner.watch is not None
    assert run.tuner.watch.pairs >= 8
    assert (run.ended_after is not None) == ends
    if run.ended_after is not None:
        assert 1_000 < run.ended_after < 120_000


def test_settings_that_are_far_too_slow_are_given_up_after_one_pair_of_blocks() -> None:
    run = Run(scattered({"threads.intra_op": 40.0, "memory.keep_freed": 0.7}))
    assert sum(settings["threads.intra_op"] == 1 for settings, _ in run.steps) <= 2
    assert run.tuner.best == FAST


@pytest.mark.parametrize("seed", range(8))
def test_settings_that_stall_now_and_then_are_given_up_however_lucky_their_blocks_were(seed: int) -> None:
    usual = scattered({"memory.keep_freed": 0.8}, seed=seed)

    def seconds(settings: Settings, number: int) -> float:
        taken = usual(settings, number)
        assert taken is not None
        return taken + (0.4 if settings["memory.keep_freed"] and number % 20 == 0 else 0.0)

    run = Run(seconds, most=3_000)
    assert run.tuner.best == OWN
    assert run.seconds < 1.03 * 0.05 * 3_000


def test_a_machine_that_becomes_slow_is_not_taken_for_settings_that_do() -> None:
    usual = scattered({"memory.keep_freed": 0.8})

    def seconds(settings: Settings, number: int) -> float:
        taken = usual(settings, number)
        assert taken is not None
        return taken * (1.5 if number > 100 else 1.0)

    for plan in (PLAN._replace(guesses=[FAST]), REMEMBERS):
        run = Run(seconds, plan, most=2_000)
        assert run.tuner.best == FAST
        assert not any(one.became == "given up" for one in run.tried)


def test_what_is_remembered_is_not_given_up_for_three_quick_steps_at_the_beginning() -> None:
    usual = scattered({"memory.keep_freed": 0.8})
    run = Run(lambda settings, number: (usual(settings, number) or 0.0) * (0.5 if number < 5 else 1.0), REMEMBERS)
    assert run.tuner.best == FAST
    assert [one.became for one in run.tried] == ["kept"]
