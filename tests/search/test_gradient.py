"""What is suggested: experts first, nothing twice but to make sure, nothing forbidden, only what pays."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import msgspec
import pytest

from autoaccel.records.messages import Failure, FailureKind, Turn
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.space import Forbidden, SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.gradient import FREE, KnowledgeGradient, Proofs, Suggestion, SuggestionBounds
from autoaccel.search.knowledge import Knowledge
from autoaccel.search.task import Prior, SearchTask
from autoaccel.statistics.runs import WARM_SHARE

BASELINE: Settings = {
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


def economy(planned_steps: int, trainings: int = 20) -> Economy:
    return Economy(trainings, planned_steps, 0.04, 3.0, 0.1, 3.0)


def gradient_of(task: SearchTask) -> KnowledgeGradient:
    return KnowledgeGradient(task, Knowledge(task))


def gradient_for(
    economy: Economy, candidates: Sequence[Settings] = (), space: SearchSpace = SPACE
) -> KnowledgeGradient:
    return gradient_of(SearchTask(space, BASELINE, economy, Prior(candidates, DEVIATIONS)))


def gradient(
    planned_steps: int = 100_000, candidates: tuple[Settings, ...] = (), space: SearchSpace = SPACE
) -> KnowledgeGradient:
    return gradient_for(economy(planned_steps), candidates, space)


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


def search(chosen: KnowledgeGradient, seed: int = 0, most: int = 200) -> list[Trial]:
    """Let the strategy search until it has enough; return its trials."""
    noise = random.Random(seed)
    trials: list[Trial] = []
    while len(trials) < most and isinstance(suggestion := chosen.suggest(), Suggestion):
        log = true_log(suggestion.settings) + noise.gauss(0, 0.05)
        trials.append(finished(len(trials) + 1, suggestion.settings, log, suggestion.again))
        chosen.knowledge.learn(trials[-1])
    return trials


BEST = max(true_log(dict(zip(SPACE.open, values, strict=True))) for values in itertools.product(*SPACE.open.values()))


def test_candidates_come_first_in_their_order() -> None:
    candidates: tuple[Settings, ...] = (
        {**BASELINE, "precision.autocast": "bfloat16"},
        {**BASELINE, "loader.workers": 2},
    )
    chosen = gradient(candidates=candidates)
    assert [chosen.suggest(), chosen.suggest()][0].settings == candidates[0]  # type: ignore[union-attr]  # None fails the test
    chosen = gradient(candidates=candidates)
    found = [
        suggestion.settings for suggestion in (chosen.suggest(), chosen.suggest()) if isinstance(suggestion, Suggestion)
    ]
    assert found == list(candidates)


def test_it_comes_close_to_the_best_with_a_fraction_of_the_space() -> None:
    missed = []
    for seed in range(10):
        chosen = gradient()
        assert len(search(chosen, seed)) <= 0.25 * SPACE.size
        missed.append(BEST - true_log(chosen.knowledge.ranked()[0].settings))
    assert sorted(missed)[5] <= 0.021
    assert sorted(missed)[8] <= 0.15


def test_a_value_that_fails_twice_and_never_worked_is_not_tried_again() -> None:
    chosen = gradient()
    bad, number = 0, 0
    for number in range(1, 60):
        suggestion = chosen.suggest()
        if not isinstance(suggestion, Suggestion):
            break
        settings = suggestion.settings
        fails = settings["precision.autocast"] == "bfloat16"
        bad += fails
        chosen.knowledge.learn(failed(number, settings) if fails else finished(number, settings, true_log(settings)))
    assert bad == 2
    assert number > 5


def test_what_worked_elsewhere_is_not_to_blame() -> None:
    chosen = gradient()
    chosen.knowledge.learn(finished(1, {**BASELINE, "precision.autocast": "bfloat16"}, 0.3))
    for number, workers in ((2, 1), (3, 2)):
        chosen.knowledge.learn(
            failed(number, {**BASELINE, "precision.autocast": "bfloat16", "loader.workers": workers})
        )
    found = [trial.settings for trial in search(chosen)]
    assert any(settings["precision.autocast"] == "bfloat16" for settings in found)


def test_what_worked_on_another_machine_is_not_to_blame_whenever_that_is_heard_of() -> None:
    chosen = gradient()
    cast = {**BASELINE, "precision.autocast": "bfloat16"}
    for number, workers in ((1, 1), (2, 2)):
        chosen.knowledge.learn(failed(number, {**cast, "loader.workers": workers}))
    chosen.knowledge.learn(finished(3, cast, 0.3))
    assert [ranked.settings for ranked in chosen.knowledge.ranked()] == [cast]


def test_what_others_measure_is_not_suggested_and_what_they_left_comes_first() -> None:
    candidates = ({**BASELINE, "precision.autocast": "bfloat16"}, {**BASELINE, "layout.channels_last": True})
    busy = {settings_key(candidates[0])}
    suggestion = gradient(candidates=candidates).suggest(SuggestionBounds(busy=busy))
    assert isinstance(suggestion, Suggestion) and suggestion.settings == candidates[1]
    fixed = {name: value for name, value in BASELINE.items() if name != "layout.channels_last"}
    space = SearchSpace(name="test", open={"layout.channels_last": (False, True)}, fixed=fixed, closed={})
    assert gradient(space=space).suggest(SuggestionBounds(busy={settings_key(candidates[1])})) == "nothing pays"
    left = {**BASELINE, "threads.intra_op": 1}
    suggestion = gradient(candidates=candidates).suggest(SuggestionBounds(orphans=[BASELINE, left]))
    assert isinstance(suggestion, Suggestion) and suggestion.settings == left
    suggestion = gradient(candidates=candidates).suggest(SuggestionBounds(lambda settings: 1.0, orphans=[left]))
    assert suggestion == "out of time"


def test_nothing_is_tried_twice_but_to_make_sure_and_nothing_forbidden() -> None:
    trials = search(gradient(planned_steps=10_000_000))
    new = [settings_key(trial.settings) for trial in trials if not trial.again]
    assert len(new) == len(set(new))
    assert settings_key(BASELINE) not in new
    assert all(SPACE.allows(trial.settings) for trial in trials)
    for number, trial in enumerate(trials):
        if trial.again:
            assert any(trial.settings == earlier.settings for earlier in trials[:number])


def test_what_is_far_slower_than_ones_own_settings_is_not_measured_again() -> None:
    """However bad the best of the trials is, there is nothing to make sure of: one's own settings are better."""
    chosen = gradient(planned_steps=1_000_000)
    slow: Settings = {**BASELINE, "threads.intra_op": 1}
    chosen.knowledge.learn(finished(1, slow, -1.0))
    suggestion = chosen.suggest()
    assert isinstance(suggestion, Suggestion)
    assert suggestion.settings != slow


def test_a_short_run_is_searched_less_and_nothing_is_compiled_for_it() -> None:
    long, short = search(gradient(planned_steps=1_000_000)), search(gradient(planned_steps=200))
    assert len(short) < 0.5 * len(long)
    assert not any(trial.settings["compile.mode"] == "default" for trial in short)
    assert any(trial.settings["compile.mode"] == "default" for trial in long)


def test_what_can_save_less_than_a_trial_costs_is_not_tried() -> None:
    assert gradient(planned_steps=5).suggest() == "nothing pays"
    suggestion = gradient(planned_steps=100_000).suggest()
    assert isinstance(suggestion, Suggestion)
    assert suggestion.gain_seconds > suggestion.cost_seconds


def test_the_first_guess_is_tried_however_dear_a_trial_looks() -> None:
    """On a busy machine the baseline's start took long; only a trial shows what a trial takes."""
    guess: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
    compiled: Settings = {**BASELINE, "compile.mode": "default"}
    dear = Economy(20, 2000, 0.04, 3.0, 0.1, 500.0)
    chosen = gradient_for(dear, [compiled, guess])
    suggestion = chosen.suggest()
    assert isinstance(suggestion, Suggestion)
    assert suggestion.settings == guess
    assert chosen.knowledge.trial_seconds == 500.0
    chosen.knowledge.learn(finished(1, guess, 0.3))
    assert chosen.knowledge.trial_seconds == 3.0
    assert isinstance(chosen.suggest(), Suggestion)  # now that a trial is cheap, others pay, too
    assert gradient_for(Economy(20, 200, 0.04, 3.0, 0.1, 500.0), [guess]).suggest() == "nothing pays"  # 160 s in all


def test_what_is_tried_must_repay_its_proof_as_well_and_be_provable() -> None:
    guess: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
    chosen = gradient_for(economy(1000), [guess])  # 800 s over all runs

    def tried(seconds: float, least_log: float = 0.0) -> bool:
        proofs = Proofs(lambda settings, log: seconds, lambda settings: least_log)
        return isinstance(gradient_for(economy(1000), [guess]).suggest(SuggestionBounds(proofs=proofs)), Suggestion)

    assert (tried(0.0), tried(60.0), tried(700.0), tried(0.0, 0.1), tried(0.0, 2.0)) == (True, True, False, True, False)
    chosen.knowledge.learn(finished(1, guess, 0.3))
    (worth,) = chosen.knowledge.ranked()
    assert chosen._worth(worth, Proofs(lambda settings, log: 50.0)) == pytest.approx(chosen._worth(worth, FREE) - 50.0)
    assert chosen._worth(worth, Proofs(least_log=lambda settings: 0.5)) == 0.0
    half = Proofs(lambda settings, log: 50.0, chance=lambda settings: 0.5)
    assert chosen._worth(worth, half) == pytest.approx(chosen._worth(worth, FREE) / 2 - 50.0)


def test_what_is_little_faster_must_repay_a_proof_of_many_pairs() -> None:
    """Of runs of 23 s, which 20 trainings make 63 s shorter in all, 149 s were searched, for proofs of two pairs."""
    guess: Settings = {**BASELINE, "precision.autocast": "bfloat16"}

    def tried(of_little: float, of_much: float) -> bool:
        proofs = Proofs(lambda settings, log: of_little if log < 1.0 else of_much)
        return isinstance(gradient_for(economy(1000), [guess]).suggest(SuggestionBounds(proofs=proofs)), Suggestion)

    assert (tried(60.0, 700.0), tried(700.0, 60.0)) == (True, False)


def test_a_trial_is_worth_less_where_the_evidence_may_not_decide() -> None:
    """Were it undecided, what is held would be left, and only the proof in vain."""
    held, further = ({**BASELINE, "precision.autocast": "bfloat16", "loader.workers": more} for more in (0, 2))

    def gain(chance: float) -> float:
        chosen = gradient_for(economy(1000), [])
        chosen.knowledge.learn(finished(1, held, 0.3))
        proofs = Proofs(lambda settings, log: 10.0, chance=lambda settings: 1.0 if settings == held else chance)
        return chosen._weigh([further], proofs)[0].gain_seconds

    assert gain(1.0) > gain(0.5) > gain(0.1) >= 0.0
    assert gain(1.0) > 2 * gain(0.5) > 0.0  # the proof is paid for in any case


def test_what_ranks_cost_is_told_by_trials_with_ranks() -> None:
    """Two ranks took half a minute to start where one process took eight seconds."""
    baseline: Settings = {**BASELINE, "parallel.world_size": 1}
    space = SearchSpace("test", {**SPACE.open, "parallel.world_size": (1, 2)}, {}, {})
    chosen = gradient_of(SearchTask(space, baseline, economy(100_000), Prior([], dict.fromkeys(space.open, 0.3))))
    for number, (ranks, seconds) in enumerate([(1, 8.0), (1, 8.0), (2, 30.0)], 1):
        settings: Settings = {**baseline, "parallel.world_size": ranks, "loader.workers": number - 1}
        chosen.knowledge.learn(msgspec.structs.replace(finished(number, settings, 0.1), spent_seconds=seconds))
    orphans: list[Settings] = [{**baseline, "optimizer.fused": True, "parallel.world_size": ranks} for ranks in (1, 2)]
    found = [chosen.suggest(SuggestionBounds(orphans=[one])) for one in orphans]
    costs = [suggestion.cost_seconds for suggestion in found if isinstance(suggestion, Suggestion)]
    assert costs == [8.0, 30.0]


def test_what_does_not_fit_in_the_time_that_is_left_is_passed_over() -> None:
    compiled: Settings = {**BASELINE, "compile.mode": "default"}
    chosen = gradient(planned_steps=1_000_000, candidates=(compiled,))
    suggestion = chosen.suggest(SuggestionBounds(lambda settings: 10.0))
    assert isinstance(suggestion, Suggestion)
    assert suggestion.settings["compile.mode"] == "off"
    assert chosen.suggest(SuggestionBounds(lambda settings: 1.0)) == "out of time"


def test_cheap_starts_come_before_compilations() -> None:
    trials = search(gradient(planned_steps=20_000))
    first = next((n for n, trial in enumerate(trials) if trial.settings["compile.mode"] == "default"), len(trials))
    assert first >= 2


def test_the_first_run_pays_for_a_cold_compilation_and_all_others_for_a_warm_one() -> None:
    chosen = gradient()
    compiled: Settings = {**BASELINE, "compile.mode": "default"}
    chosen.knowledge.learn(finished(1, compiled, 0.1))
    assert chosen.knowledge.compile_seconds(compiled) == pytest.approx((COMPILE_SECONDS, WARM_SHARE * COMPILE_SECONDS))
    # The same is compiled with other workers, so that its process finds it.
    warm: Settings = {**compiled, "loader.workers": 2}
    chosen.knowledge.learn(finished(2, warm, 0.1, first_seconds=1.04))
    assert (
        chosen.knowledge.compile_seconds(compiled)
        == chosen.knowledge.compile_seconds(warm)
        == pytest.approx((COMPILE_SECONDS, 1.0))
    )
    for seconds in (2.0, 2.2):  # as processes of the proof show
        chosen.knowledge.learn_warm_start(warm, seconds)
    assert chosen.knowledge.compile_seconds(compiled) == pytest.approx((COMPILE_SECONDS, 2.0))
    assert chosen.knowledge.compile_seconds(BASELINE) == pytest.approx((0.1, 0.1))
    extras = [chosen.knowledge.extra_start_seconds(one) for one in (compiled, warm, BASELINE)]
    assert extras == pytest.approx([1.9, 1.9, 0.0])  # of each process of a proof, over the baseline's


def test_a_compilation_weighs_the_less_the_more_runs_share_it() -> None:
    compiled: Settings = {**BASELINE, "compile.mode": "default"}
    totals = []
    for trainings in (1, 20):
        chosen = gradient_for(economy(1000, trainings))
        chosen.knowledge.learn(finished(1, compiled, 0.5))
        totals.append(chosen.knowledge.ranked()[0].total_seconds - economy(1000, trainings).baseline_total_seconds)
    # 20 s and then 3 s, where 40 s of steps become some 26: one run hardly repays it, each of twenty does.
    assert totals[0] > 0 > totals[1]


def test_what_the_users_own_settings_compile_costs_no_other_settings_more() -> None:
    """The baseline compiled first, so that the process of a trial with the same model found it compiled."""
    baseline: Settings = {**BASELINE, "compile.mode": "default"}
    chosen = gradient_of(SearchTask(SPACE, baseline, economy(1000), Prior([], DEVIATIONS)))
    workers: Settings = {**baseline, "loader.workers": 2}
    chosen.knowledge.learn(finished(1, workers, 0.1, first_seconds=1.04))
    assert chosen.knowledge.compile_seconds(workers) == chosen.knowledge.compile_seconds(baseline) == (0.1, 0.1)
    assert chosen.knowledge.extra_start_seconds(workers) == 0.0


def test_what_compiles_for_too_long_is_given_up_with_all_that_is_compiled_alike() -> None:
    chosen = gradient(planned_steps=1_000_000)
    compiled: Settings = {**BASELINE, "compile.mode": "default"}
    chosen.knowledge.learn(failed(1, compiled, "slow start"))
    assert chosen.knowledge.is_given_up({**compiled, "precision.autocast": "bfloat16"})
    assert not chosen.knowledge.is_given_up(BASELINE)
    trials = search(chosen)
    assert trials and not any(trial.settings["compile.mode"] == "default" for trial in trials)


def test_what_else_may_have_hung_is_not_taken_for_a_compilation() -> None:
    chosen = gradient(planned_steps=1_000_000)
    chosen.knowledge.learn(failed(1, {**BASELINE, "compile.mode": "default", "loader.workers": 2}, "slow start"))
    assert not chosen.knowledge.is_given_up({**BASELINE, "compile.mode": "default"})
    # All else is known to work by now.
    others: Settings = {**BASELINE, "loader.workers": 2, "optimizer.fused": True}
    chosen.knowledge.learn(finished(2, others, 0.0))
    chosen.knowledge.learn(failed(3, {**others, "compile.mode": "default"}, "slow start"))
    assert chosen.knowledge.is_given_up({**BASELINE, "compile.mode": "default"})


def test_what_pruning_costs_is_not_learned_from_compilations() -> None:
    chosen = gradient()
    compiled: Settings = {**BASELINE, "compile.mode": "default"}
    pruned: Settings = {**BASELINE, "model.sparsity": 0.5}
    assert chosen.knowledge.compile_seconds(compiled) == (25.0, WARM_SHARE * 25.0)
    assert chosen.knowledge.compile_seconds(pruned) == (0.0, 0.0)
    chosen.knowledge.learn(finished(1, compiled, 0.1))
    assert chosen.knowledge.compile_seconds(pruned) == (0.0, 0.0)


def test_what_harms_the_metric_is_ruled_out_with_all_that_contains_it() -> None:
    chosen = gradient()
    chosen.knowledge.learn(finished(1, {**BASELINE, "precision.autocast": "bfloat16"}, 0.3))
    chosen.knowledge.rule_out({"precision.autocast": "bfloat16"})
    assert chosen.knowledge.ranked() == []
    assert not any(trial.settings["precision.autocast"] == "bfloat16" for trial in search(chosen))


def test_failed_trials_are_not_suggested_again() -> None:
    """Where everything fails, the search ends once each value has had its chances, alone and beside others."""
    chosen = gradient()
    seen: set[str] = set()
    while isinstance(suggestion := chosen.suggest(), Suggestion):
        assert settings_key(suggestion.settings) not in seen
        seen.add(settings_key(suggestion.settings))
        chosen.knowledge.learn(failed(len(seen), suggestion.settings))
    changed_values = sum(len(values) - 1 for values in SPACE.open.values())
    assert 2 <= len(seen) <= 3 * changed_values


def test_trials_of_an_earlier_part_are_not_tried_again() -> None:
    earlier = search(gradient(), most=6)
    second = gradient()
    for trial in earlier:
        second.knowledge.learn(trial)
    suggestion = second.suggest()
    assert isinstance(suggestion, Suggestion)
    assert suggestion.again or suggestion.settings not in [trial.settings for trial in earlier]


def test_what_a_person_has_set_is_tried_once_however_short_the_run() -> None:
    fixed: Settings = {**BASELINE, "loader.workers": 2}
    closed = SearchSpace(name="t", open={}, fixed=fixed, closed={})
    chosen = gradient_for(economy(20), space=closed)
    suggestion = chosen.suggest()
    assert isinstance(suggestion, Suggestion)
    assert suggestion.settings == fixed
    chosen.knowledge.learn(finished(1, fixed, 0.3))
    assert chosen.suggest() == "everything tried"


@pytest.mark.long
def test_in_a_space_too_large_to_weigh_optuna_proposes() -> None:
    counts = tuple(range(200))
    larger = {**SPACE.open, "threads.intra_op": counts[1:], "loader.workers": counts}
    space = msgspec.structs.replace(SPACE, open=larger)
    chosen = gradient_of(SearchTask(space, BASELINE, economy(100_000), Prior([], dict.fromkeys(BASELINE, 0.2))))
    for number in range(1, 16):
        suggestion = chosen.suggest()
        assert isinstance(suggestion, Suggestion)
        cast = 0.3 if suggestion.settings["precision.autocast"] == "bfloat16" else 0.0
        chosen.knowledge.learn(finished(number, suggestion.settings, cast, suggestion.again))
    assert chosen.knowledge.ranked()[0].settings["precision.autocast"] == "bfloat16"


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_readings_give_the_same_search(seed: int) -> None:
    def settings_of(trials: list[Trial]) -> list[Settings]:
        return [trial.settings for trial in trials]

    assert settings_of(search(gradient(), seed)) == settings_of(search(gradient(), seed))
