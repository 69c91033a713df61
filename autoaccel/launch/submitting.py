"""Hand worker jobs to a cluster's queue: the script of a Slurm array, one exclusive machine per worker."""

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
    command = shlex.join([sys.executable, "-m", "autoaccel", "tune", *options])
    minutes = math.ceil((budget_seconds + _MARGIN_SECONDS) / 60)
    return f"""#!/bin/bash
#SBATCH --job-name=autoaccel
#SBATCH --array=1-{workers}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time={minutes}
#SBATCH --output=autoaccel-%A-%a.log

cd {shlex.quote(str(folder))} || exit 2
# exec: who cancels the job then tells the worker itself, so that it gives up what it measures at once.
exec {command} --output {shlex.quote(output)}-"$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID" {shlex.join(training)}
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
