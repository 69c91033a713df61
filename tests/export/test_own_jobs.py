"""Worker jobs for a cluster: the script runs as bash reads it, and goes to sbatch as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.export.batch import Batch, submit, submit_and_wait
from autoaccel.export.own_jobs import TuneCommand, array_batch, job_batch


def test_each_worker_runs_the_command_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with spaces and signs come through the shell whole."""
    folder = tmp_path / "a $HOME of 'mine'"
    folder.mkdir()
    monkeypatch.chdir(folder)
    options = ["--storage", "a b.journal", "--budget", "1m"]
    tune = TuneCommand(options, ["none $x.py", "--", "--epochs", "3 4"], "runs/my model")
    script = array_batch(tune, 8, 60.0).script
    head = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --array=1-8" in head and "#SBATCH --exclusive" in head
    assert "#SBATCH --time=11" in head  # the budget and ten minutes
    shown = script.replace(f"exec {sys.executable} -m autoaccel", 'printf "%s\\n" "$PWD"')
    environment = {**os.environ, "SLURM_ARRAY_JOB_ID": "42", "SLURM_ARRAY_TASK_ID": "3"}
    done = subprocess.run(["bash", "-e"], input=shown, env=environment, capture_output=True, text=True, check=True)
    told = ["tune", *options, "--output", "runs/my model-42-3", "none $x.py", "--", "--epochs", "3 4"]
    assert done.stdout.splitlines() == [str(folder), *told]


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a stub that takes good scripts only; nothing is there yet, and nothing else is found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "sbatch"


def write_stub(sbatch: Path) -> None:
    sbatch.write_text(
        '#!/bin/sh\nread line\n[ "$line" = good ] || { echo "no such partition" >&2; exit 1; }\n'
        '[ "$1" = --test-only ] || echo 42\n'
    )
    sbatch.chmod(0o755)


def test_the_script_goes_to_sbatch_whose_refusal_is_told(sbatch: Path) -> None:
    with pytest.raises(BadRequestError, match="--dry-run"):
        submit(Batch("x", Path("x")), print)
    write_stub(sbatch)
    assert submit(Batch("good\n", Path("x")), print) == "42"
    with pytest.raises(BadRequestError, match="no such partition"):
        submit(Batch("bad\n", Path("x")), print)


def test_what_jobs_of_an_array_print_is_followed_by_one_command(
    sbatch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_stub(sbatch)
    (tmp_path / "my logs").mkdir()
    for worker in (1, 2):
        (tmp_path / "my logs" / f"autoaccel-42-{worker}.log").write_text(f"worker {worker}\n")
    submit(Batch("good\n", tmp_path / "my logs" / "autoaccel-%A-%a.log"), print)
    how_to_end, how_to_follow = capsys.readouterr().out.splitlines()
    assert how_to_end.endswith("scancel 42")
    follow = how_to_follow.partition("tail -F ")[2]
    told = subprocess.run(["/bin/bash", "-c", f"/bin/cat {follow}"], capture_output=True, text=True, check=True)
    assert told.stdout == "worker 1\nworker 2\n"


def test_one_command_is_a_job_alone_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    batch = job_batch(["verify", "--accuracy", "a b/recipe.json", "none $x.py"], 3 * 3600.0)
    head = [line for line in batch.script.splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --exclusive" in head and "#SBATCH --time=190" in head
    assert not any("array" in line for line in head)
    assert batch.output_of("7") == tmp_path / "autoaccel-7.log"
    shown = batch.script.replace(f"exec {sys.executable} -m autoaccel", 'printf "%s\\n" "$PWD"')
    done = subprocess.run(["bash", "-e"], input=shown, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(tmp_path), "verify", "--accuracy", "a b/recipe.json", "none $x.py"]


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_job_that_is_waited_for_tells_what_it_printed_and_how_it_ended(
    sbatch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], exit_code: int
) -> None:
    sbatch.write_text(
        '#!/bin/sh\n[ "$1" = --test-only ] && exit 0\necho 42\n'
        f'echo trained > "{tmp_path}/job-42.out"\nexit {exit_code}\n'
    )
    sbatch.chmod(0o755)
    # More than a pipe holds: this sbatch, like one that refuses its options, ends without having read it.
    script = "x\n" * 100_000
    assert submit_and_wait(Batch(script, tmp_path / "job-%j.out"), print) == exit_code
    *_, how_to_follow, printed = capsys.readouterr().out.splitlines()
    assert how_to_follow == f"Follow its output: tail -F {tmp_path}/job-42.out"
    assert printed == "trained"
