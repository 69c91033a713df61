"""How long a trial may take, by what it could still win and by its share of the budget."""

from __future__ import annotations

import math

import pytest

from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.search.economy import Economy
from autoaccel.search.knowledge import Knowledge
from autoaccel.search.patience import COMPILE_SHARE, Patience, enough_for, max_trial_seconds, patience_for
from autoaccel.search.task import Prior, SearchTask

BASELINE: Settings = {"precision.autocast": "off", "compile.mode": "off"}
COMPILED: Settings = {**BASELINE, "compile.mode": "default"}
TRIAL_SECONDS, BUDGET_SECONDS = 5.0, 600.0


def knowledge(planned_steps: int, trainings: int, wished: bool = False) -> Knowledge:
    compiling = ("off", "default")
    space = SearchSpace(
        name="test",
        open={"precision.autocast": ("off", "bfloat16")} | ({} if wished else {"compile.mode": compiling}),
        fixed={"compile.mode": "default"} if wished else {},
        closed={},
    )
    return Knowledge(
        SearchTask(space, BASELINE, economy(planned_steps, trainings), Prior([], dict.fromkeys(BASELINE, 0.2)))
    )


def economy(planned_steps: int, trainings: int) -> Economy:
    return Economy(trainings, planned_steps, 0.1, 3.0, 0.0, TRIAL_SECONDS)


def patience(settings: Settings, planned_steps: int, trainings: int, wished: bool = False) -> Patience:
    return patience_for(settings, knowledge(planned_steps, trainings, wished), BUDGET_SECONDS)


def test_a_compilation_has_a_share_of_the_budget_however_long_the_run() -> None:
    found = patience(COMPILED, planned_steps=1_000_000, trainings=20)
    assert found.seconds == pytest.approx(TRIAL_SECONDS + COMPILE_SHARE * BUDGET_SECONDS)
    assert (found.kind, found.why) == ("slow start", "compiling takes longer than 20% of the budget")


def test_a_compilation_has_as_long_as_it_could_win_back_over_all_runs() -> None:
    once, often = (patience(COMPILED, planned_steps=1000, trainings=trainings) for trainings in (1, 20))
    # Two deviations make steps of 100 s some 70 s.
    assert TRIAL_SECONDS + 20 < once.seconds < TRIAL_SECONDS + 50
    assert once.why == "compiling takes longer than it could save over all trainings"
    assert once.seconds < often.seconds


def test_a_model_that_will_compile_for_longer_than_it_may_is_not_begun() -> None:
    task = knowledge(1_000_000, 20).task
    for seconds, begun in ((70.0, True), (135.0, False)):
        prior = Prior([], dict.fromkeys(BASELINE, 0.2), compile_seconds=seconds)
        known = Knowledge(SearchTask(task.space, BASELINE, task.economy, prior))
        assert known.cost_seconds(COMPILED) == pytest.approx(TRIAL_SECONDS + seconds)
        assert (known.cost_seconds(COMPILED) <= max_trial_seconds(COMPILED, known, BUDGET_SECONDS)) is begun


def test_what_a_person_has_set_may_compile_for_as_long_as_a_run() -> None:
    found = patience(COMPILED, planned_steps=10_000, trainings=1, wished=True)
    assert found.seconds == pytest.approx(TRIAL_SECONDS + 1003)
    assert found.kind == "slow start"


def test_what_compiles_nothing_may_be_ten_times_as_slow() -> None:
    cast: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
    found = patience(cast, planned_steps=10_000, trainings=20)
    assert (found.seconds, found.kind) == (11 * TRIAL_SECONDS, "hung")


def test_a_trial_that_would_be_given_up_in_the_end_is_not_begun() -> None:
    def most(settings: Settings, wished: bool = False) -> float:
        return max_trial_seconds(settings, knowledge(10_000, 20, wished), BUDGET_SECONDS)

    assert most(COMPILED) == pytest.approx(TRIAL_SECONDS + COMPILE_SHARE * BUDGET_SECONDS)
    assert most(BASELINE) == most(COMPILED, wished=True) == math.inf


def test_a_trial_that_may_rid_the_training_of_its_long_steps_is_not_given_up() -> None:
    """By the middle of its turns it is slower than the user's own settings; a run of it is much shorter."""
    enough = enough_for({**BASELINE, "precision.autocast": "bfloat16"}, knowledge(100_000, 20))
    slower = [(1.0, 1.5), (1.0, 1.9), (1.0, 1.6), (1.0, 1.8)]
    assert enough([*slower, (1.0, 1.7)])
    assert not enough([*slower, (9.0, 1.7)])
