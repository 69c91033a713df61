"""How a metric is judged in what is left of a budget: by runs, by updates, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from autoaccel.launch.runner import Runner
from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import EvidenceWish, Request
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.session import metric
from autoaccel.session.clock import Clock
from autoaccel.session.metric import MetricJudge
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RunFolder
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import Place, default_settings

HOLDS = RoundingEvidence("holds", "", 64, 3, 8)
CAST: Settings = {"precision.autocast": "bfloat16"}
LARGER: Settings = {"optimizer.batch_factor": 2.0}
WORKERS: Settings = {"loader.workers": 2}
START_SECONDS, PAIR_SECONDS = 5.0, 20.0
MakeJudge = Callable[..., MetricJudge]


@pytest.fixture
def judge_with(tmp_path: Path, place: Place, facts: TrainingFacts) -> MakeJudge:
    """Return what gives a judge of a long training whose steps take a second, and its run."""

    def make(budget: float, wish: EvidenceWish = "any", spent: float = 0.0, step_seconds: float = 1.0) -> MetricJudge:
        request = Request(Workload("/m.py", "build", ""), budget, Constraint(0.01, False), evidence=wish)
        run = Run(request, RunFolder(tmp_path), cast("Runner", None), Clock(budget, spent), ignore)
        yardstick = SimpleNamespace(
            settings=default_settings(place),
            facts=msgspec.structs.replace(facts, epochs=200),
            measurement=SimpleNamespace(warmup_step_seconds=(step_seconds,) * 2),
            step_seconds=step_seconds,
            ready_seconds=START_SECONDS + 2 * step_seconds,
            pair_seconds=lambda speedup=1.0: PAIR_SECONDS,
        )
        space = SearchSpace("test", {"precision.autocast": ("off", "bfloat16")}, {}, {})
        return MetricJudge(run, cast("Yardstick", yardstick), space)

    return make


def settings_with(place: Place, change: Settings) -> Settings:
    return {**default_settings(place), **change}


def test_what_only_rounds_is_judged_where_nothing_else_could_be(judge_with: MakeJudge, place: Place) -> None:
    """Four thousand steps of a second: not even a twentieth fits thrice into four minutes."""
    judge = judge_with(600.0)
    rounds, changes = (judge.plan(settings_with(place, change), 2.0) for change in (CAST, LARGER))
    assert rounds is not None and changes is not None
    assert rounds.fits and rounds.evidence == "rounding"
    assert judge.seconds(rounds, 2.0) <= 240.0
    assert not changes.fits
    assert judge.plan(settings_with(place, WORKERS), 2.0) is None  # it changes no number
    together = judge.plan(settings_with(place, {**CAST, **LARGER}), 2.0)
    assert together is not None and not together.fits
    insisted = judge_with(600.0, "whole").plan(settings_with(place, CAST), 2.0)
    assert insisted is not None and (insisted.evidence, insisted.fits) == ("whole", False)


def test_what_would_tell_more_than_updates_is_a_share_that_tells(judge_with: MakeJudge) -> None:
    found = judge_with(600.0).least_share()
    assert (found.evidence, found.steps, found.fits) == ("share", 200, False)


def test_updates_are_compared_in_the_time_that_is_left(
    judge_with: MakeJudge, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def judge_rounding(run: Run, own: Settings, settings: Settings, seconds: float) -> RoundingEvidence:
        asked.append(seconds)
        return HOLDS

    monkeypatch.setattr(metric, "judge_rounding", judge_rounding)

    def compared(spent: float) -> object:
        proof = judge_with(600.0, spent=spent).begin(settings_with(place, CAST), 1.0, 1, most_seconds=200.0)
        assert proof is not None and proof.plan.evidence == "rounding" and proof.status == "open"
        found = proof.compare_updates()
        assert proof.status == ("holds" if found else "open")
        return found

    assert compared(spent=100.0) == HOLDS
    # Of half of 200 s two starts, and as many steps under either settings as the rest holds; no more than were planned.
    assert asked == [pytest.approx(START_SECONDS + 45)]
    # 110 s are left: a pair of processes takes 20, two starts 10.
    assert compared(spent=490.0) == HOLDS
    assert asked[1] == pytest.approx(START_SECONDS + 17, abs=1.1)
    assert compared(spent=560.0) is None  # five steps tell nothing
    assert len(asked) == 2


def test_whoever_insists_on_planned_runs_is_not_told_by_updates(judge_with: MakeJudge, place: Place) -> None:
    short = {"budget": 60_000.0, "step_seconds": 0.01}  # so that planned runs fit
    for wish, change in (("whole", CAST), ("any", LARGER)):
        proof = judge_with(wish=wish, **short).begin(settings_with(place, change), 2.0, 1, most_seconds=50_000.0)
        assert proof is not None and proof.plan.evidence == "whole"
        assert proof.compare_updates() is None


def test_runs_of_an_earlier_part_of_the_run_count(judge_with: MakeJudge, place: Place) -> None:
    proof = judge_with(600.0).begin(settings_with(place, CAST), 2.0, 1, 200.0, earlier_steps=60)
    assert proof is not None and proof.plan == metric.MetricPlan("share", 60, 3, 6)
