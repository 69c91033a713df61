"""Worker jobs for a cluster: the script runs as bash reads it, and goes to sbatch as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.launch.submitting import array_script, job_script, submit


def test_each_worker_runs_the_command_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """Names with spaces and signs come through the shell whole."""
    folder = tmp_path / "a $HOME of 'mine'"
    folder.mkdir()
    options = ["--storage", "a b.journal", "--budget", "1m"]
    script = array_script(options, ["none $x.py", "--", "--epochs", "3 4"], "runs/my model", 8, 60.0, folder)
    head = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --array=1-8" in head and "#SBATCH --exclusive" in head
    assert "#SBATCH --time=11" in head  # the budget and ten minutes
    shown = script.replace(f"exec {sys.executable} -m autoaccel", 'printf "%s\\n" "$PWD"')
    environment = {**os.environ, "SLURM_ARRAY_JOB_ID": "42", "SLURM_ARRAY_TASK_ID": "3"}
    done = subprocess.run(["bash", "-e"], input=shown, env=environment, capture_output=True, text=True, check=True)
    told = ["tune", *options, "--output", "runs/my model-42-3", "none $x.py", "--", "--epochs", "3 4"]
    assert done.stdout.splitlines() == [str(folder), *told]


def test_the_script_goes_to_sbatch_whose_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadRequestError, match="--dry-run"):
        submit("x")
    stub = tmp_path / "sbatch"
    stub.write_text('#!/bin/sh\nread line\n[ "$line" = good ] || { echo "no such partition" >&2; exit 1; }\necho 42\n')
    stub.chmod(0o755)
    assert submit("good\n") == "42"
    with pytest.raises(AutoaccelError, match="no such partition"):
        submit("bad\n")


def test_one_command_is_a_job_alone_on_a_machine(tmp_path: Path) -> None:
    script = job_script(["verify", "--accuracy", "a b/recipe.json", "none $x.py"], 3 * 3600.0, tmp_path)
    head = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --exclusive" in head and "#SBATCH --time=190" in head
    assert not any("array" in line for line in head)
    shown = script.replace(f"exec {sys.executable} -m autoaccel", 'printf "%s\\n" "$PWD"')
    done = subprocess.run(["bash", "-e"], input=shown, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(tmp_path), "verify", "--accuracy", "a b/recipe.json", "none $x.py"]
