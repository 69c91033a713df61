"""The folder of a run: what appears when, and what is left after a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.errors import BadRequestError, BudgetSpentError
from autoaccel.records.base import write_json
from autoaccel.records.contender import ContenderResult
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.options import TuneOptions
from autoaccel.records.progress import ignore
from autoaccel.records.proof import ProofPair
from autoaccel.records.recipe import SCHEMA, Baseline, Constraint, OpenProof, Projection, Recipe, SearchSummary
from autoaccel.records.request import Request
from autoaccel.records.run import RUN_SCHEMA, RunRecord
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.records.workload import BuildFunction, PickledFunction, TrainingFacts, Workload
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.run_names import latest_run_path, next_run_path
from autoaccel.runs.workloads import find_workload
from autoaccel.session import tuning

REQUEST = Request(BuildFunction("/model.py", "build", "0" * 64, ("--token", "s3cret")), 600.0, Constraint(0.01, True))
TRIAL = Trial(1, {"loader.workers": 2}, Failure("crashed", "the process crashed (SIGSEGV)"), 3.5)


def test_runs_are_numbered(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert next_run_path("model", runs) == runs / "model-1"
    for name in ("model-1", "model-9", "model-10", "model-x-12", "other-30"):
        (runs / name).mkdir(parents=True)
    assert next_run_path("model", runs) == runs / "model-11"
    assert latest_run_path("model", runs) == runs / "model-10"
    with pytest.raises(BadRequestError, match="no run of third"):
        latest_run_path("third", runs)


def test_a_run_that_came_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError), RunFolder.create(tmp_path / "runs" / "model-1") as folder:
        folder.save_request(REQUEST)
        (folder.path / "logs").mkdir()
        (folder.path / "logs" / "describe.log").write_text("x")
        raise BadRequestError("of the training")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_of_the_users_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with RunFolder.create(tmp_path / "mine") as folder:
        assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "mine").is_dir()


def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(BadRequestError, match="new or empty folder"):
        RunFolder.create(tmp_path)
    with pytest.raises(BadRequestError, match="new or empty folder"):
        RunFolder.create(tmp_path / "thesis.txt")
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(BadRequestError, match="already contains a run, which is complete"):
        RunFolder.create(tmp_path)


@pytest.mark.parametrize(
    "left",
    [["lock"], ["lock", ".arguments.json.7"], ["lock", "arguments.json", ".request.json.7"], ["request.json", "logs"]],
)
def test_a_run_that_was_killed_before_it_found_anything_is_begun_anew(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / name).touch()
    with RunFolder.create(tmp_path) as folder:
        folder.save_request(REQUEST)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(BadRequestError, match="new or empty folder"):
        RunFolder.create(tmp_path)


def test_a_request_comes_back_with_arguments_that_stand_in_one_file_alone(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path) as folder:
        folder.save_request(REQUEST)
        assert folder.load_request() == REQUEST and folder.own_arguments() == ("--token", "s3cret")
        holding = [path.name for path in tmp_path.iterdir() if b"s3cret" in path.read_bytes()]
        assert holding == ["arguments.json"]


@pytest.fixture
def recipe(machine: Machine) -> Recipe:
    """One with nothing proven."""
    search = SearchSummary(1, 0, 0, 120.0, 120.0, 0, "cpu", "done", 20, None, 0.0, {})
    return Recipe(
        schema=SCHEMA,
        created="2026-01-01T00:00:00+00:00",
        summary="Keep your own settings",
        workload=BuildFunction("/model.py", "build", "0" * 64),
        machine=machine,
        settings={},
        baseline=Baseline({}, 0.03, 3.0, 0.1, 2000.0, 1 << 30),
        comparison=Comparison(1.0, 1.0, 1.0, "within noise", 0.95, 0, 0),
        constraint=Constraint(0.01, True),
        accuracy=None,
        projection=Projection(1000, 3.0, 0.1, 0.02, 23.1, 33.1),
        search=search,
        versions={},
    )


def test_only_what_was_interrupted_or_left_a_proof_open_can_go_on(tmp_path: Path, recipe: Recipe) -> None:
    with pytest.raises(BadRequestError, match="no run to resume"):
        RunFolder.resume(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    assert RunFolder.resume(tmp_path).path == tmp_path
    write_json(tmp_path / "recipe.json", recipe)
    with pytest.raises(BadRequestError, match="this run is complete: no proof is open"):
        RunFolder.resume(tmp_path)
    with pytest.raises(BadRequestError, match="which is complete"):
        RunFolder.create(tmp_path)
    left = OpenProof({"precision.autocast": "bfloat16"}, 200.0)
    write_json(tmp_path / "recipe.json", msgspec.structs.replace(recipe, open_proof=left))
    resumed = RunFolder.resume(tmp_path)
    assert resumed.spent_seconds == 120.0
    with pytest.raises(BadRequestError, match="which can be resumed with --resume"):
        RunFolder.create(tmp_path)
    stopped = msgspec.structs.replace(recipe.search, unfinished=True)  # after something was proven
    write_json(tmp_path / "recipe.json", msgspec.structs.replace(recipe, search=stopped))
    assert RunFolder.resume(tmp_path).spent_seconds == 120.0


def test_a_recipe_that_is_withdrawn_leaves_a_run_to_resume(tmp_path: Path, recipe: Recipe) -> None:
    with RunFolder.create(tmp_path / "run") as folder:
        (folder.path / "run.json").write_text("{}")
        folder.save(recipe, "<html></html>")
        folder.withdraw()
        folder.withdraw()
        assert sorted(path.name for path in folder.path.iterdir()) == ["lock", "run.json"]
    assert RunFolder.resume(tmp_path / "run").path == tmp_path / "run"


def test_the_record_of_a_run_comes_back_also_from_the_schema_before(
    tmp_path: Path, machine: Machine, facts: TrainingFacts
) -> None:
    """Schema 3 had the options of the request beside its workload."""
    workload, constraint = BuildFunction("/model.py", "build", "0" * 64), Constraint(0.005, True)
    options = TuneOptions(
        budget="600s", trials=7, max_drop="0.5%", space="quick", fixed=["loader.workers=2"], seed=3, evidence="whole"
    )
    request = Request(workload, 600.0, constraint, options)
    measured = Measurement(3.0, (20.0, 0.1), (Turn((0.1,)),))
    space = SearchSpace("quick", {"loader.workers": (0, 2)}, {}, {})
    record = RunRecord(RUN_SCHEMA, request, machine, facts, {"loader.workers": 0}, measured, None, space)
    folder = RunFolder.create(tmp_path)
    assert folder.load_record() is None
    folder.save_record(record)
    assert folder.load_record() == record
    fields = json.loads((tmp_path / "run.json").read_text())
    fields["schema"] = "autoaccel/run/3"
    fields["request"] = {
        "workload": fields["request"]["workload"],
        "budget_seconds": 600.0,
        "constraint": {"max_drop": 0.005, "relative": True},
        "most_trials": 7,
        "metric_repeats": 3,
        "space": "quick",
        "fixed": ["loader.workers=2"],
        "excluded": [],
        "seed": 3,
        "runs": 20,
        "evidence": "whole",
        "max_drop_said": True,
    }
    (tmp_path / "run.json").write_text(json.dumps(fields))
    assert folder.load_record() == record
    fields["request"]["max_drop_said"] = False
    (tmp_path / "run.json").write_text(json.dumps(fields))
    loaded = folder.load_record()
    assert loaded is not None and loaded.request.options.max_drop is None and not loaded.request.may_alter
    for wrong in ({**fields, "schema": "autoaccel/run/2"}, {**fields, "request": None}):
        (tmp_path / "run.json").write_text(json.dumps(wrong))
        with pytest.raises(BadRequestError, match=r"run.json: this is not the record of a run"):
            folder.load_record()


@pytest.mark.parametrize(
    ("old", "workload"),
    [
        ({"path": "/m.py", "entry": "build", "sha256": "ab"}, BuildFunction("/m.py", "build", "ab")),
        ({"path": "/f.pkl", "entry": "build", "sha256": "ab", "pickled": True}, PickledFunction("/f.pkl", "ab")),
    ],
)
def test_a_run_from_before_workloads_had_types_is_resumed(
    old: dict[str, Any], workload: Workload, machine: Machine, facts: TrainingFacts, tmp_path: Path
) -> None:
    request = Request(workload, 60.0, Constraint(0.01, False), TuneOptions(budget="60s"))
    space = SearchSpace("small", {}, {}, {})
    record = RunRecord(RUN_SCHEMA, request, machine, facts, {}, Measurement(1.0, (), ()), None, space)
    folder = RunFolder.create(tmp_path)
    folder.save_record(record)
    assert folder.load_record() == record
    fields = json.loads((tmp_path / "run.json").read_text())
    constraint = {"max_drop": 0.01, "relative": False}
    request_of_schema_3 = {"workload": old, "budget_seconds": 60.0, "constraint": constraint}
    fields |= {"schema": "autoaccel/run/3", "request": request_of_schema_3}
    (tmp_path / "run.json").write_text(json.dumps(fields))
    assert folder.load_record() == record


def test_what_came_of_proofs_is_kept_in_order_and_a_cut_line_goes(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    assert folder.load_contenders() == [] and folder.load_pairs("proof") == []
    results = [ContenderResult({"loader.workers": count}, count, "not faster") for count in (1, 2, 3)]
    for result in results[:2]:
        folder.add_contender(result)
    path = tmp_path / "contenders.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    folder.add_contender(results[2])
    assert folder.load_contenders() == [results[0], results[2]]


def test_trials_survive_a_crash_in_the_middle_of_a_line(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    assert folder.load_trials() == []
    second = msgspec.structs.replace(TRIAL, number=2)
    folder.add_trial(TRIAL)
    folder.add_trial(second)
    path = tmp_path / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert folder.load_trials() == [TRIAL]
    # What follows the cut is a line of its own again.
    folder.add_trial(second)
    assert folder.load_trials() == [TRIAL, second]


def test_pairs_come_back_by_what_they_were_measured_for(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    measured = Measurement(3.0, (20.0, 0.1), (Turn((0.1,)),))
    pair = ProofPair({"loader.workers": 2}, 0, measured, measured, None)
    folder.add_pair(pair, "proof")
    with (tmp_path / "proof.jsonl").open("ab") as file:
        file.write(b'{"settings": ')  # cut off by a crash
    assert folder.load_pairs("proof") == [pair]
    folder.add_pair(pair, "proof")
    assert folder.load_pairs("proof") == [pair, pair]
    assert folder.load_pairs("contributions") == []


def test_a_broken_line_in_the_middle_is_told(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    (tmp_path / "trials.jsonl").write_text("nonsense\n")
    folder.add_trial(TRIAL)
    with pytest.raises(BadRequestError, match=r"trials.jsonl:1: this is not a trial"):
        folder.load_trials()


def test_a_clock_counts_what_was_spent_before() -> None:
    clock = BudgetClock(100.0, spent_seconds=60.0)
    assert clock.left == pytest.approx(40.0, abs=1.0)
    assert clock.timeout("x", share=0.2) == pytest.approx(20.0, abs=0.1)
    assert clock.timeout("x", keep=30.0) == pytest.approx(10.0, abs=1.0)
    with pytest.raises(BudgetSpentError, match="the budget was spent before the proof"):
        clock.timeout("the proof", keep=50.0)


def test_what_rounding_was_judged_by_does_not_outlast_the_run(tmp_path: Path) -> None:
    """The states of a large model would fill a disk; those of a run that was killed may be incomplete."""
    with RunFolder.create(tmp_path / "run") as folder:
        write_json(folder.path / "run.json", TRIAL)
        folder.rounding.mkdir()
        (folder.rounding / "6.pt").write_text("x")
    assert not folder.rounding.exists()
    folder.rounding.mkdir()
    with RunFolder.resume(folder.path) as resumed:
        assert not resumed.rounding.exists()


def test_where_the_rest_of_the_budget_is_too_small_what_was_proven_stays(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(*arguments: object) -> None:
        raise BudgetSpentError("too small")

    monkeypatch.setattr(tuning, "prepare", prepare)
    model = tmp_path / "model.py"
    model.touch()
    request = msgspec.structs.replace(REQUEST, workload=find_workload(str(model)))
    with RunFolder.create(tmp_path / "run") as folder:
        folder.save_request(request)
        with pytest.raises(BudgetSpentError):
            tuning.tune(request, folder, ignore)
        unfinished = msgspec.structs.replace(recipe.search, unfinished=True)
        folder.save(msgspec.structs.replace(recipe, search=unfinished), "<html></html>")
        assert tuning.tune(request, folder, ignore) == recipe == folder.load_recipe()
