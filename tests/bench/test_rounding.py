"""Rounding judged from real processes, one under the user's own settings and one under others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.bench.limits import LATER_POINTS, POINTS
from autoaccel.bench.rounding import NotByRounding, judge_rounding, update_steps, why_not_by_rounding
from autoaccel.records.knob import Risk
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.rounding import (
    CompareUpdates,
    RecordUpdates,
    RoundingEvidence,
    UpdateError,
    UpdatesCompared,
    UpdatesRecorded,
)
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.report.rounding import rounding_basis_words, rounding_words
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.runs.workloads import find_workload
from autoaccel.space.change import Change
from autoaccel.space.knobs import KnobContext, default_settings
from autoaccel.workers.starter import WorkerStarter

WriteModel = Callable[..., Path]
StartRun = Callable[[Path], TuningRun]
BASELINE: Settings = {"threads.intra_op": 1, "precision.autocast": "off"}
SHORTER: Settings = {**BASELINE, "precision.autocast": "bfloat16"}


def never(steps: int) -> bool:
    """Have no time for later points."""
    return False


@pytest.fixture
def run_for(tmp_path: Path) -> Iterator[StartRun]:
    """Return a function that gives the run of a model file; its workers are killed in the end."""
    starters = []

    def start(model: Path) -> TuningRun:
        folder = RunFolder(tmp_path / f"run-{len(starters)}")
        folder.path.mkdir()
        request = Request(find_workload(str(model)), 600.0, Constraint(0.01, True))
        starters.append(WorkerStarter(folder.path, request.workload))
        return TuningRun(request, folder, starters[-1], BudgetClock(600.0), ignore)

    yield start
    for starter in starters:
        starter.__exit__()


def test_updates_that_are_not_finite_are_a_failure(
    write_model: WriteModel, run_for: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A larger budget was said to decide, and other settings that have it were tried."""
    run = run_for(write_model())
    compared = UpdatesCompared(False, False, (), 3, (), (1.0,) * 10, ())
    answers = {RecordUpdates: UpdatesRecorded(), CompareUpdates: compared}
    monkeypatch.setattr(run.starter, "ask", lambda task, *rest: answers[type(task)])
    found = judge_rounding(run, BASELINE, SHORTER, lambda steps: True)
    assert isinstance(found, Failure) and found.kind == "diverged"
    assert found.message == "its updates or losses are not finite where those under your own settings are"


@pytest.mark.long
@pytest.mark.end_to_end
def test_two_processes_make_the_same_updates_under_the_same_settings(
    write_model: WriteModel, run_for: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_for(write_model())
    asked, ask = [], run.starter.ask

    def counted(task: Any, settings: Settings, name: str, *rest: Any) -> Any:
        asked.append(name)
        return ask(task, settings, name, *rest)

    monkeypatch.setattr(run.starter, "ask", counted)
    same = judge_rounding(run, BASELINE, BASELINE, never)
    assert isinstance(same, RoundingEvidence)
    assert (same.verdict, same.worst_error_share, same.loss_difference) == ("holds", 0.0, 0.0)
    shorter = judge_rounding(run, BASELINE, SHORTER, never)
    assert isinstance(shorter, RoundingEvidence)
    assert shorter.verdict == "holds", shorter
    assert 0.0 < shorter.error_share < 0.01
    assert "differ from yours by" in rounding_words(shorter)
    assert "10 steps trained both ways" in rounding_basis_words(shorter)
    assert run.starter.spent_on["training for the metric"] > 0
    # The user's own updates are made once for all that are compared with them.
    assert asked == ["rounding-baseline", "rounding-recipe", "rounding-recipe"]


def test_too_large_an_error_is_asked_again_later(
    write_model: WriteModel, run_for: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that its first steps throw about has settled then."""
    found = {True: UpdateError("a", "parameter", 1, 1, 1, 1.0, 0.5, 0.0, 0.0, 1.0, 1.0)}
    found[False] = msgspec.structs.replace(found[True], error=0.001)
    short: tuple[str, ...] = ()
    asked: list[str] = []

    def ask(task: RecordUpdates | CompareUpdates, *rest: object) -> UpdatesRecorded | UpdatesCompared | Failure:
        if isinstance(task, RecordUpdates):
            asked.append(f"record {task.points}")
            return UpdatesRecorded()
        is_early = task.folder.endswith(f"/{POINTS[-1]}")
        asked.append("early" if is_early else "later")
        return (
            later
            if later and not is_early
            else UpdatesCompared(True, False, short, 3, (found[is_early],), (1.0, 0.9), (1.0, 0.9))
        )

    later: Failure | None = None
    times: list[int] = []
    model = write_model()

    def judged(has_time: bool = True) -> RoundingEvidence | Failure:
        run = run_for(model)
        monkeypatch.setattr(run.starter, "ask", ask)
        asked.clear()
        return judge_rounding(run, BASELINE, SHORTER, lambda steps: times.append(steps) or has_time)  # type: ignore[func-returns-value]  # append() returns None, which is the point

    held = judged()
    assert isinstance(held, RoundingEvidence) and held.verdict == "holds"
    assert asked == [f"record {POINTS}", "early", f"record {LATER_POINTS}", "later"]
    assert times == [update_steps(LATER_POINTS)] and times[0] > LATER_POINTS[-1]
    hurried = judged(has_time=False)
    assert isinstance(hurried, RoundingEvidence) and hurried.verdict == "too large"
    assert asked == [f"record {POINTS}", "early"]
    later = Failure("hung", "the budget was spent")
    assert judged() == hurried  # what is known stays
    later = Failure("error", "not like this")
    assert judged() == later
    short = ("a",)  # what is lost there adds up, early or late
    assert isinstance(kept := judged(), RoundingEvidence) and kept.verdict == "too large"
    assert asked == [f"record {POINTS}", "early"]


@pytest.mark.end_to_end
@pytest.mark.long
def test_what_fails_on_either_side_is_told(write_model: WriteModel, run_for: StartRun) -> None:
    code = """
        def build_failing():
            def step(model, batch):
                if torch.is_autocast_enabled(batch[0].device.type):
                    raise RuntimeError("not like this")
                return nn.functional.cross_entropy(model(batch[0]), batch[1])

            return build(loss=None, step=step)
        """
    model = Path(f"{write_model(code)}:build_failing")
    run = run_for(model)
    failure = judge_rounding(run, BASELINE, SHORTER, never)
    assert isinstance(failure, Failure)
    assert "not like this" in failure.message
    baseline = judge_rounding(run_for(model), SHORTER, BASELINE, never)
    assert isinstance(baseline, RoundingEvidence)  # the settings are not to blame
    assert baseline.verdict == "open" and baseline.reason.startswith("under your own settings, ")
    hurried = judge_rounding(dataclasses.replace(run_for(model), clock=BudgetClock(0.01)), BASELINE, BASELINE, never)
    assert isinstance(hurried, Failure)
    assert hurried.kind == "hung"


def test_only_settings_that_round_are_judged_by_it(context: KnobContext) -> None:
    baseline = default_settings(context)

    def reason(risks: dict[str, Risk] | None = None, **changes: object) -> NotByRounding | None:
        named = {name.replace("__", "."): value for name, value in changes.items()}
        space = SearchSpace("test", {}, {}, {}, risks=risks or {})
        return why_not_by_rounding(Change({**baseline, **named}, baseline, space))  # type: ignore[dict-item]  # values of any type

    assert reason(precision__autocast="bfloat16", optimizer__fused=True, loader__workers=2) is None
    other = "changes the training"
    assert reason(precision__autocast="bfloat16", optimizer__batch_factor=2.0) == other
    assert reason(parallel__world_size=2) == other
    assert reason({"loader.workers": "changes_training"}, loader__workers=2) == other
    assert reason({"optimizer.accumulation": "changes_training"}, optimizer__accumulation=2) == other
    assert reason(model__norm_biases="drop") == "takes parameters away"
    ranks = {**baseline, "parallel.world_size": 2}
    change = Change({**ranks, "precision.autocast": "bfloat16"}, ranks, SearchSpace("test", {}, {}, {}))
    assert why_not_by_rounding(change) == "several ranks"
