"""How processes of a training are started: a function's are ours, a script is its own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Describe, Probe, Probed, WorkerSpec
from autoaccel.records.workload import BuildFunction, PickledFunction, Script
from autoaccel.workers.processes import OUR_PROCESSES, processes_of
from autoaccel.workers.starter import UnmeasuredRun, WorkerStarter
from tests.shared_servers import SharedServer

FUNCTION = BuildFunction("/model.py", "build", "0" * 64)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    path = tmp_path / "own" / "train.py"
    path.parent.mkdir()
    path.write_text("raise SystemExit('it was run')\n")
    return Script(str(path), "train.py", str(path.parent), "0" * 64, ("--epochs", "3"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_of_a_function_nothing_is_special(tmp_path: Path) -> None:
    for workload in (None, FUNCTION, PickledFunction("/model.pkl", "0" * 64)):
        processes = processes_of(workload, [tmp_path])
        spec = WorkerSpec(Describe(), workload)
        assert processes is OUR_PROCESSES and processes.prepared(spec) == (spec, None)
        assert not processes.starts_anew and processes.protection is None
        assert processes.variables(spec, {}, tmp_path) == {} and processes.written() == processes.folders() == []
        processes.become(pytest.fail)  # it returns, and asks nothing


def test_a_script_is_told_its_arguments_and_has_a_view_unless_it_works_in_place(script: Script, run: Path) -> None:
    spec = WorkerSpec(Describe(), script, settings={"loader.workers": 2})
    in_place = processes_of(script)
    assert in_place.prepared(spec) == (spec, None) and in_place.folders() == []
    assert in_place.starts_anew and in_place.protection is not None and in_place.protection.kind == "none"
    with pytest.raises(BadRequestError, match="hold the script's argument lr=3, which was not asked for"):
        in_place.prepared(WorkerSpec(Describe(), script, settings={"arg.lr": "3"}))
    apart = processes_of(script, [run])
    try:
        told, view = apart.prepared(spec)
        assert view is not None and (told.covered or told.scratch == str(view.scratch))
        assert all(folder.is_dir() for folder in apart.folders()) and apart.folders()
    finally:
        apart.close()
    assert not any(folder.exists() for folder in apart.folders())


def test_a_probe_runs_nothing_of_a_script(script: Script, run: Path, function_server: SharedServer) -> None:
    with WorkerStarter(run, script) as starter:
        answer = function_server.serve(starter).ask(Probe(), {}, "probe", Probed, 300.0)
        assert isinstance(answer, Probed)
        assert starter.written == [] and "it was run" not in (run / "logs" / "probe.log").read_text()


@pytest.mark.parametrize("measures", [True, False])
def test_only_of_a_script_that_is_measured_people_are_told_how_their_files_are_kept(
    measures: bool, script: Script, run: Path
) -> None:
    unmeasured = None if measures else UnmeasuredRun()
    with WorkerStarter(run, script, unmeasured) as starter:
        assert (starter.protection is not None) == measures
    with WorkerStarter(run, FUNCTION, unmeasured) as starter:
        assert starter.protection is None


def test_a_worker_of_a_script_has_not_imported_torch(script: Script) -> None:
    for workload in (script, FUNCTION):
        module = importlib.import_module(f"autoaccel.{WorkerSpec(Describe(), workload).served_by}")
        assert callable(module.main)
    assert WorkerSpec(Probe()).served_by == FUNCTION.served_by
    code = f"import sys, autoaccel.{script.served_by}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
