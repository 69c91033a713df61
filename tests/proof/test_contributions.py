"""What each setting contributes, on pairs whose truth is known."""

from __future__ import annotations

import math
import random

import pytest

from autoaccel.bench.bench import FreshPair, Reference
from autoaccel.proof.contributions import Breakdown, Predictor, Proven, TimeLeft, break_down, expected_seconds
from autoaccel.proof.limits import MAX_PAIRS_EACH, MIN_PAIRS_EACH
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings
from autoaccel.records.space import Forbidden, SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments, Reading
from autoaccel.search.knowledge import Knowledge
from autoaccel.search.loop import Search
from autoaccel.search.task import Prior, SearchTask
from autoaccel.space.change import Change
from autoaccel.statistics.comparison import compare_in_process
from autoaccel.statistics.runs import CompileSeconds
from tests.samples import reading_of

BASELINE: Settings = {
    "precision.autocast": "off",
    "layout.channels_last": False,
    "loader.workers": 0,
    "loader.prefetch": 2,
}
CHOSEN: Settings = {**BASELINE, "precision.autocast": "bfloat16", "layout.channels_last": True, "loader.workers": 2}
SPACE = SearchSpace(
    name="test",
    open={
        "precision.autocast": ("off", "bfloat16"),
        "layout.channels_last": (False, True),
        "loader.workers": (0, 1, 2),
        "loader.prefetch": (2, 8),
    },
    fixed={},
    closed={},
)
LOGS = {"precision.autocast": 0.4, "layout.channels_last": 0.1, "loader.workers": 0.02, "loader.prefetch": 0.05}
PAIR_SECONDS = 8.0


class Machine:
    """Knows how fast settings are, measures them against the recipe with noise, and moves the clock."""

    def __init__(
        self, budget_seconds: float = 600.0, together: float = 0.0, noise: float = 0.03, seed: int = 0
    ) -> None:
        self.budget_seconds = budget_seconds
        self.spent = 0.4 * budget_seconds
        self.together = together  # what autocast and channels last are worth beyond their sum
        self.random = random.Random(seed)
        self.chosen = CHOSEN
        self.slower = 1.0  # times that a pair takes as long as expected
        self.loading_seconds = 0.0  # what a process without autocast takes to load its compiled code
        self.waits = 0.0  # seconds that a pair takes for the other side's steps, over all else that it takes
        self.asked: list[Settings] = []
        self.failing: set[str] = set()
        self.untrusted: set[int] = set()  # numbers of pairs, from 1

    @property
    def left(self) -> float:
        return self.budget_seconds - self.spent

    def log(self, settings: Settings) -> float:
        """Return the true logarithm of the speed-up."""
        on = {name for name in BASELINE if settings[name] != BASELINE[name]}
        both = {"precision.autocast", "layout.channels_last"} <= on
        return sum(LOGS[name] for name in on) + (self.together if both else 0.0)

    def pair_seconds(self, speedup: float) -> float:
        """Return what a pair takes whose other side has steps that are this many times as fast as the recipe's."""
        return PAIR_SECONDS * (1 + self.waits / speedup) / (1 + self.waits)

    def compare(self, settings: Settings, how: FreshPair) -> Reading | Failure:
        assert how.steps is None and how.against == Reference(self.chosen, 1.0)
        self.spent += self.slower * self.pair_seconds(math.exp(self.log(settings) - self.log(self.chosen)))
        self.spent += self.loading_seconds if settings["precision.autocast"] == "off" else 0.0
        self.asked.append(settings)
        if any(settings[name] == BASELINE[name] for name in self.failing):
            return Failure("memory", "it does not fit without")
        if len(self.asked) in self.untrusted:
            return reading_of([(1.0, 9.0)] * 8, trusted=False)
        slower = self.log(self.chosen) - self.log(settings) + self.random.gauss(0, 0.03)
        turns = [(1.0, math.exp(slower + self.random.gauss(0, 0.02))) for _ in range(8)]
        return reading_of(turns)


def searched(machine: Machine, *tried: Settings) -> Knowledge:
    """Return what a search knows that has tried these settings, each in a process with some luck."""
    economy = Economy(20, 20_000, 0.04, 3.0, 0.0, 4.0)
    task = SearchTask(SPACE, BASELINE, economy, Prior([], dict.fromkeys(SPACE.open, 0.2)))
    search = Search(task, Instruments(None, machine, ignore, ignore))  # type: ignore[arg-type]  # no workers are started
    trials = []
    for number, settings in enumerate(tried, start=1):
        log = machine.log(settings) + machine.random.gauss(0, 0.02)
        pairs = [(1.0, math.exp(-log - machine.random.gauss(0, 0.03))) for _ in range(8)]
        outcome = Measurement(3.0, (1.0,), tuple(Turn((other,)) for _, other in pairs))
        trials.append(Trial(number, settings, outcome, 4.0, comparison=compare_in_process(pairs)))
    search.take_over(trials)
    return search.knowledge


def broken_down(machine: Machine, chosen: Settings = CHOSEN, space: SearchSpace = SPACE, *tried: Settings) -> Breakdown:
    return broken_down_by(searched(machine, chosen, *tried), machine, chosen, space)


def broken_down_by(
    predictor: Predictor, machine: Machine, chosen: Settings = CHOSEN, space: SearchSpace = SPACE
) -> Breakdown:
    machine.chosen = chosen
    return break_down(proven_by(machine, space), machine.compare, predictor, time_left(machine))


def proven_by(machine: Machine, space: SearchSpace = SPACE) -> Proven:
    log = machine.log(machine.chosen)
    whole = Comparison(math.exp(log), math.exp(log - 0.05), math.exp(log + 0.05), "faster", 0.975, 6, 48)
    return Proven(Change(machine.chosen, BASELINE, space), whole, 1.0)


def time_left(machine: Machine) -> TimeLeft:
    return TimeLeft(machine, machine.budget_seconds, machine.pair_seconds)


class Compiles:
    """Predicts what a search knows, and that what computes in float32 is compiled once, and loaded by each process."""

    def __init__(self, knowledge: Knowledge, cold_seconds: float, loading_seconds: float = 0.0) -> None:
        self.seconds = CompileSeconds(cold_seconds + loading_seconds, loading_seconds)
        self.contrast = knowledge.contrast

    def compile_seconds(self, settings: Settings) -> CompileSeconds:
        return self.seconds if settings["precision.autocast"] == "off" else CompileSeconds(0.0, 0.0)

    def extra_start_seconds(self, settings: Settings) -> float:
        return self.compile_seconds(settings).warm


@pytest.mark.parametrize(
    ("cold_seconds", "measured"),
    [
        (60.0, {"precision.autocast", "layout.channels_last"}),  # 60 s and 2 x 3 pairs of 8 s, of the 120 s there are
        (100.0, {"layout.channels_last", "loader.workers"}),  # too long: what it would take is left to others
    ],
)
def test_what_must_be_compiled_is_compiled_once_and_takes_no_time_from_others(
    cold_seconds: float, measured: set[str]
) -> None:
    machine = Machine(budget_seconds=600.0)
    found = broken_down_by(Compiles(searched(machine, CHOSEN), cold_seconds), machine)
    assert {one.setting for one in found.contributions if one.measured} == measured


@pytest.mark.parametrize(
    ("budget_seconds", "waits", "cold_seconds", "loading_seconds"),
    [
        (1200.0, 0.0, 0.0, 0.0),
        (1200.0, 1.0, 0.0, 0.0),  # without autocast, steps take half as long again, and so does that side of its pairs
        (1200.0, 1.0, 60.0, 0.0),  # what is left without autocast is compiled once
        (1200.0, 1.0, 60.0, 8.0),  # and loaded in each of its pairs
        (400.0, 1.0, 0.0, 0.0),  # there is no time for every pair
    ],
)
def test_it_is_known_before_what_it_takes(
    budget_seconds: float, waits: float, cold_seconds: float, loading_seconds: float
) -> None:
    machine = Machine(budget_seconds)
    machine.waits, machine.loading_seconds = waits, loading_seconds
    knowledge = searched(machine, *({**CHOSEN, name: BASELINE[name]} for name in LOGS))
    predictor = Compiles(knowledge, cold_seconds, loading_seconds)
    expected = expected_seconds(proven_by(machine), predictor, time_left(machine))
    before = machine.spent
    broken_down_by(predictor, machine)
    assert expected == pytest.approx(machine.spent + cold_seconds - before, rel=0.1)


def test_each_setting_is_left_out_and_measured_against_the_recipe() -> None:
    machine = Machine()
    contributions, interaction = broken_down(machine)
    assert [one.setting for one in contributions] == ["precision.autocast", "layout.channels_last", "loader.workers"]
    for one in contributions:
        assert one.measured
        assert one.value == CHOSEN[one.setting]
        assert one.low < math.exp(LOGS[one.setting]) < one.high
        assert one.speedup == pytest.approx(math.exp(LOGS[one.setting]), rel=0.06)
    assert interaction is None


def test_the_intervals_hold_as_often_as_they_say() -> None:
    missed = total = 0
    for seed in range(100):
        for one in broken_down(Machine(seed=seed)).contributions:
            missed += not one.low <= math.exp(LOGS[one.setting]) <= one.high
            total += 1
    assert total == 300
    # 5 % are expected; the readings of one run share their spread. Fewer would mean that they are too wide.
    assert 0.02 < missed / total < 0.09


def test_every_round_has_each_setting_and_who_comes_first_changes() -> None:
    machine = Machine()
    broken_down(machine)
    left_out = [next(name for name in BASELINE if one[name] != CHOSEN[name]) for one in machine.asked]
    rounds = [left_out[start : start + 3] for start in range(0, len(left_out), 3)]
    assert MIN_PAIRS_EACH <= len(rounds) <= MAX_PAIRS_EACH
    assert all(len(set(names)) == 3 for names in rounds)
    assert rounds[1] == rounds[0][::-1]


def test_one_setting_alone_has_nothing_to_be_told_apart_from() -> None:
    machine = Machine()
    assert broken_down(machine, {**BASELINE, "precision.autocast": "bfloat16"}) == Breakdown()
    assert machine.asked == []


def test_without_time_the_trials_must_do_and_it_is_said() -> None:
    machine = Machine(budget_seconds=36.0)  # what is left of it is too short for three pairs
    tried = [{**CHOSEN, name: BASELINE[name]} for name in LOGS]
    contributions, _ = broken_down(machine, CHOSEN, SPACE, *tried)
    assert machine.asked == []
    assert not any(one.measured for one in contributions)
    found = {one.setting: one for one in contributions}
    for name in ("precision.autocast", "layout.channels_last", "loader.workers"):
        assert found[name].low < math.exp(LOGS[name]) < found[name].high
    assert found["precision.autocast"].low > 1


def test_little_time_goes_to_the_setting_of_which_least_is_known() -> None:
    machine = Machine(budget_seconds=200.0)  # a fifth: enough for one setting
    # Known from a trial is what the recipe is without two of its settings.
    tried = [{**CHOSEN, name: BASELINE[name]} for name in ("layout.channels_last", "loader.workers")] * 3
    contributions, _ = broken_down(machine, CHOSEN, SPACE, *tried)
    assert {one.setting for one in contributions if one.measured} == {"precision.autocast"}
    assert machine.spent <= 0.6 * 200.0 + PAIR_SECONDS


def test_where_a_fifth_of_the_budget_tells_nothing_one_setting_has_what_is_left() -> None:
    """Three pairs of a BERT take 126 s, six more than a fifth of ten minutes: 3 min 40 s were left unused."""
    machine = Machine(budget_seconds=100.0)  # a fifth: two pairs and a half
    predictor, before = searched(machine, CHOSEN), machine.spent
    expected = expected_seconds(proven_by(machine), predictor, time_left(machine))
    found = broken_down_by(predictor, machine).contributions
    assert sum(one.measured for one in found) == 1
    assert machine.spent - before == pytest.approx(expected) == pytest.approx(MIN_PAIRS_EACH * PAIR_SECONDS)


@pytest.mark.parametrize(("slower", "told"), [(1.0, 3), (2.0, 2), (4.0, 1)])
def test_where_pairs_take_longer_than_expected_fewer_settings_are_told(slower: float, told: int) -> None:
    """Of a MobileNet four pairs took two minutes, twice as long as expected, and no setting had enough of them."""
    machine = Machine(budget_seconds=600.0)
    machine.slower = slower
    found = broken_down(machine).contributions
    assert sum(one.measured for one in found) == told
    assert machine.spent <= 0.6 * 600.0 + slower * PAIR_SECONDS  # what is left of the search's time, and its share


@pytest.mark.parametrize(("slower", "told", "pairs"), [(2.5, 1, 3), (6.0, 0, 1)])
def test_what_was_begun_is_told_if_the_budget_lasts(slower: float, told: int, pairs: int) -> None:
    """Of a Llama and of a BERT a pair took 1.2 to 1.4 times as long as expected: its 50 seconds told nothing."""
    machine = Machine(budget_seconds=200.0)  # a fifth: enough for one setting, if pairs take what is expected
    machine.slower = slower
    found = broken_down(machine).contributions
    assert sum(one.measured for one in found) == told
    assert len(machine.asked) == pairs
    assert machine.left >= 0


def test_it_takes_a_bounded_part_of_the_budget() -> None:
    machine = Machine(budget_seconds=1000.0)
    before = machine.spent
    broken_down(machine)
    assert machine.spent - before <= 3 * MAX_PAIRS_EACH * PAIR_SECONDS
    machine = Machine(budget_seconds=400.0)
    before = machine.spent
    broken_down(machine)
    assert 0 < machine.spent - before <= 0.2 * 400.0


def test_settings_that_need_each_other_are_named() -> None:
    _, interaction = broken_down(Machine(together=0.3))
    assert interaction is not None
    assert set(interaction.settings) == {"precision.autocast", "layout.channels_last"}
    assert interaction.low > 1
    assert interaction.low < math.exp(0.3) < interaction.high


def test_with_two_settings_both_alone_and_together_are_known() -> None:
    pair: Settings = {**BASELINE, "precision.autocast": "bfloat16", "layout.channels_last": True}
    contributions, interaction = broken_down(Machine(together=0.3), pair)
    assert {one.setting for one in contributions} == {"precision.autocast", "layout.channels_last"}
    assert interaction is not None
    assert interaction.factor == pytest.approx(math.exp(0.3), rel=0.1)
    assert broken_down(Machine(), pair).interaction is None


def test_what_cannot_run_without_a_setting_is_estimated() -> None:
    machine = Machine()
    machine.failing.add("precision.autocast")
    contributions, _ = broken_down(machine)
    assert {one.setting: one.measured for one in contributions} == {
        "precision.autocast": False,
        "layout.channels_last": True,
        "loader.workers": True,
    }
    without = [one for one in machine.asked if one["precision.autocast"] == "off"]
    assert len(without) == 1  # it is not asked for again


def test_what_may_not_be_combined_is_not_measured() -> None:
    rule = Forbidden({"precision.autocast": "off", "layout.channels_last": True}, "why")
    space = SearchSpace("test", SPACE.open, {}, {}, forbidden=(rule,))
    machine = Machine()
    contributions, _ = broken_down(machine, CHOSEN, space)
    assert [one.setting for one in contributions if not one.measured] == ["precision.autocast"]
    assert all(space.allows(one) for one in machine.asked)


def test_disturbed_pairs_do_not_count() -> None:
    machine = Machine()
    machine.untrusted = {1, 5}
    for one in broken_down(machine).contributions:
        assert one.measured
        assert one.speedup == pytest.approx(math.exp(LOGS[one.setting]), rel=0.06)


def test_what_needs_a_setting_is_left_out_with_it() -> None:
    machine = Machine()
    chosen: Settings = {**BASELINE, "loader.workers": 2, "loader.prefetch": 8}
    contributions, _ = broken_down(machine, chosen)
    found = {one.setting: one for one in contributions}
    both = math.exp(LOGS["loader.workers"] + LOGS["loader.prefetch"])
    assert found["loader.workers"].low < both < found["loader.workers"].high
    assert {settings["loader.prefetch"] for settings in machine.asked if settings["loader.workers"] == 0} == {2}
