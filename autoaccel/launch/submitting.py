"""Hand jobs to a cluster's queue: one, or a Slurm array of a study's workers, each alone on a machine."""

from __future__ import annotations

import math
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autoaccel.errors import AutoaccelError, BadRequestError

_MARGIN_SECONDS = 600.0  # that a job may take beyond its budget: to load torch from a shared folder, above all
_AUTOACCEL = (sys.executable, "-m", "autoaccel")


def array_script(
    options: Sequence[str], training: Sequence[str], output: str, workers: int, budget_seconds: float, folder: Path
) -> str:
    """Return the sbatch script of so many workers of one study.

    Args:
        options: Of the `autoaccel tune` that each of them runs, but for the folder of its run.
        training: The file, and arguments of its own.
        output: How each folder begins; the numbers of job and worker follow.
        workers: How many, each alone on a machine.
        budget_seconds: Of each; the queue ends it some time after that.
        folder: Where it runs.
    """
    command = shlex.join([*_AUTOACCEL, "tune", *options])
    numbered = f'{shlex.quote(output)}-"$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"'
    head = (f"--array=1-{workers}", "--output=autoaccel-%A-%a.log")
    return _script(head, f"{command} --output {numbered} {shlex.join(training)}", budget_seconds, folder)


def job_script(arguments: Sequence[str], budget_seconds: float, folder: Path) -> str:
    """Return the sbatch script of one command, alone on a machine.

    Args:
        arguments: Of `autoaccel`.
        budget_seconds: That it takes at most; the queue ends it some time after that.
        folder: Where it runs.
    """
    return _script(("--output=autoaccel-%j.log",), shlex.join([*_AUTOACCEL, *arguments]), budget_seconds, folder)


def _script(head: Sequence[str], command: str, budget_seconds: float, folder: Path) -> str:
    minutes = math.ceil((budget_seconds + _MARGIN_SECONDS) / 60)
    alone = ("--job-name=autoaccel", "--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", f"--time={minutes}")
    options = "\n".join(f"#SBATCH {option}" for option in (*alone, *head))
    return f"""#!/bin/bash
{options}

cd {shlex.quote(str(folder))} || exit 2
# exec: who cancels the job then tells autoaccel itself, so that it gives up what it measures at once.
exec {command}
"""


def submit(script: str) -> str:
    """Hand the script to Slurm; return what sbatch says.

    Raises:
        BadRequestError: If there is no Slurm here.
        AutoaccelError: If it refuses the script.
    """
    if shutil.which("sbatch") is None:
        raise BadRequestError("--with slurm: there is no sbatch here. See the script with --dry-run.")
    done = subprocess.run(["sbatch"], input=script, capture_output=True, text=True)
    if done.returncode != 0:
        raise AutoaccelError(f"sbatch refused the jobs: {done.stderr.strip()}")
    return done.stdout.strip()
