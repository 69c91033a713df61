"""What proofs say of settings, and what of all that is tried or proven no more."""

from __future__ import annotations

import pytest

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.contender import Judgement
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement, Trial
from autoaccel.search.economy import Economy
from autoaccel.search.knowledge import Knowledge
from autoaccel.search.outcomes import Outcomes
from autoaccel.search.task import Prior, SearchTask
from autoaccel.statistics.comparison import compare_in_process

BASELINE: Settings = {"precision.autocast": "off", "loader.workers": 0, "parallel.world_size": 1}
CAST: Settings = {**BASELINE, "precision.autocast": "bfloat16"}
WORKERS: Settings = {**BASELINE, "loader.workers": 2}
BOTH: Settings = {**CAST, "loader.workers": 2}
RANKS: Settings = {**BASELINE, "parallel.world_size": 2}
SPACE = SearchSpace(
    name="test",
    open={"precision.autocast": ("off", "bfloat16"), "loader.workers": (0, 2), "parallel.world_size": (1, 2)},
    fixed={},
    closed={},
)
ACCURACY = Accuracy("m", "maximize", 0.9, 0.8, 0.1, 0.12, 3, 1.0, (0.9,) * 3, (0.8,) * 3)
STEP_SECONDS, SPEEDUP = 0.04, 2.0


def measured(number: int, settings: Settings) -> Trial:
    """Return a trial whose steps are twice as fast as the baseline's."""
    pairs = [(STEP_SECONDS, STEP_SECONDS / SPEEDUP)] * 8
    turns = tuple(Turn((other,)) for _, other in pairs)
    outcome = Measurement(3.0, (STEP_SECONDS,), turns)
    return Trial(number, settings, outcome, 4.0, comparison=compare_in_process(pairs))


def outcomes_of(*tried: Settings) -> tuple[Outcomes, Knowledge]:
    """Return what is kept of trials of these settings, and what is known by them."""
    economy = Economy(20, 20_000, STEP_SECONDS, 3.0, 0.0, 4.0)
    knowledge = Knowledge(SearchTask(SPACE, BASELINE, economy, Prior([], dict.fromkeys(SPACE.open, 0.2))))
    outcomes = Outcomes(knowledge)
    for number, settings in enumerate(tried, start=1):
        outcomes.learn(measured(number, settings))
    return outcomes, knowledge


def feasible(outcomes: Outcomes) -> list[Settings]:
    return [trial.settings for trial in outcomes.trials if trial.feasible]


def test_a_trial_is_kept_with_what_its_run_would_take() -> None:
    outcomes, _ = outcomes_of(CAST)
    assert outcomes.trials[0].step_seconds == pytest.approx(STEP_SECONDS / SPEEDUP)
    assert outcomes.trials[0].total_seconds == pytest.approx(3.0 + 20_000 * STEP_SECONDS / SPEEDUP)


def test_what_drops_the_metric_is_out_with_all_that_contains_what_changes_its_numbers() -> None:
    outcomes, knowledge = outcomes_of(BOTH, CAST, WORKERS)
    outcomes.judge(BOTH, ACCURACY, "drops")
    assert feasible(outcomes) == [WORKERS]
    assert knowledge.is_ruled_out({**CAST, "parallel.world_size": 2})
    # What trains to the same numbers has the same metric.
    assert [trial.accuracy for trial in outcomes.trials] == [ACCURACY, ACCURACY, None]


def test_more_than_rounding_is_not_tried_again_but_its_trials_stay() -> None:
    """Runs may tell later that the metric is kept."""
    outcomes, knowledge = outcomes_of(BOTH, CAST)
    outcomes.judge(BOTH, None, "more than rounding")
    assert feasible(outcomes) == [BOTH, CAST]
    assert knowledge.is_ruled_out(BOTH) and knowledge.is_ruled_out(CAST)


@pytest.mark.parametrize("judgement", ["slower", "open"])
def test_what_is_not_faster_or_is_left_open_leaves_its_parts(judgement: Judgement) -> None:
    outcomes, knowledge = outcomes_of(BOTH, CAST)
    outcomes.judge(BOTH, None, judgement)
    assert feasible(outcomes) == [BOTH, CAST]
    assert knowledge.is_ruled_out(BOTH) and not knowledge.is_ruled_out(CAST)


def test_what_holds_rules_nothing_out() -> None:
    outcomes, knowledge = outcomes_of(BOTH)
    outcomes.judge(BOTH, ACCURACY, "holds")
    assert not knowledge.is_ruled_out(BOTH)
    assert outcomes.trials[0].accuracy == ACCURACY


def test_what_is_as_risky_or_riskier_is_left_out() -> None:
    outcomes, knowledge = outcomes_of()
    outcomes.leave_out("rounding")
    assert knowledge.is_ruled_out(CAST) and knowledge.is_ruled_out(RANKS)
    assert not knowledge.is_ruled_out(WORKERS)
    assert not knowledge.is_ruled_out(BASELINE)


def test_what_failed_proofs_have_in_common_is_out_though_its_trials_worked() -> None:
    outcomes, knowledge = outcomes_of(WORKERS, {**WORKERS, "parallel.world_size": 2}, BOTH, CAST)
    failure = Failure("raised", "RuntimeError: a worker exited unexpectedly")
    outcomes.fail_proof(WORKERS, failure)
    assert knowledge.is_ruled_out(WORKERS) and outcomes.chance(CAST) == 1.0
    outcomes.fail_proof({**WORKERS, "parallel.world_size": 2}, failure)
    assert outcomes.chance(BOTH) == 0.0
    assert feasible(outcomes) == [CAST]


def test_an_earlier_parts_trials_bring_what_their_proofs_showed() -> None:
    first, _ = outcomes_of(BOTH, WORKERS, RANKS)
    first.judge(BOTH, ACCURACY, "drops")
    first.learn(Trial(4, RANKS, Failure("diverged", "its loss is no number"), 9.0, again=True))
    second, knowledge = outcomes_of()
    for trial in first.trials:
        second.take_over(trial)
    assert feasible(second) == [WORKERS]
    assert knowledge.is_ruled_out(CAST) and knowledge.is_ruled_out(RANKS)
    assert not knowledge.is_ruled_out(WORKERS)
    assert second.count_trials(RANKS) == 2
