"""How a budget is divided: from numbers alone."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from autoaccel.records.progress import StageName
from autoaccel.runs.clock import Stages
from autoaccel.runs.limits import PROFILE_SHARE
from autoaccel.runs.plan import Costs, Plan, enough_budget, expected_continuation, plan_stages, too_small
from autoaccel.units import parse_duration

STEPS = (0.02, 0.3, 2.0, 5.0)
BUDGETS = (60.0, 180.0, 240.0, 480.0, 600.0)


def costs_of(step_seconds: float, budget: float) -> Costs:
    """Return what a training costs that starts in 3 s, warms up in three steps and takes turns of a step or 0.2 s."""
    ready, turn = 3 + 3 * step_seconds, max(step_seconds, 0.2)
    return Costs(
        budget=budget,
        hardware=7.0,
        baseline=ready + 4 * turn,
        profile=ready + 3.5 * step_seconds,
        trial=ready + 1.6 * 4 * turn,
        pair=2 * ready + 2 * 4 * turn,
        min_pair=2 * ready + 1.6 * 4 * turn,
        min_pairs=2,
        pairs=6,
        min_evidence=30 * step_seconds,
        evidence=3000 * step_seconds,
    )


def plan_of(step_seconds: float, budget: float) -> Plan:
    plan = plan_stages(costs_of(step_seconds, budget))
    assert plan is not None
    return plan


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("step_seconds", STEPS)
def test_a_plan_fits_its_budget_and_holds_what_a_proven_recipe_takes(step_seconds: float, budget: float) -> None:
    costs = costs_of(step_seconds, budget)
    plan = plan_stages(costs)
    if plan is None:
        assert costs.least_budget > budget
        return
    assert costs.leanest_run < costs.least_budget <= budget
    assert list(plan.seconds) == list(get_args(StageName))
    assert sum(plan.seconds.values()) <= budget + 1e-6
    assert plan.seconds["search"] >= costs.trial - 1e-6
    assert plan.seconds["confirm"] >= 2 * costs.min_pair - 1e-6
    assert plan.seconds["metric"] >= costs.min_evidence - 1e-6
    assert plan.seconds["profile"] == 0 or costs.profile <= plan.seconds["profile"] <= PROFILE_SHARE * budget + 1e-6
    assert plan.end_of("report") == pytest.approx(sum(plan.seconds.values()))


def test_which_budgets_do_for_which_steps() -> None:
    fits = {(step, budget): plan_stages(costs_of(step, budget)) is not None for step in STEPS for budget in BUDGETS}
    assert [budget for budget in BUDGETS if fits[0.02, budget]] == list(BUDGETS)
    assert [budget for budget in BUDGETS if fits[0.3, budget]] == list(BUDGETS)
    assert [budget for budget in BUDGETS if fits[2.0, budget]] == [240.0, 480.0, 600.0]
    assert [budget for budget in BUDGETS if fits[5.0, budget]] == [480.0, 600.0]


def test_the_search_and_the_proof_get_the_bulk() -> None:
    for step_seconds in (0.3, 2.0):
        plan = plan_of(step_seconds, 600.0)
        assert plan.seconds["search"] + plan.proof >= 0.6 * 600
        assert plan.seconds["search"] <= 0.25 * 600 + 1e-6


def test_contributions_get_only_what_is_left_over() -> None:
    assert plan_of(2.0, 480.0).seconds["contributions"] == 0.0
    assert 0 < plan_of(0.02, 600.0).seconds["contributions"] <= 0.2 * 600


def test_a_profile_that_cannot_be_had_for_a_twentieth_is_left_out() -> None:
    assert plan_of(2.0, 600.0).seconds["profile"] == pytest.approx(30.0)
    dear = dataclasses.replace(costs_of(2.0, 600.0), profile=31.0)
    plan = plan_stages(dear)
    assert plan is not None and plan.seconds["profile"] == 0.0


@pytest.mark.parametrize("step_seconds", [*STEPS, 20.0, 300.0])
def test_the_budget_that_is_recommended_would_do(step_seconds: float) -> None:
    costs = costs_of(step_seconds, 20.0)
    assert plan_stages(costs) is None
    enough = parse_duration(enough_budget(costs))
    assert plan_stages(costs_of(step_seconds, enough)) is not None
    assert enough <= 1.25 * costs.least_budget + (60 if enough <= 7200 else 3600)  # as it is rounded
    said = too_small(costs, "a step takes long")
    assert "20.0 s is too small" in said and f"--budget {enough_budget(costs)}" in said
    # The next run may begin in a minute in which everything takes a fifth longer.
    slower = {
        name: 1.2 * getattr(costs, name) for name in ("hardware", "baseline", "trial", "min_pair", "min_evidence")
    }
    assert plan_stages(dataclasses.replace(costs, budget=enough, **slower)) is not None


def test_a_budget_that_would_do_only_if_nothing_takes_longer_than_expected_is_refused() -> None:
    """Three minutes were begun although they just fitted, and a third pair left no time for the metric."""
    costs = costs_of(2.0, 480.0)
    after_baseline = costs.trial + costs.min_proof
    assert costs.least_budget == pytest.approx(costs.leanest_run + 0.25 * after_baseline)
    for budget, is_refused in ((costs.leanest_run, True), (costs.least_budget - 1, True), (costs.least_budget, False)):
        assert (plan_stages(dataclasses.replace(costs, budget=budget)) is None) == is_refused
    # What is kept for slower minutes goes to the search and to the proof, not to a profile.
    plan = plan_stages(dataclasses.replace(costs, budget=costs.least_budget, profile=5.0))
    assert plan is not None and plan.seconds["profile"] == 0.0
    assert sum(plan.seconds.values()) == pytest.approx(costs.least_budget)


def test_budgets_are_recommended_as_people_type_them() -> None:
    def recommended(leanest_run: float) -> str:
        return enough_budget(Costs(10.0, leanest_run - 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2, 6, 0.0, 0.0))

    assert [recommended(seconds) for seconds in (40.0, 95.0, 280.0, 5000.0, 20000.0)] == [
        "50s",
        "120s",
        "6m",
        "105m",
        "7h",
    ]


def test_a_run_that_goes_on_needs_no_first_trial_and_adds_up() -> None:
    costs = costs_of(2.0, 100.0)
    resumed = dataclasses.replace(costs, trials=0, earlier=300.0)
    assert resumed.leanest_run == pytest.approx(costs.leanest_run - costs.trial)
    assert parse_duration(enough_budget(resumed)) >= 300.0 + resumed.leanest_run
    assert "budget of 6 min 40 s" in too_small(resumed, "a step takes 2.0 s")


def test_the_first_trial_leaves_the_least_proof_and_later_ones_the_rest_of_the_plan() -> None:
    plan = plan_of(2.0, 480.0)
    least = plan.held_back(needed=300.0, trials=0)
    assert 0.8 * plan.min_proof < least < plan.min_proof  # it fits barely: what it takes is not known yet
    assert plan.held_back(needed=6.0, trials=0) == pytest.approx(5.0)  # an exact setting needs less
    later = plan.held_back(needed=300.0, trials=1)
    assert later == pytest.approx(480.0 - plan.end_of("search"))
    assert later >= plan.proof - 1e-6
    # What earlier stages left over is the search's own, and what the proof does not need is not.
    assert plan.held_back(needed=5.0, trials=1) == pytest.approx(later)


def test_a_search_that_is_extended_leaves_what_a_proof_needs() -> None:
    stages, plan = Stages(), plan_of(2.0, 480.0)
    stages.follow(plan)
    assert stages.held_back(50.0, 1) > 50.0
    stages.extend_search()
    assert stages.held_back(50.0, 1) == 50.0
    assert stages.held_back(1000.0, 1) == pytest.approx(plan.proof)
    assert stages.held_back(1000.0, 0) == plan.held_back(1000.0, 0)  # the first trial leaves the least proof


def test_stages_are_timed_from_one_to_the_next_and_the_search_may_come_twice() -> None:
    stages = Stages()
    assert stages.held_back(30.0, 0) == 30.0  # as long as there is no plan
    stages.begin("hardware", 0.0)
    stages.begin("baseline", 7.0)
    first = plan_of(2.0, 480.0)
    stages.follow(first)
    stages.begin("search", 30.0)
    assert stages.held_back(1000.0, 1) == first.held_back(1000.0, 1)
    stages.begin("confirm", 100.0)
    stages.begin("search", 150.0)
    assert stages.held_back(1000.0, 1) == pytest.approx(first.proof)  # beyond its share, but not without a proof
    times = {one.stage: one for one in stages.times(at=160.0)}
    assert list(times) == ["hardware", "baseline", "search", "confirm"]
    assert [one.spent_seconds for one in times.values()] == [7.0, 23.0, 80.0, 50.0]
    assert times["confirm"].planned_seconds == first.seconds["confirm"]


def test_a_profile_is_expected_to_take_its_share_only_where_steps_are_long() -> None:
    plan = plan_of(0.3, 480.0)
    assert plan.seconds["profile"] == 24.0
    assert plan.expected_profile(start_seconds=3.0, step_seconds=0.3) == pytest.approx(3.0 + 6.0 + 9 * 0.3)
    assert plan.expected_profile(start_seconds=6.0, step_seconds=2.0) == 24.0
    assert plan_of(2.0, 240.0).expected_profile(start_seconds=6.0, step_seconds=2.0) == 0.0  # there is no time for it


def test_a_search_is_expected_to_take_its_share_only_where_trials_are_long() -> None:
    plan = plan_of(0.3, 480.0)
    assert plan.expected_search(trial_seconds=4.0) == 48.0
    assert plan.expected_search(trial_seconds=40.0) == plan.seconds["search"]


def test_a_search_that_continues_is_expected_to_take_less_than_all_that_is_left() -> None:
    """Planned was all that a proof could spare: 433 s of ten minutes, of which a policy gradient took 195."""
    assert expected_continuation(spent_seconds=150.0, trial_seconds=9.0, most_seconds=283.0) == pytest.approx(75.0)
    assert (
        expected_continuation(spent_seconds=150.0, trial_seconds=90.0, most_seconds=283.0) == 90.0
    )  # a trial at least
    assert expected_continuation(spent_seconds=150.0, trial_seconds=9.0, most_seconds=40.0) == 40.0
    assert expected_continuation(spent_seconds=150.0, trial_seconds=9.0, most_seconds=-5.0) == 0.0


def test_a_new_plan_changes_what_has_not_begun() -> None:
    stages = Stages()
    stages.begin("hardware", 0.0)
    stages.begin("baseline", 7.0)
    first, second = plan_of(2.0, 480.0), plan_of(0.3, 480.0)
    stages.follow(first)
    stages.follow(second)
    stages.begin("search", 20.0)
    planned = {one.stage: one.planned_seconds for one in stages.times(at=20.0)}
    assert planned["baseline"] == first.seconds["baseline"]
    assert planned["search"] == second.seconds["search"]
    assert stages.current is second


def test_what_a_stage_is_to_take_in_addition_is_added_once_it_has_begun() -> None:
    """A second proof counted as spent, but not as planned."""
    stages = Stages()
    stages.expect("confirm", 30.0)
    stages.expect("confirm", 40.0)  # it has not begun: more is known than before
    stages.begin("confirm", at=0.0)
    stages.expect("confirm", 25.0)
    (confirm,) = stages.times(at=60.0)
    assert (confirm.planned_seconds, confirm.spent_seconds) == (65.0, 60.0)


def test_what_a_stage_takes_beyond_its_plan_is_planned_before_it_is_spent() -> None:
    """Further pairs of a proof counted as spent, but not as planned."""
    stages = Stages()
    stages.expect("confirm", 60.0)
    stages.begin("confirm", at=10.0)
    stages.expect_more("confirm", 20.0, at=40.0)
    assert stages.times(at=40.0)[0].planned_seconds == 60.0  # which is enough
    stages.expect_more("confirm", 50.0, at=40.0)
    assert stages.times(at=40.0)[0].planned_seconds == 80.0
