"""The strategy: experts first, nothing twice but to make sure, nothing forbidden, and nothing that does not pay."""

from __future__ import annotations

import itertools
import math
import random

import msgspec
import pytest

from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.space import Forbidden, SearchSpace
from autoaccel.records.trial import Comparison, Failure, FailureKind, Measurement, Trial, Turn
from autoaccel.search.economy import Economy
from autoaccel.search.strategy import Strategy
from autoaccel.statistics.runs import WARM_SHARE

OWN: Settings = {
    "threads.intra_op": 4,
    "precision.autocast": "off",
    "layout.channels_last": False,
    "optimizer.fused": False,
    "loader.workers": 0,
    "compile.mode": "off",
}
SPACE = SearchSpace(
    name="test",
    open={
        "threads.intra_op": (4, 2, 1),
        "precision.autocast": ("off", "bfloat16", "float16"),
        "layout.channels_last": (False, True),
        "optimizer.fused": (False, True),
        "loader.workers": (0, 1, 2),
        "compile.mode": ("off", "default"),
    },
    fixed={},
    closed={},
    forbidden=(Forbidden({"precision.autocast": "float16", "threads.intra_op": 1}, "slow"),),
)
DEVIATIONS = dict.fromkeys(SPACE.open, 0.3)
COMPILE_SECONDS = 20.0


def economy(planned_steps: int, runs: int = 20) -> Economy:
    return Economy(runs, planned_steps, 0.04, 3.0, 0.1, 3.0)


def strategy(
    planned_steps: int = 100_000, candidates: tuple[Settings, ...] = (), space: SearchSpace = SPACE
) -> Strategy:
    return Strategy(space, OWN, candidates, DEVIATIONS, economy(planned_steps), 0)


def true_log(settings: Settings) -> float:
    """Return a log speed-up whose best, at bfloat16, channels last, 1 thread, 2 workers, needs both."""
    log = {"off": 0.0, "bfloat16": 0.25, "float16": -0.4}[str(settings["precision.autocast"])]
    if settings["layout.channels_last"]:
        log += 0.2 if settings["precision.autocast"] == "bfloat16" else -0.05
    log += {4: 0.0, 2: -0.15, 1: -0.3}[int(settings["threads.intra_op"])]
    log += 0.4 if (settings["threads.intra_op"], settings["loader.workers"]) == (1, 2) else 0.0
    log += 0.02 if settings["optimizer.fused"] else 0.0
    return log + (0.05 if settings["compile.mode"] == "default" else 0.0)


def finished(
    number: int, settings: Settings, log: float, again: bool = False, first_seconds: float | None = None
) -> Trial:
    slower = COMPILE_SECONDS if settings["compile.mode"] == "default" else 0.1
    first = 0.04 + slower if first_seconds is None else first_seconds
    comparison = Comparison(math.exp(log), math.exp(log - 0.1), math.exp(log + 0.1), "faster", 0.95, 1, 8)
    outcome = Measurement(3.0, (first, 0.04), (Turn((0.04,)),))
    return Trial(number, settings, outcome, 3.0, comparison=comparison, again=again)


def failed(number: int, settings: Settings, kind: FailureKind = "crashed") -> Trial:
    return Trial(number, settings, Failure(kind, "x"), 3.0)


def search(chosen: Strategy, seed: int = 0, most: int = 200) -> list[Trial]:
    """Let the strategy search until it has enough; return its trials."""
    noise = random.Random(seed)
    trials: list[Trial] = []
    while len(trials) < most and (suggestion := chosen.suggest()) is not None:
        log = true_log(suggestion.settings) + noise.gauss(0, 0.05)
        trials.append(finished(len(trials) + 1, suggestion.settings, log, suggestion.again))
        chosen.learn(trials[-1])
    return trials


BEST = max(true_log(dict(zip(SPACE.open, values, strict=True))) for values in itertools.product(*SPACE.open.values()))


def test_candidates_come_first_in_their_order() -> None:
    candidates: tuple[Settings, ...] = ({**OWN, "precision.autocast": "bfloat16"}, {**OWN, "loader.workers": 2})
    chosen = strategy(candidates=candidates)
    assert [chosen.suggest(), chosen.suggest()][0].settings == candidates[0]  # type: ignore[union-attr]
    chosen = strategy(candidates=candidates)
    found = [suggestion.settings for suggestion in (chosen.suggest(), chosen.suggest()) if suggestion]
    assert found == list(candidates)


def test_it_comes_close_to_the_best_with_a_fraction_of_the_space() -> None:
    missed = []
    for seed in range(10):
        chosen = strategy()
        assert len(search(chosen, seed)) <= 0.25 * SPACE.size
        missed.append(BEST - true_log(chosen.ranked()[0].settings))
    assert sorted(missed)[5] <= 0.021
    assert sorted(missed)[8] <= 0.15


def test_a_value_that_fails_twice_and_never_worked_is_not_tried_again() -> None:
    chosen = strategy()
    bad, number = 0, 0
    for number in range(1, 60):
        suggestion = chosen.suggest()
        if suggestion is None:
            break
        settings = suggestion.settings
        fails = settings["precision.autocast"] == "bfloat16"
        bad += fails
        chosen.learn(failed(number, settings) if fails else finished(number, settings, true_log(settings)))
    assert bad == 2
    assert number > 5


def test_what_worked_elsewhere_is_not_to_blame() -> None:
    chosen = strategy()
    chosen.learn(finished(1, {**OWN, "precision.autocast": "bfloat16"}, 0.3))
    for number, workers in ((2, 1), (3, 2)):
        chosen.learn(failed(number, {**OWN, "precision.autocast": "bfloat16", "loader.workers": workers}))
    found = [trial.settings for trial in search(chosen)]
    assert any(settings["precision.autocast"] == "bfloat16" for settings in found)


def test_what_worked_on_another_machine_is_not_to_blame_whenever_that_is_heard_of() -> None:
    chosen = strategy()
    cast = {**OWN, "precision.autocast": "bfloat16"}
    for number, workers in ((1, 1), (2, 2)):
        chosen.learn(failed(number, {**cast, "loader.workers": workers}))
    chosen.learn(finished(3, cast, 0.3))
    assert [ranked.settings for ranked in chosen.ranked()] == [cast]


def test_what_others_measure_is_not_suggested_and_what_they_left_comes_first() -> None:
    candidates = ({**OWN, "precision.autocast": "bfloat16"}, {**OWN, "layout.channels_last": True})
    busy = {settings_key(candidates[0])}
    suggestion = strategy(candidates=candidates).suggest(busy=busy)
    assert suggestion is not None and suggestion.settings == candidates[1]
    fixed = {name: value for name, value in OWN.items() if name != "layout.channels_last"}
    space = SearchSpace(name="test", open={"layout.channels_last": (False, True)}, fixed=fixed, closed={})
    assert strategy(space=space).suggest(busy={settings_key(candidates[1])}) is None
    left = {**OWN, "threads.intra_op": 1}
    suggestion = strategy(candidates=candidates).suggest(orphans=[OWN, left])
    assert suggestion is not None and suggestion.settings == left
    suggestion = strategy(candidates=candidates).suggest(room=lambda settings: 1.0, orphans=[left])
    assert suggestion is None


def test_nothing_is_tried_twice_but_to_make_sure_and_nothing_forbidden() -> None:
    trials = search(strategy(planned_steps=10_000_000))
    new = [settings_key(trial.settings) for trial in trials if not trial.again]
    assert len(new) == len(set(new))
    assert settings_key(OWN) not in new
    assert all(SPACE.allows(trial.settings) for trial in trials)
    for number, trial in enumerate(trials):
        if trial.again:
            assert any(trial.settings == earlier.settings for earlier in trials[:number])


def test_what_is_far_slower_than_ones_own_settings_is_not_measured_again() -> None:
    """However bad the best of the trials is, there is nothing to make sure of: one's own settings are better."""
    chosen = strategy(planned_steps=1_000_000)
    slow: Settings = {**OWN, "threads.intra_op": 1}
    chosen.learn(finished(1, slow, -1.0))
    suggestion = chosen.suggest()
    assert suggestion is not None
    assert suggestion.settings != slow


def test_a_short_run_is_searched_less_and_nothing_is_compiled_for_it() -> None:
    long, short = search(strategy(planned_steps=1_000_000)), search(strategy(planned_steps=200))
    assert len(short) < 0.5 * len(long)
    assert not any(trial.settings["compile.mode"] == "default" for trial in short)
    assert any(trial.settings["compile.mode"] == "default" for trial in long)


def test_what_can_save_less_than_a_trial_costs_is_not_tried() -> None:
    assert strategy(planned_steps=5).suggest() is None
    suggestion = strategy(planned_steps=100_000).suggest()
    assert suggestion is not None
    assert suggestion.gain_seconds > suggestion.cost_seconds


def test_the_first_guess_is_tried_however_dear_a_trial_looks() -> None:
    """On a busy machine the baseline's start took long; only a trial shows what a trial takes."""
    guess: Settings = {**OWN, "precision.autocast": "bfloat16"}
    compiled: Settings = {**OWN, "compile.mode": "default"}
    dear = Economy(20, 200, 0.04, 3.0, 0.1, 500.0)
    chosen = Strategy(SPACE, OWN, [compiled, guess], DEVIATIONS, dear, 0)
    suggestion = chosen.suggest()
    assert suggestion is not None
    assert suggestion.settings == guess
    assert chosen.trial_seconds == 500.0
    chosen.learn(finished(1, guess, 0.3))
    assert chosen.trial_seconds == 3.0
    assert chosen.suggest() is not None  # now that a trial is cheap, others pay, too


def test_what_ranks_cost_is_told_by_trials_with_ranks() -> None:
    """Two ranks took half a minute to start where one process took eight seconds."""
    own: Settings = {**OWN, "parallel.world_size": 1}
    space = SearchSpace("test", {**SPACE.open, "parallel.world_size": (1, 2)}, {}, {})
    chosen = Strategy(space, own, [], dict.fromkeys(space.open, 0.3), economy(100_000), 0)
    for number, (ranks, seconds) in enumerate([(1, 8.0), (1, 8.0), (2, 30.0)], 1):
        settings: Settings = {**own, "parallel.world_size": ranks, "loader.workers": number - 1}
        chosen.learn(msgspec.structs.replace(finished(number, settings, 0.1), spent_seconds=seconds))
    orphans: list[Settings] = [{**own, "optimizer.fused": True, "parallel.world_size": ranks} for ranks in (1, 2)]
    costs = [suggestion.cost_seconds for one in orphans if (suggestion := chosen.suggest(orphans=[one]))]
    assert costs == [8.0, 30.0]


def test_what_does_not_fit_in_the_time_that_is_left_is_passed_over() -> None:
    compiled: Settings = {**OWN, "compile.mode": "default"}
    chosen = strategy(planned_steps=1_000_000, candidates=(compiled,))
    suggestion = chosen.suggest(room=lambda settings: 10.0)
    assert suggestion is not None
    assert suggestion.settings["compile.mode"] == "off"
    assert chosen.suggest(room=lambda settings: 1.0) is None
    assert chosen.out_of_time


def test_cheap_starts_come_before_compilations() -> None:
    trials = search(strategy(planned_steps=20_000))
    first = next((n for n, trial in enumerate(trials) if trial.settings["compile.mode"] == "default"), len(trials))
    assert first >= 2


def test_the_first_run_pays_for_a_cold_compilation_and_all_others_for_a_warm_one() -> None:
    chosen = strategy()
    compiled: Settings = {**OWN, "compile.mode": "default"}
    chosen.learn(finished(1, compiled, 0.1))
    assert chosen.compile_seconds(compiled) == pytest.approx((COMPILE_SECONDS, WARM_SHARE * COMPILE_SECONDS))
    # The same is compiled with other workers, so that its process finds it.
    warm: Settings = {**compiled, "loader.workers": 2}
    chosen.learn(finished(2, warm, 0.1, first_seconds=1.04))
    assert chosen.compile_seconds(compiled) == chosen.compile_seconds(warm) == pytest.approx((COMPILE_SECONDS, 1.0))
    for seconds in (2.0, 2.2):  # as processes of the proof show
        chosen.learn_warm_start(warm, seconds)
    assert chosen.compile_seconds(compiled) == pytest.approx((COMPILE_SECONDS, 2.0))
    assert chosen.compile_seconds(OWN) == pytest.approx((0.1, 0.1))


def test_a_compilation_weighs_the_less_the_more_runs_share_it() -> None:
    compiled: Settings = {**OWN, "compile.mode": "default"}
    totals = []
    for runs in (1, 20):
        chosen = Strategy(SPACE, OWN, [], DEVIATIONS, economy(1000, runs), 0)
        chosen.learn(finished(1, compiled, 0.5))
        totals.append(chosen.ranked()[0].total_seconds - economy(1000, runs).own_total_seconds)
    # 20 s and then 3 s, where 40 s of steps become some 26: one run hardly repays it, each of twenty does.
    assert totals[0] > 0 > totals[1]


def test_what_the_users_own_settings_compile_costs_no_other_settings_more() -> None:
    """The baseline compiled first, so that the process of a trial with the same model found it compiled."""
    own: Settings = {**OWN, "compile.mode": "default"}
    chosen = Strategy(SPACE, own, [], DEVIATIONS, economy(1000), 0)
    workers: Settings = {**own, "loader.workers": 2}
    chosen.learn(finished(1, workers, 0.1, first_seconds=1.04))
    assert chosen.compile_seconds(workers) == chosen.compile_seconds(own) == (0.1, 0.1)


def test_what_compiles_for_too_long_is_given_up_with_all_that_is_compiled_alike() -> None:
    chosen = strategy(planned_steps=1_000_000)
    compiled: Settings = {**OWN, "compile.mode": "default"}
    chosen.learn(failed(1, compiled, "slow start"))
    assert chosen.is_given_up({**compiled, "precision.autocast": "bfloat16"})
    assert not chosen.is_given_up(OWN)
    trials = search(chosen)
    assert trials and not any(trial.settings["compile.mode"] == "default" for trial in trials)


def test_what_else_may_have_hung_is_not_taken_for_a_compilation() -> None:
    chosen = strategy(planned_steps=1_000_000)
    chosen.learn(failed(1, {**OWN, "compile.mode": "default", "loader.workers": 2}, "slow start"))
    assert not chosen.is_given_up({**OWN, "compile.mode": "default"})
    # All else is known to work by now.
    others: Settings = {**OWN, "loader.workers": 2, "optimizer.fused": True}
    chosen.learn(finished(2, others, 0.0))
    chosen.learn(failed(3, {**others, "compile.mode": "default"}, "slow start"))
    assert chosen.is_given_up({**OWN, "compile.mode": "default"})


def test_what_pruning_costs_is_not_learned_from_compilations() -> None:
    chosen = strategy()
    compiled: Settings = {**OWN, "compile.mode": "default"}
    pruned: Settings = {**OWN, "model.sparsity": 0.5}
    assert chosen.compile_seconds(compiled) == (25.0, WARM_SHARE * 25.0)
    assert chosen.compile_seconds(pruned) == (0.0, 0.0)
    chosen.learn(finished(1, compiled, 0.1))
    assert chosen.compile_seconds(pruned) == (0.0, 0.0)


def test_what_harms_the_metric_is_ruled_out_with_all_that_contains_it() -> None:
    chosen = strategy()
    chosen.learn(finished(1, {**OWN, "precision.autocast": "bfloat16"}, 0.3))
    chosen.rule_out({"precision.autocast": "bfloat16"})
    assert chosen.ranked() == []
    assert not any(trial.settings["precision.autocast"] == "bfloat16" for trial in search(chosen))


def test_failed_trials_are_not_suggested_again() -> None:
    """Where everything fails, the search ends once each value has had its chances, alone and beside others."""
    chosen = strategy()
    seen: set[str] = set()
    while (suggestion := chosen.suggest()) is not None:
        assert settings_key(suggestion.settings) not in seen
        seen.add(settings_key(suggestion.settings))
        chosen.learn(failed(len(seen), suggestion.settings))
    changed_values = sum(len(values) - 1 for values in SPACE.open.values())
    assert 2 <= len(seen) <= 3 * changed_values


def test_trials_of_an_earlier_part_are_not_tried_again() -> None:
    earlier = search(strategy(), most=6)
    second = strategy()
    for trial in earlier:
        second.learn(trial)
    suggestion = second.suggest()
    assert suggestion is not None
    assert suggestion.again or suggestion.settings not in [trial.settings for trial in earlier]


def test_what_a_person_has_set_is_tried_once_however_short_the_run() -> None:
    fixed: Settings = {**OWN, "loader.workers": 2}
    closed = SearchSpace(name="t", open={}, fixed=fixed, closed={})
    chosen = Strategy(closed, OWN, [], dict.fromkeys(OWN, 0.3), economy(20), 0)
    suggestion = chosen.suggest()
    assert suggestion is not None
    assert suggestion.settings == fixed
    chosen.learn(finished(1, fixed, 0.3))
    assert chosen.suggest() is None
    assert not chosen.untried_left


def test_in_a_space_too_large_to_weigh_optuna_proposes() -> None:
    counts = tuple(range(200))
    larger = {**SPACE.open, "threads.intra_op": counts[1:], "loader.workers": counts}
    space = msgspec.structs.replace(SPACE, open=larger)
    chosen = Strategy(space, OWN, [], dict.fromkeys(OWN, 0.2), economy(100_000), 0)
    for number in range(1, 16):
        suggestion = chosen.suggest()
        assert suggestion is not None
        cast = 0.3 if suggestion.settings["precision.autocast"] == "bfloat16" else 0.0
        chosen.learn(finished(number, suggestion.settings, cast, suggestion.again))
    assert chosen.ranked()[0].settings["precision.autocast"] == "bfloat16"


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_readings_give_the_same_search(seed: int) -> None:
    def settings_of(trials: list[Trial]) -> list[Settings]:
        return [trial.settings for trial in trials]

    assert settings_of(search(strategy(), seed)) == settings_of(search(strategy(), seed))
