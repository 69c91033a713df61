"""The search on a source whose truth is known: what it measures how long, what it believes, when it ends."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec
import pytest

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.progress import Event, Note, ignore
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments, QuickLook, Reading
from autoaccel.search.loop import Search
from autoaccel.search.patience import COMPILE_SHARE
from autoaccel.search.task import Prior, SearchTask
from autoaccel.session.lost_values import lost_values

BASELINE: Settings = {"precision.autocast": "off", "layout.channels_last": False, "loader.workers": 0}
CAST: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
SPACE = SearchSpace(
    name="test",
    open={
        "precision.autocast": ("off", "bfloat16"),
        "layout.channels_last": (False, True),
        "loader.workers": (0, 1, 2),
    },
    fixed={},
    closed={},
)
STEP_SECONDS, TURN_SECONDS, START_SECONDS = 0.04, 0.25, 1.0


class FakeClock:
    """A clock that only measuring moves."""

    def __init__(self, budget_seconds: float) -> None:
        self.budget_seconds = budget_seconds
        self.spent = 0.0

    @property
    def left(self) -> float:
        return self.budget_seconds - self.spent


class FakeSource:
    """Measures with the noise of a shared machine: 0.1 from turn to turn, 0.03 from process to process."""

    def __init__(self, logs: dict[str, float], clock: FakeClock, seed: int = 0) -> None:
        self.logs = logs
        self.clock = clock
        self.random = random.Random(seed)
        self.turns: dict[str, int] = {}
        self.lucky: set[str] = set()  # whose first process is five times as fast as it should be
        self.failing: set[str] = set()
        self.endless: set[str] = set()

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        self.clock.spent += START_SECONDS
        key = str(settings["precision.autocast"])
        if key in self.failing:
            return Failure("crashed", "it does")
        if key in self.endless:
            self.clock.spent += look.timeout_seconds
            return Failure("hung", "it does")
        luck = self.random.gauss(0, 0.03) + (1.6 if key in self.lucky else 0.0)
        self.lucky.discard(key)
        log = self.logs.get(key, 0.0) + luck
        pairs: list[tuple[float, float]] = []
        while not look.enough(pairs):
            for _ in range(2):
                noise = math.exp(log + self.random.gauss(0, 0.1))
                pairs.append((STEP_SECONDS, STEP_SECONDS / noise))
                self.clock.spent += 2 * TURN_SECONDS
        self.turns[look.name] = len(pairs)
        turns = tuple(Turn((baseline,)) for baseline, _ in pairs)
        measurement = Measurement(3.0, (STEP_SECONDS,), tuple(Turn((other,)) for _, other in pairs))
        return Reading(measurement, turns, pairs, trusted=True)


def task_for(economy: Economy, guesses: Sequence[Settings]) -> SearchTask:
    return SearchTask(SPACE, BASELINE, economy, Prior(guesses, dict.fromkeys(SPACE.open, 0.2)))


def economy_of(planned_steps: int = 20_000, trainings: int = 20) -> Economy:
    return Economy(trainings, planned_steps, STEP_SECONDS, 3.0, 0.0, 4.0)


def searching(
    source: FakeSource, planned_steps: int = 20_000, trainings: int = 20, kept: list[Trial] | None = None
) -> Search:
    task = task_for(economy_of(planned_steps, trainings), [CAST])
    keep = kept.append if kept is not None else ignore
    return Search(task, Instruments(source.compare, source.clock, keep, ignore))


def nothing(settings: Settings, speedup: float | None) -> float:
    """Leave nothing of the budget for a proof."""
    return 0.0


def test_the_faster_settings_win_and_every_trial_is_kept() -> None:
    kept: list[Trial] = []
    search = searching(FakeSource({"bfloat16": 0.4}, FakeClock(300)), kept=kept)
    assert search.run(nothing) == "nothing pays"
    assert search.best is not None
    assert search.best.settings["precision.autocast"] == "bfloat16"
    assert kept == search.trials
    assert all(trial.baseline_turns and trial.total_seconds for trial in kept)


def test_a_trial_that_is_clearly_worse_ends_early_and_a_close_one_does_not() -> None:
    slow, close = FakeSource({"bfloat16": -1.0}, FakeClock(300)), FakeSource({"bfloat16": 0.02}, FakeClock(300))
    searching(slow).run(nothing)
    searching(close).run(nothing)
    assert slow.turns["trial-0001"] <= 4
    assert slow.turns["trial-0001"] < close.turns["trial-0001"] <= 12


def test_a_reading_too_good_to_be_true_does_not_win_alone() -> None:
    source = FakeSource({"bfloat16": -0.1}, FakeClock(300))
    source.lucky.add("bfloat16")
    search = searching(source)
    search.run(nothing)
    first, second = search.trials[:2]
    assert first.comparison is not None and first.comparison.speedup > 3
    assert second.again and second.settings == first.settings


def test_what_the_best_would_save_is_counted_over_all_runs() -> None:
    search = searching(FakeSource({"bfloat16": 0.4}, FakeClock(300)), planned_steps=10_000, trainings=5)
    search.run(nothing)
    # 5 trainings of 400 s, of which a third would be saved.
    assert 500 < search.saving_seconds < 800
    assert searching(FakeSource({}, FakeClock(300))).saving_seconds == 0.0


def test_the_budget_is_a_ceiling_not_a_target() -> None:
    clock = FakeClock(3000)
    searching(FakeSource({"bfloat16": 0.4}, clock)).run(nothing)
    assert clock.spent < 300
    tight = FakeClock(20)
    assert searching(FakeSource({"bfloat16": 0.4}, tight)).run(lambda settings, speedup: 10.0) == "out of time"
    assert tight.spent < 12


def test_what_could_no_longer_be_proven_is_not_tried() -> None:
    """Settings that may change the metric take longer to prove than what is left; others do not."""
    search = searching(FakeSource({"bfloat16": 0.4}, FakeClock(300)))
    ended = search.run(lambda settings, speedup: 0.0 if settings["precision.autocast"] == "off" else 1000.0)
    assert search.trials
    assert {trial.settings["precision.autocast"] for trial in search.trials} == {"off"}
    assert ended == "out of time"


def test_what_tries_leave_for_the_proof_of_the_best_depends_on_its_speed_up() -> None:
    asked: list[float | None] = []

    def reserve(settings: Settings, speedup: float | None) -> float:
        asked.append(speedup)
        return 0.0

    search = searching(FakeSource({"bfloat16": 0.4}, FakeClock(300)))
    search.run(reserve)
    assert search.best is not None
    assert search.best.comparison is not None
    assert asked[0] is None
    assert search.best.comparison.speedup in asked


@pytest.mark.parametrize(("planned_steps", "seconds"), [(20_000, 4 + 10 * 4), (500, 4 + 3 + 500 * STEP_SECONDS)])
def test_a_trial_that_is_far_too_slow_to_win_is_given_up(planned_steps: int, seconds: float) -> None:
    """Ten times what trials take usually, or a whole run under the user's own settings, whichever is less."""
    source = FakeSource({}, FakeClock(3000))
    source.endless.add("bfloat16")
    search = searching(source, planned_steps, trainings=1000)
    search.run(nothing)
    first = search.trials[0]
    assert isinstance(first.outcome, Failure)
    assert first.outcome.message == f"given up after {seconds:.0f} s: it hangs, or is far too slow to win"
    assert first.spent_seconds == START_SECONDS + seconds


def test_failures_are_trials_too() -> None:
    source = FakeSource({}, FakeClock(300))
    source.failing.add("bfloat16")
    search = searching(source)
    search.run(nothing)
    failed = [trial for trial in search.trials if isinstance(trial.outcome, Failure)]
    assert failed[0].settings == CAST
    assert search.best is None or search.best not in failed


def test_what_failures_have_in_common_is_closed_and_told_and_all_else_is_tried() -> None:
    """The step waits for data, so that all of the experts' guesses have workers, which crash here."""

    class WorkersCrash(FakeSource):
        def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
            if settings["loader.workers"]:
                self.clock.spent += START_SECONDS
                return Failure("raised", f"RuntimeError: DataLoader worker (pid {len(self.turns)}) exited unexpectedly")
            return super().compare(settings, look)

    source, told = WorkersCrash({"bfloat16": 0.4}, FakeClock(300)), list[Event]()
    economy = Economy(20, 20_000, STEP_SECONDS, 3.0, 0.0, 4.0)
    loads: Settings = {"loader.workers": 2}
    guesses = [{**CAST, "layout.channels_last": True, **loads}, {**CAST, **loads}, {**BASELINE, **loads}]
    search = Search(task_for(economy, guesses), Instruments(source.compare, source.clock, ignore, told.append))
    search.run(nothing)
    assert search.best is not None
    assert search.best.settings["precision.autocast"] == "bfloat16"
    failed = [trial for trial in search.trials if isinstance(trial.outcome, Failure)]
    assert 2 <= len(failed) <= 4
    notes = [event.text for event in told if isinstance(event, Note)]
    assert any(note.startswith("loader.workers=2 is not tried again: ") for note in notes)
    lost = {(one.knob, one.value): one for one in lost_values(SPACE, BASELINE, CAST, search.trials)}[
        "loader.workers", 2
    ]
    assert lost.because == "closed" and lost.cause is not None
    assert "failed trials contain it, and no trial that worked does: RuntimeError" in lost.cause.words


def test_what_drops_the_metric_is_out_with_all_that_contains_it() -> None:
    search = searching(FakeSource({"bfloat16": 0.4}, FakeClock(300)))
    search.run(nothing)
    accuracy = Accuracy("m", "maximize", 0.9, 0.8, 0.1, 0.12, 3, 1.0, (0.9,) * 3, (0.8,) * 3)
    search.judge(CAST, accuracy, "drops")
    for trial in search.trials:
        assert trial.feasible == (trial.settings["precision.autocast"] == "off")
    assert search.best is None or search.best.settings["precision.autocast"] == "off"
    same_risk = [trial for trial in search.trials if trial.settings["layout.channels_last"] is False]
    assert all((trial.accuracy == accuracy) == (not trial.feasible) for trial in same_risk)


class EndlessCompiler(FakeSource):
    """One whose every compilation takes for ever."""

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        if settings["compile.mode"] != "off":
            self.clock.spent += look.timeout_seconds
            return Failure("hung", "it compiles")
        return super().compare(settings, look)


def test_an_endless_compilation_costs_its_share_and_what_is_compiled_alike_is_not_tried_again() -> None:
    """A compilation that did not end took what was left of the budget, and nothing was proven."""
    baseline: Settings = {**BASELINE, "compile.mode": "off"}
    space = msgspec.structs.replace(SPACE, open={**SPACE.open, "compile.mode": ("off", "default")})
    clock, told = FakeClock(600), list[Event]()
    economy = Economy(20, 200_000, STEP_SECONDS, 3.0, 0.0, 4.0)
    compiled: Settings = {**baseline, "compile.mode": "default"}
    task = SearchTask(space, baseline, economy, Prior([compiled], dict.fromkeys(space.open, 0.2)))
    search = Search(task, Instruments(EndlessCompiler({"bfloat16": 0.4}, clock).compare, clock, ignore, told.append))
    search.run(nothing)
    first, *others = search.trials
    assert first.settings == compiled and isinstance(first.outcome, Failure)
    assert first.outcome.kind == "slow start"
    assert first.outcome.message == "given up after 124 s: compiling takes longer than 20% of the budget"
    assert first.spent_seconds == pytest.approx(4.0 + COMPILE_SHARE * 600)
    notes = [event.text for event in told if isinstance(event, Note)]
    assert notes == [f"settings that compile to the same code are not tried again: {first.outcome.message}"]
    assert others and all(trial.settings["compile.mode"] == "off" for trial in others)
    assert search.best is not None and search.best.settings["precision.autocast"] == "bfloat16"


def test_a_compilation_that_would_not_fit_in_its_share_is_not_begun() -> None:
    baseline: Settings = {**BASELINE, "compile.mode": "off"}
    space = msgspec.structs.replace(SPACE, open={**SPACE.open, "compile.mode": ("off", "default")})
    clock = FakeClock(100)  # a fifth of which is less than a compilation is expected to take
    economy = Economy(20, 200_000, STEP_SECONDS, 3.0, 0.0, 4.0)
    prior = Prior([{**baseline, "compile.mode": "default"}], dict.fromkeys(space.open, 0.2))
    source = EndlessCompiler({"bfloat16": 0.4}, clock)
    search = Search(SearchTask(space, baseline, economy, prior), Instruments(source.compare, clock, ignore, ignore))
    search.run(nothing)
    assert search.trials and all(trial.settings["compile.mode"] == "off" for trial in search.trials)
