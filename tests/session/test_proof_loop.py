"""One candidate after the other, on a bench whose truth is known: what is proven in the end, and what is left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.records.contender import ContenderResult
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure
from autoaccel.records.progress import PairFinished, TrialStarted
from autoaccel.records.recipe import StopReason
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.runs.run_folder import RunFolder
from autoaccel.search.gradient import FREE, Proofs
from autoaccel.search.loop import Reserve, Search
from autoaccel.session.lost_values import lost_values
from autoaccel.statistics.comparison import SHARED_DRIFT
from tests.session.known_bench import (
    BASELINE,
    CAST,
    RANKS,
    SPACE,
    TRIAL_SECONDS,
    WORKERS,
    KnownBench,
    Tuned,
    tune,
)

HOLDS = RoundingEvidence("holds", "", 64, 3, 8)
FURTHER, WITHOUT_IT = "looking for something better", "continuing without it"

Play = Callable[..., Tuned]


@pytest.fixture
def play(tmp_path: Path, machine: Machine) -> Play:
    """Return what searches and proves on a bench, in a folder of its own."""

    def played(bench: KnownBench, **asked: Any) -> Tuned:
        return tune(bench, tmp_path, asked.pop("machine", machine), **asked)

    return played


def test_the_fastest_is_proven_where_nothing_speaks_against_it(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.2}
    tuned = play(KnownBench(logs))
    assert tuned.found == {**CAST, **WORKERS, **RANKS}
    assert [(one.number, one.result) for one in tuned.proofs] == [(1, "proven")]


def slowed(**truth: Any) -> KnownBench:
    """Return one with ranks that all trials flatter: they look 1.5x as fast, and are 0.78x."""
    logs = {"precision.autocast=bfloat16": 0.5, "parallel.world_size=2": -0.25}
    return KnownBench(logs, flattered={"parallel.world_size=2": 0.65}, **truth)


def test_a_proven_recipe_without_a_setting_that_slows_it_down_is_proven_and_takes_its_place(play: Play) -> None:
    tuned = play(slowed())
    assert tuned.found == CAST
    assert tuned.kept == [{**CAST, **RANKS}, CAST]
    assert [(one.number, one.result) for one in tuned.proofs] == [(1, "proven"), (2, "proven")]  # they share one error
    assert not tuned.open


def seemingly_slowed(**truth: Any) -> KnownBench:
    """Return one with ranks that trials flatter, and whose contribution of 0.97 may be 1.07."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": -0.3, "parallel.world_size=2": -0.03}
    return KnownBench(logs, flattered={"parallel.world_size=2": 0.3}, **truth)


def seemingly_slowed_by_workers(log: float = -0.03) -> KnownBench:
    """Return one with loader workers, no riskier than the rest, that trials flatter; they contribute 0.88 to 1.07."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": log, "parallel.world_size=2": -1.0}
    return KnownBench(logs, flattered={"loader.workers=2": 0.3})


def test_a_setting_that_only_seems_to_slow_the_recipe_down_goes_if_that_saves_more_than_a_proof_takes(
    play: Play,
) -> None:
    """Each of 1000 runs is 0.2 s shorter; the proof takes about 70 s."""
    assert play(seemingly_slowed_by_workers()).found == CAST


def test_otherwise_it_stays_and_nothing_is_left_open(play: Play) -> None:
    """Each of 100 runs is 0.2 s shorter; the proof takes about 70 s."""
    tuned = play(seemingly_slowed_by_workers(), trainings=100)
    assert tuned.found == {**CAST, **WORKERS}
    assert tuned.kept == [tuned.found] and not tuned.open


def test_what_slows_the_recipe_down_beyond_doubt_stays_as_well_where_a_proof_costs_more_than_it_saves(
    play: Play,
) -> None:
    assert play(seemingly_slowed_by_workers(-0.12), trainings=60).found == {**CAST, **WORKERS}


def test_without_time_for_that_nothing_is_left_open(play: Play) -> None:
    tuned = play(seemingly_slowed(budget_seconds=200.0))
    assert tuned.found == {**CAST, **RANKS}
    assert not tuned.open


def test_a_setting_that_slows_the_recipe_down_stays_where_what_is_left_is_not_proven(play: Play) -> None:
    tuned = play(slowed(not_faster=(CAST,)))
    assert tuned.found == {**CAST, **RANKS}
    assert tuned.refused == [CAST]


def test_without_time_to_prove_it_the_recipe_without_what_slows_it_down_is_left_open(play: Play) -> None:
    tuned = play(slowed(budget_seconds=200.0))
    assert tuned.found == {**CAST, **RANKS}
    assert tuned.open == [(CAST, "incomplete")] and tuned.left_open == CAST


CUT_SHORT = TRIAL_SECONDS + 1
"""Of a search that has time for its first candidate only, bfloat16 with loader workers."""

FIRST: Settings = {**CAST, **WORKERS}


def slower_first(**truth: Any) -> KnownBench:
    """Return one whose first candidate is not the best, and no time to tell what each setting contributes."""
    logs = {"precision.autocast=bfloat16": 0.8, "loader.workers=2": -0.2, "parallel.world_size=2": -1.0}
    return KnownBench(truth.pop("logs", logs), explaining_seconds=math.inf, **truth)


def test_a_search_that_has_found_nothing_goes_on_after_its_share(play: Play) -> None:
    """Half of a budget was left, and the one setting that all three trials had made them slow."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": -1.0, "parallel.world_size=2": -1.0}
    tuned = play(slower_first(logs=logs), search_seconds=CUT_SHORT)
    assert tuned.tried[0] == FIRST
    assert tuned.found == CAST


def test_time_that_is_left_finds_and_proves_what_is_better(play: Play) -> None:
    """A U-Net's three trials and its proof took half of its budget, and all else remained untried."""
    tuned = play(slower_first(), search_seconds=CUT_SHORT)
    assert tuned.found == CAST
    assert tuned.tried[0] == FIRST
    assert FURTHER in tuned.searches[-1] and tuned.refused == []


def test_a_short_run_is_not_searched_for_what_takes_more_pairs_to_prove_than_it_saves(play: Play) -> None:
    """A run of 23 s was searched for 149 s, for gains of a fifth whose proof was taken to need two pairs."""
    little = KnownBench({"precision.autocast=bfloat16": -0.3, "loader.workers=2": 0.1, "parallel.world_size=2": -0.3})
    tuned = play(little, trainings=20)  # 23 s in all
    assert not tuned.found and len(tuned.tried) <= 2
    assert little.clock.spent < 3 * TRIAL_SECONDS
    assert play(KnownBench(little.logs), trainings=400).found == WORKERS  # 460 s


Spied = list[tuple[Search, Reserve]]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Spied:
    """Return a list of each search that is begun or continued, with what tells the time that it must leave."""
    run, begun = Search.run, Spied()

    def noted(
        search: Search, reserve: Reserve, begin: Callable[[Settings], None] | None = None, proofs: Proofs = FREE
    ) -> StopReason:
        begun.append((search, reserve))
        return run(search, reserve, begin, proofs)

    monkeypatch.setattr(Search, "run", noted)
    return begun


def test_what_a_proof_has_shown_of_settings_counts_in_the_search_after_it(play: Play, searches: Spied) -> None:
    """Nothing seemed better than their lucky trial; elsewhere three trials measured again what was proven."""
    tuned = play(slower_first(flattered={"loader.workers=2": 0.5}), search_seconds=CUT_SHORT)
    first, *further = tuned.tried
    assert first == FIRST and first not in further
    search, _ = searches[-1]
    [known] = [one for one in search.ranking.candidates() if changed(one.settings, BASELINE) == first]
    assert known.log_speedup == pytest.approx(0.6, abs=0.2)  # its trial alone said 1.1


def test_for_another_trial_of_what_is_proven_there_is_no_time(play: Play, searches: Spied) -> None:
    """A GPT-2's recipe waited 43 seconds for one, as there was no time for anything else."""
    bench = slower_first()
    play(bench, search_seconds=CUT_SHORT)
    before, after = (reserve({**BASELINE, **FIRST}, None) for _, reserve in searches)
    assert before < bench.budget_seconds and after == math.inf


def test_a_further_search_in_which_nothing_is_tried_is_not_told(play: Play, machine: Machine, searches: Spied) -> None:
    """What changes no number is proven in seconds; the runs that all else needs do not fit into what is left."""
    old = msgspec.structs.replace(machine, cpu=msgspec.structs.replace(machine.cpu, features=()))  # without bfloat16
    bench = slower_first(logs={"loader.workers=2": 0.5, "precision.autocast=bfloat16": 0.1}, spent_seconds=495.0)
    tuned = play(bench, machine=old, search_seconds=CUT_SHORT)
    assert tuned.found == WORKERS
    assert tuned.tried == [WORKERS]
    assert len(searches) == 2 and len(tuned.searches) == 1


def test_what_is_proven_is_kept_before_anything_better_is_looked_for(play: Play) -> None:
    assert play(slower_first(), search_seconds=CUT_SHORT).kept == [FIRST, CAST]


def test_what_is_refused_is_not_kept(play: Play) -> None:
    tuned = play(slowed(not_faster=({**CAST, **RANKS},)))
    assert {**CAST, **RANKS} in tuned.refused
    assert tuned.kept[-1] == tuned.found and {**CAST, **RANKS} not in tuned.kept


def test_a_recipe_without_what_slows_it_down_is_kept_in_its_place(play: Play) -> None:
    assert play(slowed()).kept == [{**CAST, **RANKS}, CAST]


def test_without_such_time_the_search_has_ended(play: Play) -> None:
    """One proof takes about 75 seconds."""
    tuned = play(slower_first(budget_seconds=200.0), search_seconds=CUT_SHORT)
    assert tuned.found == FIRST
    assert tuned.tried == [FIRST] and len(tuned.searches) == 1


def test_what_was_proven_stays_where_what_seems_better_is_not(play: Play) -> None:
    tuned = play(slower_first(not_faster=(CAST,)), search_seconds=CUT_SHORT)
    assert tuned.found == FIRST
    assert tuned.refused == [CAST]


def test_of_two_that_are_proven_the_faster_is_the_recipe(play: Play) -> None:
    """One without workers seems faster, and is proven, but is not."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1, "parallel.world_size=2": -1.0}
    bench = slower_first(logs=logs, flattered={"precision.autocast=bfloat16": 0.4, "loader.workers=2": -0.4})
    tuned = play(bench, search_seconds=CUT_SHORT)
    assert tuned.found == FIRST
    assert tuned.kept == [FIRST]
    assert [(one.number, one.result) for one in tuned.proofs] == [(1, "proven"), (2, "proven")]


def test_a_contribution_that_is_only_estimated_leaves_nothing_out(play: Play) -> None:
    assert play(slowed(explaining_seconds=math.inf)).found == {**CAST, **RANKS}


def test_what_a_person_has_asked_for_stays_though_it_slows_the_recipe_down(play: Play) -> None:
    casts = {"precision.autocast": SPACE.open["precision.autocast"]}
    space = SearchSpace(name="test", open=casts, fixed={**SPACE.fixed, "loader.workers": 0, **RANKS}, closed={})
    assert play(slowed(), space=space).found == {**CAST, **RANKS}


def test_a_recipe_that_further_pairs_do_not_confirm_is_withdrawn(play: Play, tmp_path: Path) -> None:
    fixed = {name: value for name, value in BASELINE.items() if name not in CAST}
    space = msgspec.structs.replace(SPACE, open={"precision.autocast": ("off", "bfloat16")}, fixed=fixed)
    tuned = play(KnownBench({"precision.autocast=bfloat16": 0.35}, lucky_pairs=2), space=space)
    assert tuned.kept == tuned.refused == [CAST]
    assert tuned.found is None
    assert not RunFolder(tmp_path).recipe.exists()


def test_what_is_left_of_a_recipe_does_not_take_its_place_where_it_is_clearly_slower(play: Play) -> None:
    """A contribution was misread: without the setting the recipe is a third slower."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.4}
    tuned = play(KnownBench(logs, misread={"loader.workers=2": -0.8}))
    assert tuned.found == {**CAST, **WORKERS}
    assert [changed(one.settings, BASELINE) for one in tuned.proofs] == [{**CAST, **WORKERS}, CAST]
    assert tuned.proofs[-1].result == "proven"


def test_what_is_left_of_a_recipe_is_one_of_the_three_that_a_run_tries_to_prove(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.2}
    refuted = ({**CAST, **WORKERS, **RANKS}, {**CAST, **WORKERS})
    space = msgspec.structs.replace(SPACE, risks={"loader.workers": "redraws"})  # nothing is exact, which came last
    tuned = play(KnownBench(logs, not_faster=refuted, misread={"parallel.world_size=2": -0.8}), space=space)
    assert tuned.refused == list(refuted) and tuned.found == {**CAST, **RANKS}
    assert [one.result for one in tuned.proofs].count("proven") == 1
    assert tuned.open == [(CAST, "incomplete")]  # a run that is resumed may prove it


def test_settings_that_add_nothing_are_left_out(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.0, "parallel.world_size=2": 0.005}
    assert play(KnownBench(logs)).found == CAST


def test_after_a_drop_the_rival_without_what_dropped_it_is_proven(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.2, "parallel.world_size=2": 0.2}
    tuned = play(KnownBench(logs, drops=RANKS))
    assert tuned.found == {**CAST, **WORKERS}
    assert {trial.settings["parallel.world_size"] for trial in tuned.result.trials if not trial.feasible} == {2}


def test_what_changes_no_number_in_what_dropped_the_metric_is_proven_though_it_was_never_tried_alone(
    play: Play,
) -> None:
    logs = {"precision.autocast=bfloat16": 0.2, "loader.workers=2": 0.5}
    tuned = play(KnownBench(logs, drops=CAST), trials=1)
    assert tuned.tried == [FIRST] and tuned.refused == [FIRST]
    assert tuned.found == WORKERS


def test_the_last_that_a_run_tries_to_prove_changes_no_number_if_such_a_one_is_left(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.2}
    tuned = play(KnownBench(logs, not_faster=({**CAST, **WORKERS, **RANKS}, {**CAST, **WORKERS})))
    assert len(tuned.refused) == 2
    assert tuned.found == WORKERS  # bfloat16 with ranks seems faster


def test_what_diverges_in_its_proof_is_refused_and_the_next_is_proven(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3}
    tuned = play(KnownBench(logs, diverges=CAST))
    assert tuned.found == WORKERS
    assert all("precision.autocast" in change for change in tuned.refused)
    assert tuned.proofs[-1].number == 1  # no speed was judged, so that no error was spent
    trials = tuned.result.trials
    assert len([trial for trial in trials if isinstance(trial.outcome, Failure)]) == len(tuned.refused)
    values = {(one.knob, one.value): one for one in lost_values(SPACE, BASELINE, {**BASELINE, **WORKERS}, trials)}
    why = values["precision.autocast", "bfloat16"]
    assert (why.because, why.message) == ("failed in its proof", "its loss is no longer a finite number")


def test_an_exact_winner_that_diverges_is_refused_as_well(play: Play) -> None:
    """One of 1.55x was handed back. Only itself is out: what it shares with others changes no number."""
    logs = {"precision.autocast=bfloat16": 0.2, "loader.workers=2": 0.5}
    assert play(KnownBench(logs, diverges=WORKERS)).found == CAST


def test_a_metric_that_scatters_too_much_to_tell_leaves_what_changes_no_number(play: Play) -> None:
    """Whatever changes numbers scatters as much, so that nothing else of that kind is tried."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1, "parallel.world_size=2": 0.3}
    tuned = play(KnownBench(logs, scatter=0.05))
    assert tuned.found == WORKERS
    assert [result for _, result in tuned.open] in (["metric unclear"], ["metric unclear"] * 2)
    assert len(tuned.refused) <= 2  # of each risk one


def test_what_updates_can_tell_is_proven_without_the_ranks_whose_runs_scatter_too_much(play: Play) -> None:
    """A BERT that begins to learn late: two ranks and bfloat16 were open, and bfloat16 alone was never proven."""
    logs = {"precision.autocast=bfloat16": 0.4, "parallel.world_size=2": 0.3}
    space = msgspec.structs.replace(SPACE, risks={"parallel.world_size": "rounding"})
    tuned = play(KnownBench(logs, scatter=0.05, updates=HOLDS), space=space)
    assert tuned.found == CAST
    assert tuned.open == [({**CAST, **RANKS}, "metric unclear")] and len(tuned.refused) == 1


def test_what_runs_may_not_decide_comes_after_its_part_that_updates_tell(play: Play) -> None:
    """An image pipeline with 360 evaluation samples spent 71 s on two ranks whose runs decided nothing."""
    logs = {"precision.autocast=bfloat16": 0.4, "parallel.world_size=2": 0.3}
    space = msgspec.structs.replace(SPACE, risks={"parallel.world_size": "rounding"})
    open_ = play(KnownBench(logs, scatter=0.05, eval_samples=80, updates=HOLDS), space=space)
    assert open_.kept[0] == open_.found == CAST
    assert open_.refused == [{**CAST, **RANKS}]  # 1,000 trainings repay the attempt


def test_what_was_less_sure_takes_its_place_where_runs_decide(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.4, "parallel.world_size=2": 0.3}
    tuned = play(KnownBench(logs, eval_samples=80, updates=HOLDS))
    assert tuned.kept[0] == CAST and tuned.found == {**CAST, **RANKS}


def test_what_may_not_be_decided_is_not_begun_where_few_trainings_follow(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.4, "parallel.world_size=2": 0.3}
    tuned = play(KnownBench(logs, scatter=0.05, eval_samples=80, updates=HOLDS), trainings=30)
    assert tuned.found and not RANKS.items() <= tuned.found.items() and not tuned.refused


def test_how_much_one_candidates_runs_scatter_tells_of_the_next(play: Play) -> None:
    """A MobileNet spent 176 s on runs of a first candidate and 102 s on a second, which scattered as much."""
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.3}
    space = msgspec.structs.replace(SPACE, risks={"parallel.world_size": "rounding"})
    tuned = play(KnownBench(logs, scatter=0.05, updates=HOLDS), space=space)
    assert len(tuned.refused) == 1 and tuned.found == {**CAST, **WORKERS}


def test_after_a_metric_that_is_open_the_search_goes_on_with_what_changes_no_number(play: Play) -> None:
    """A ResNet at its first hundred steps: the run ended with four of ten minutes unspent."""
    tuned = play(KnownBench({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1}, scatter=0.02))
    assert tuned.found == WORKERS
    assert "precision.autocast" in tuned.open[0][0]
    readings = Counter(settings_key(trial.settings) for trial in tuned.result.trials)
    assert max(readings.values()) <= 4  # then what is left of their processes' luck decides nothing
    last = max(number for number, change in enumerate(tuned.tried) if CAST.items() <= change.items())
    assert tuned.tried[last + 1 :] == [WORKERS]
    assert tuned.continued_with(WITHOUT_IT) == WORKERS


def test_a_metric_that_scatters_too_much_leaves_what_only_rounds_if_updates_tell(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.3}
    tuned = play(KnownBench(logs, scatter=0.05, updates=HOLDS))
    assert tuned.found == {**CAST, **WORKERS}
    assert tuned.refused == [{**CAST, **WORKERS, **RANKS}]


def test_what_does_more_than_round_is_out_with_all_that_contains_it_until_runs_may_tell(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1}
    too_large = RoundingEvidence("too large", "its errors", 64, 3, 8)
    tuned = play(KnownBench(logs, scatter=0.02, updates=too_large))
    assert tuned.found == WORKERS
    assert len(tuned.refused) == 1 and CAST.items() <= tuned.refused[0].items()
    assert [result for _, result in tuned.open] == ["more than rounding"]


def test_what_there_is_no_time_to_prove_any_more_is_left_over(play: Play) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": -1.0, "parallel.world_size=2": 0.2}
    tuned = play(KnownBench(logs, drops=RANKS, budget_seconds=200.0, spent_seconds=70.0))
    assert tuned.found is None and not tuned.open
    assert tuned.left_open == CAST


def test_an_open_proof_of_an_earlier_part_comes_first_and_with_its_number(
    play: Play, tmp_path: Path, machine: Machine
) -> None:
    logs = {"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3}
    assert play(KnownBench(logs)).found == {**CAST, **WORKERS}
    later, folder = tmp_path / "later", RunFolder(tmp_path)
    later.mkdir()
    resumed = RunFolder(later)
    resumed.save_trials(folder.load_trials())
    # What is left open is not what would be proven first.
    refuted, left = {**BASELINE, **CAST, **WORKERS}, {**BASELINE, **RANKS, **WORKERS}
    resumed.add_contender(ContenderResult(refuted, 1, "not faster"))
    resumed.add_contender(ContenderResult(left, 2, "metric unclear"))
    again = tune(KnownBench(logs, not_faster=({**RANKS, **WORKERS},)), later, machine)
    begun = [type(event) for event in again.events if isinstance(event, PairFinished | TrialStarted)]
    assert begun[0] is PairFinished
    first, second = again.proofs[2:]  # after those of the earlier part
    assert (first.settings, first.number) == (left, 2)
    assert second.number == 3 and second.settings not in (refuted, left)


MEMORY: Settings = {"memory.keep_freed": True}
WITH_MEMORY = SearchSpace(
    name="test",
    open={"memory.keep_freed": (False, True), "loader.workers": (0, 2)},
    fixed={"threads.intra_op": 4, "parallel.world_size": 1, "precision.autocast": "off", "memory.allocator": "system"},
    closed={},
)


@pytest.mark.parametrize(("system", "found"), [(0.0, None), (0.3, MEMORY)])
@pytest.mark.parametrize("trials", [1, None])
def test_on_a_machine_that_drifts_what_spares_the_system_is_proven_alone(
    play: Play, system: float, found: Settings | None, trials: int | None
) -> None:
    """Both together are 1.17x as fast, which no number of pairs shows with room for another hour."""
    bench = KnownBench({"memory.keep_freed=True": 0.12, "loader.workers=2": 0.04}, system=system)
    tuned = play(bench, space=WITH_MEMORY, drift=SHARED_DRIFT, trials=trials)
    assert tuned.tried[0] == {**MEMORY, **WORKERS}
    assert tuned.found == found
    if found and trials is None:  # it was measured alone: no proof of both is begun before
        assert changed(tuned.proofs[0].settings, BASELINE) == found


def test_what_spares_the_system_is_no_evidence_where_steps_wait_for_a_gpu(play: Play) -> None:
    bench = KnownBench({"memory.keep_freed=True": 0.12, "loader.workers=2": 0.04}, system=0.3)
    bench.facts = msgspec.structs.replace(bench.facts, device="cuda")
    assert play(bench, space=WITH_MEMORY, drift=SHARED_DRIFT).found is None
