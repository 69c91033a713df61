"""How a metric is judged in what is left of a budget: by runs, by updates, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from autoaccel.bench.limits import LATER_POINTS, POINTS
from autoaccel.bench.live_bench import LiveBench
from autoaccel.bench.rounding import UPDATE_STEPS, recorded_steps
from autoaccel.proof import judging
from autoaccel.proof.earlier import Earlier
from autoaccel.proof.judging import MetricJudge
from autoaccel.proof.proof_time import MetricTime, proof_seconds
from autoaccel.records.contender import ContenderResult
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.knob import Risk
from autoaccel.records.messages import Turn
from autoaccel.records.options import EvidenceWish, TuneOptions
from autoaccel.records.progress import ignore
from autoaccel.records.proof import ProofPair, TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import BuildFunction, TrainingFacts
from autoaccel.report.conclusions import obstacle_words
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.limits import METRIC_SHARE
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.space.change import Change
from autoaccel.space.knobs import KnobContext, default_settings
from autoaccel.statistics.turn_plan import plan_turns
from autoaccel.workers.starter import WorkerStarter

HOLDS = RoundingEvidence("holds", "", 64, 3, 8)
CAST: Settings = {"precision.autocast": "bfloat16"}
LARGER: Settings = {"optimizer.batch_factor": 2.0}
COMPILED: Settings = {"compile.mode": "default"}
WORKERS: Settings = {"loader.workers": 2}
START_SECONDS, PAIR_SECONDS = 5.0, 20.0
MakeJudge = Callable[..., MetricJudge]


class Steps(SimpleNamespace):
    """A bench on which nothing is measured."""

    @property
    def compared_steps(self) -> frozenset[int]:
        return recorded_steps(self.folder.rounding)

    def compare_updates(self, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence:
        return HOLDS


@pytest.fixture
def judge_with(tmp_path: Path, context: KnobContext, facts: TrainingFacts) -> MakeJudge:
    """Return what gives a judge of a long training whose steps take a second, and its run."""

    def make(
        budget: float,
        wish: EvidenceWish = "any",
        spent: float = 0.0,
        step_seconds: float = 1.0,
        start_seconds: float = START_SECONDS,
        pair_seconds: float = PAIR_SECONDS,
        epochs: int = 200,
        loading_seconds: float = 0.0,  # of compiled code, in each process
        trainings: int = 1000,
        eval_samples: int | None = None,
    ) -> MetricJudge:
        workload, options = BuildFunction("/m.py", "build", ""), TuneOptions(evidence=wish, trainings=trainings)
        request = Request(workload, budget, Constraint(0.01, False), options)
        run = TuningRun(request, RunFolder(tmp_path), cast("WorkerStarter", None), BudgetClock(budget, spent), ignore)
        baseline = Steps(
            folder=RunFolder(tmp_path),
            settings=default_settings(context),
            facts=msgspec.structs.replace(facts, epochs=epochs, eval_samples=eval_samples),
            measurement=SimpleNamespace(warmup_step_seconds=(step_seconds,) * 2),
            step_seconds=step_seconds,
            ready_seconds=start_seconds + 2 * step_seconds,
            pair_seconds=lambda speedup=1.0: pair_seconds,
            plan=plan_turns(step_seconds),
        )

        def extra_start_seconds(settings: Settings) -> float:
            return 0.0 if settings["compile.mode"] == "off" else loading_seconds

        return MetricJudge(run, cast("LiveBench", baseline), extra_start_seconds)

    return make


def change_with(context: KnobContext, change: Settings, workers: Risk = "exact") -> Change:
    inexact = {"loader.workers": "loading a sample draws random numbers"} if workers != "exact" else {}
    knobs = {"precision.autocast": ("off", "bfloat16"), "loader.workers": (0, 2)}
    space = SearchSpace("test", knobs, {}, {}, inexact=inexact, risks={"loader.workers": workers})
    own = default_settings(context)
    return Change({**own, **change}, own, space)


def test_what_only_rounds_is_judged_where_nothing_else_could_be(judge_with: MakeJudge, context: KnobContext) -> None:
    """Four thousand steps of a second: not even a twentieth fits thrice into four minutes."""
    judge = judge_with(600.0)
    rounds, changes = (judge.plan(change_with(context, change), 2.0) for change in (CAST, LARGER))
    assert rounds is not None and changes is not None
    assert rounds.fits and rounds.evidence == "rounding"
    assert judge.seconds(rounds, change_with(context, CAST), 2.0) <= 240.0
    assert not changes.fits
    assert judge.plan(change_with(context, WORKERS), 2.0) is None  # it changes no number
    together = judge.plan(change_with(context, {**CAST, **LARGER}), 2.0)
    assert together is not None and not together.fits
    insisted = judge_with(600.0, "whole").plan(change_with(context, CAST), 2.0)
    assert insisted is not None and (insisted.evidence, insisted.fits) == ("whole", False)


def test_what_only_redraws_samples_needs_no_training_unless_planned_runs_are_asked_for(
    judge_with: MakeJudge, context: KnobContext
) -> None:
    """Workers were not searched where samples are drawn at random: runs to show that they keep the metric took long."""
    workers = change_with(context, {**WORKERS, "loader.prefetch": 4}, "redraws")
    judge = judge_with(600.0)
    assert judge.plan(workers, 2.0) is None
    assert judge.begin(workers, 2.0, 1) is None
    known = judge.known(workers)
    assert (known.evidence, known.redrawn, known.drop_high) == ("redrawn", ("loader.workers",), 0.0)
    assert judge.known(change_with(context, {"memory.keep_freed": True})).evidence == "exact"
    harmful = change_with(context, WORKERS, "changes_training")
    for other, change in ((judge_with(600.0, "whole"), workers), (judge, harmful)):
        plan = other.plan(change, 2.0)
        assert plan is not None and plan.training_pairs and not plan.fits


def test_updates_are_compared_on_the_samples_that_the_user_draws(
    judge_with: MakeJudge, context: KnobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Settings] = []

    def compare_updates(bench: Steps, settings: Settings, has_time: object) -> RoundingEvidence:
        asked.append(settings)
        return HOLDS

    monkeypatch.setattr(Steps, "compare_updates", compare_updates)
    both: Settings = {**CAST, **WORKERS, "loader.prefetch": 4}
    proof = judge_with(600.0).begin(change_with(context, both, "redraws"), 2.0, 1)
    assert proof is not None and proof.plan.evidence == "rounding"
    proof.compare_updates()
    assert asked == [change_with(context, CAST).settings]  # nor what does nothing without workers
    assert proof.accuracy is not None and proof.accuracy.redrawn == ("loader.workers",)
    judge = judge_with(600.0)
    assert judge.plan(change_with(context, both, "changes_training"), 2.0) == judge.min_share()


def test_updates_could_tell_of_what_is_left_without_ranks(judge_with: MakeJudge, context: KnobContext) -> None:
    judge = judge_with(600.0)
    both = change_with(context, {**CAST, **WORKERS, "parallel.world_size": 2})
    assert judge.beyond_updates(both) == ("parallel.world_size",)
    assert judge.beyond_updates(change_with(context, CAST)) == ()
    assert judge.beyond_updates(change_with(context, {"parallel.world_size": 2})) == ()  # nothing of what is left
    assert judge_with(600.0, "whole").beyond_updates(both) == ()


@pytest.mark.parametrize(("trainings", "steps"), [(2, 0), (20, 1999), (60, 4000)])
def test_trainings_for_the_metric_take_no_more_than_a_quarter_of_what_is_saved(
    judge_with: MakeJudge, context: KnobContext, trainings: int, steps: int
) -> None:
    """At twice the speed each training of 4,000 s saves 2,000 s; a pair of planned ones takes 6,000 s and its start."""
    judge = judge_with(1e6, trainings=trainings)
    plan = judge.plan(change_with(context, LARGER), 2.0)
    assert plan is not None and plan.fits == bool(steps)
    assert not steps or plan.steps == pytest.approx(steps, abs=300)
    assert not steps or judge.seconds(plan, change_with(context, LARGER), 2.0) <= trainings * 2000.0 / 4
    rounds = judge.plan(change_with(context, CAST), 2.0)
    assert rounds is not None and rounds.evidence == ("whole" if trainings == 60 else "rounding")
    insisted = judge_with(1e6, "whole", trainings=trainings).plan(change_with(context, LARGER), 2.0)
    assert insisted is not None and insisted.fits  # whatever they cost


def test_runs_whose_metric_is_of_few_samples_are_not_expected_to_decide(
    judge_with: MakeJudge, context: KnobContext
) -> None:
    """A hundredth may be lost. One of 50 samples is expected to scatter by more, one of 5,000 by less."""
    rounds, larger = change_with(context, CAST), change_with(context, LARGER)
    few, many = (judge_with(1e6, eval_samples=samples) for samples in (50, 5000))
    assert few.chance(larger, 2.0) < 0.1 and many.chance(larger, 2.0) > 0.99
    by_few, by_many = few.plan(rounds, 2.0), many.plan(rounds, 2.0)
    assert by_few is not None and by_many is not None
    assert (by_few.evidence, by_many.evidence) == ("rounding", "whole")
    assert few.chance(rounds, 2.0) == few.chance(change_with(context, WORKERS), 2.0) == 1.0
    assert judge_with(1e6, "whole", eval_samples=50).chance(larger, 2.0) == 1.0  # whatever they will tell
    part = judge_with(1e6, trainings=20, eval_samples=1000)
    assert part.chance(larger, 2.0) < judge_with(1e6, eval_samples=1000).chance(larger, 2.0)  # scatters more


def test_how_runs_scatter_is_learned_from_those_that_were_made(judge_with: MakeJudge, context: KnobContext) -> None:
    rounds, larger = change_with(context, CAST), change_with(context, LARGER)
    judge = judge_with(1e6, eval_samples=5000)
    proof = judge.begin(larger, 2.0, 1)
    assert proof is not None and proof.plan.evidence == "whole"
    for drop in (0.0, 0.05, -0.05):
        proof.add(TrainedPair((0.9, 0.9 - drop)))
    judge.learn(proof)
    assert judge.chance(larger, 2.0) < 0.1
    plan = judge.plan(rounds, 2.0)
    assert plan is not None and plan.evidence == "rounding"


def test_what_would_tell_more_than_updates_is_a_share_that_tells(judge_with: MakeJudge) -> None:
    found = judge_with(600.0).min_share()
    assert (found.evidence, found.steps, found.fits) == ("share", 800, False)


def test_updates_are_compared_in_the_time_that_is_left(
    judge_with: MakeJudge, context: KnobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Settings] = []

    def compare_updates(bench: Steps, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence:
        asked.append(settings)
        return HOLDS

    monkeypatch.setattr(Steps, "compare_updates", compare_updates)

    def compared(spent: float) -> object:
        proof = judge_with(600.0, spent=spent).begin(change_with(context, CAST), 1.0, 1)
        assert proof is not None and proof.plan.evidence == "rounding" and proof.status == "open"
        found = proof.compare_updates()
        assert proof.status == ("holds" if found else "open")
        return found

    assert compared(spent=100.0) == HOLDS
    # A pair of processes takes 20 s, and may not be needed any more.
    needed = 2 * START_SECONDS + 2 * UPDATE_STEPS
    assert compared(spent=600.0 - needed - 1) == HOLDS
    assert asked == [change_with(context, CAST).settings] * 2
    assert compared(spent=600.0 - needed + 1) is None
    assert len(asked) == 2


def test_a_further_look_at_updates_makes_those_under_the_users_settings_no_more(
    judge_with: MakeJudge, context: KnobContext, tmp_path: Path
) -> None:
    judge, change = judge_with(600.0), change_with(context, CAST)
    plan = judge.plan(change, 2.0)
    assert plan is not None and plan.evidence == "rounding"
    first, budget = judge.seconds(plan, change, 2.0), judge.budget_seconds(plan, change, 2.0)
    assert first == pytest.approx(2 * START_SECONDS + 1.5 * UPDATE_STEPS * 1.0)
    for points in (LATER_POINTS, POINTS):
        assert judge.seconds(plan, change, 2.0) == first  # what is kept of other points tells nothing
        kept = RunFolder(tmp_path).rounding / str(points[-1])
        kept.mkdir(parents=True)
        (kept / "complete").touch()
    assert judge.seconds(plan, change, 2.0) == pytest.approx(START_SECONDS + UPDATE_STEPS / 2.0)
    # A run that is resumed makes them once more, as they are gone with this part of it.
    assert judge.seconds(plan, change, 2.0, resumed=True) == first
    assert judge.budget_seconds(plan, change, 2.0) == budget


def test_updates_may_take_more_than_the_share_of_trainings(
    judge_with: MakeJudge, context: KnobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three minutes, with steps of 2 s: nothing that casts was tried, and a loader's workers were instead.

    Later it was tried, and its speed proven, and then updates that fitted into what was left were not compared.
    """
    looks_again: list[bool] = []

    def compare_updates(bench: Steps, settings: Settings, has_time: Callable[[int], bool]) -> RoundingEvidence:
        looks_again.append(has_time(UPDATE_STEPS))
        return HOLDS

    monkeypatch.setattr(Steps, "compare_updates", compare_updates)
    judge = judge_with(180.0, step_seconds=2.0)
    plan = judge.plan(change_with(context, CAST), None)
    assert plan is not None and (plan.evidence, plan.fits) == ("rounding", True)
    seconds = judge.seconds(plan, change_with(context, CAST), None)
    assert seconds > METRIC_SHARE * 180.0
    late = judge.plan(change_with(context, CAST), None, left=seconds)
    assert late is not None and not late.fits  # beside the pairs that prove the speed

    barely = judge_with(180.0, spent=179.0 - seconds, step_seconds=2.0)
    proof = barely.begin(change_with(context, CAST), 1.0, 1)
    assert proof is not None
    assert proof.compare_updates() == HOLDS
    assert looks_again == [False]  # a second look would take more than that share


def test_whoever_insists_on_planned_runs_is_not_told_by_updates(judge_with: MakeJudge, context: KnobContext) -> None:
    short = {"budget": 60_000.0, "step_seconds": 0.01}  # so that planned runs fit
    for wish, change in (("whole", CAST), ("any", LARGER)):
        proof = judge_with(wish=wish, **short).begin(change_with(context, change), 2.0, 1)
        assert proof is not None and proof.plan.evidence == "whole"
        assert proof.compare_updates() is None


def test_runs_of_an_earlier_part_of_the_run_count(judge_with: MakeJudge, context: KnobContext) -> None:
    chosen = change_with(context, CAST)

    def begun(*steps: int | None) -> MetricPlan:
        one = Measurement(1.0, (1.0,), (Turn((1.0,)),))
        earlier = [ProofPair(chosen.settings, number, one, one, None, made) for number, made in enumerate(steps)]
        proof = judge_with(600.0).begin(chosen, 2.0, 1, Earlier([], earlier))
        assert proof is not None
        proof.plan_the_rest()
        return proof.plan

    assert begun(None, None, 60) == MetricPlan("share", 60, 3, 6)
    assert begun(60, 60) == MetricPlan("share", 60, 3, 6, at_once=True)  # in the order in which they were made
    assert begun(None, None).evidence == "rounding"  # nothing has trained that would count


def test_however_often_a_proof_is_resumed_its_looks_err_at_most_twice_as_often(
    judge_with: MakeJudge, context: KnobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further part of the run used half of the error once more."""
    chosen, errors = change_with(context, CAST), []
    monkeypatch.setattr(judging, "MetricProof", lambda *args, error, **more: errors.append(error))
    one = Measurement(1.0, (1.0,), (Turn((1.0,)),))
    trained = [ProofPair(chosen.settings, 0, one, one, None, 60)]
    judge_with(600.0).begin(chosen, 2.0, 1)
    for parts in range(1, 12):
        judge_with(600.0).begin(
            chosen, 2.0, 1, Earlier([ContenderResult(chosen.settings, 1, "incomplete")] * parts, trained)
        )
    assert errors[:3] == pytest.approx([0.025, 0.0125, 0.00625])
    assert sum(errors) <= 2 * errors[0]


def digits(judge_with: MakeJudge, left: float, budget: float = 60.0, wish: EvidenceWish = "any") -> MetricJudge:
    """Return the judge of 200 steps of 33 ms, as a tune of a minute has measured them, with so much of it left."""
    times = {"step_seconds": 0.033, "start_seconds": 0.4, "pair_seconds": 2.65, "epochs": 10, "loading_seconds": 1.5}
    return judge_with(budget, wish, budget - left, **times)


@pytest.mark.parametrize("speedup", [1.25, 1.3, 1.5, 2.0])
def test_pairs_that_train_tell_the_speed_too(judge_with: MakeJudge, context: KnobContext, speedup: float) -> None:
    """Half of a minute was given up before a single pair: the pairs for the speed alone would have filled it."""
    plan = digits(judge_with, left=32.0).plan(change_with(context, LARGER), speedup, 32.0)
    assert plan is not None and plan.fits
    assert (plan.evidence, plan.at_once) == ("share", True)
    assert plan.steps >= 40


def test_code_that_is_compiled_is_loaded_by_every_process_of_a_proof(
    judge_with: MakeJudge, context: KnobContext
) -> None:
    """Six pairs of a ConvNeXt took 5 s longer each than was planned, and the look at its updates as well."""
    judge = judge_with(600.0, loading_seconds=5.0)
    plain, compiled = change_with(context, CAST), change_with(context, {**CAST, **COMPILED})
    assert judge.pair_seconds(compiled, 2.0) == judge.pair_seconds(plain, 2.0) + 5.0
    updates = judge.plan(compiled, 2.0)
    assert updates is not None and updates.evidence == "rounding"
    for plan, processes in ((updates, 1), (judge.min_share(), 3)):
        more = judge.seconds(plan, compiled, 2.0) - judge.seconds(plan, plain, 2.0)
        assert more == pytest.approx(processes * 5.0)


@pytest.mark.parametrize("change", [CAST, {**CAST, **COMPILED}])
@pytest.mark.parametrize("speedup", [1.2, 1.35, 1.5, 3.0])
@pytest.mark.parametrize("wish", ["any", "whole"])
def test_what_is_planned_fits_beside_the_speed_and_more_time_never_leaves_it_out(
    judge_with: MakeJudge, context: KnobContext, change: Settings, speedup: float, wish: EvidenceWish
) -> None:
    fitted, tried = False, change_with(context, change)
    for left in range(5, 300, 5):
        judge = digits(judge_with, float(left), 600.0, wish)
        plan = judge.plan(tried, speedup, float(left))
        assert plan is not None
        assert plan.fits or not fitted
        fitted = plan.fits
        assert not plan.at_once or plan.fits
        if fitted:
            metric = MetricTime(judge.seconds(plan, tried, speedup), plan.training_pairs, plan.at_once)
            needed = proof_seconds(judge.pair_seconds(tried, speedup), speedup, metric, with_further=False)
            assert needed <= left + 1e-6
    assert fitted


def test_where_only_trainings_could_tell_they_come_at_once_if_there_is_no_time_for_both(
    judge_with: MakeJudge, context: KnobContext
) -> None:
    """Runs of 200 steps of 0.3 s, which take far longer than the turns that tell the speed."""
    times = {"wish": "whole", "step_seconds": 0.3, "start_seconds": 1.0, "pair_seconds": 60.0, "epochs": 10}
    plans = []
    for left in (900.0, 480.0, 300.0):
        judge = judge_with(1200.0, spent=1200.0 - left, **times)
        plan = judge.plan(change_with(context, LARGER), 1.5, left)
        assert plan is not None and plan.evidence == "whole"
        plans.append((plan.fits, plan.at_once))
    assert plans == [(True, False), (True, True), (False, False)]


def test_the_metric_is_planned_anew_once_the_speed_is_proven(judge_with: MakeJudge, context: KnobContext) -> None:
    """Pairs for a small speed-up would have filled what is left; they decided sooner."""
    proof = digits(judge_with, left=10.0).begin(change_with(context, CAST), 1.2, 1)
    assert proof is not None and not proof.plan.fits
    proof.plan_the_rest()
    assert proof.plan.fits and not proof.plan.at_once
    nothing = digits(judge_with, left=1.5).begin(change_with(context, CAST), 1.2, 1)
    assert nothing is not None
    nothing.plan_the_rest()
    assert not nothing.plan.fits
    assert "would decide it, but do not fit in the remaining budget" in obstacle_words(nothing.missing(0.0))


def test_what_updates_have_refused_is_left_to_runs(judge_with: MakeJudge, context: KnobContext) -> None:
    chosen = change_with(context, CAST)
    refused = Earlier([ContenderResult(chosen.settings, 1, "more than rounding")], [])
    proof = judge_with(600.0).begin(chosen, 2.0, 1, refused)
    assert proof is not None and (proof.plan.evidence, proof.plan.fits) == ("share", False)
    assert proof.compare_updates() is None
    proof.plan_the_rest()
    assert proof.plan.evidence == "share"


def test_a_budget_that_would_do_leaves_time_for_the_trainings(judge_with: MakeJudge, context: KnobContext) -> None:
    judge = judge_with(600.0)
    share, whole = judge.min_share(), judge.planned_runs()
    assert (whole.evidence, whole.steps, whole.fits) == ("whole", 4000, False)
    for plan in (share, whole):
        budget = judge.budget_seconds(plan, change_with(context, LARGER), 2.0)
        enough = judge_with(budget + 1.0).plan(change_with(context, LARGER), 2.0)
        assert enough is not None and enough.fits and enough.steps >= plan.steps
