"""Commands of autoaccel itself as Slurm jobs: workers that share a study, or one check; each alone on a machine."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from autoaccel.export.batch import Batch, batch_script
from autoaccel.text import shell_command, shell_word

_MARGIN_SECONDS = 600.0  # that a job may take beyond its budget: to load torch from a shared folder, above all
_AUTOACCEL = (sys.executable, "-m", "autoaccel")


class TuneCommand(NamedTuple):
    """The `autoaccel tune` that every worker of a study runs."""

    options: Sequence[str]  # all but the folder of its run
    training: Sequence[str]  # the file, and arguments of its own
    output: str  # how the folder of each run begins; the numbers of job and worker follow


def array_batch(tune: TuneCommand, workers: int, budget_seconds: float) -> Batch:
    """Return an array of so many workers of one study.

    Args:
        tune: What each of them runs, in the working folder.
        workers: How many, each alone on a machine.
        budget_seconds: Of each; the queue ends it some time after that.
    """
    numbered = f'{shell_word(tune.output)}-"$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"'
    command = shell_command([*_AUTOACCEL, "tune", *tune.options])
    options = {"array": f"1-{workers}", "output": "autoaccel-%A-%a.log"}
    return _batch(options, f"{command} --output {numbered} {shell_command(tune.training)}", budget_seconds)


def job_batch(arguments: Sequence[str], budget_seconds: float) -> Batch:
    """Return one command as a job that is alone on a machine.

    Args:
        arguments: Of `autoaccel`, which runs in the working folder.
        budget_seconds: That it takes at most; the queue ends it some time after that.
    """
    return _batch({"output": "autoaccel-%j.log"}, shell_command([*_AUTOACCEL, *arguments]), budget_seconds)


def _batch(options: dict[str, str], command: str, budget_seconds: float) -> Batch:
    minutes = math.ceil((budget_seconds + _MARGIN_SECONDS) / 60)
    alone = {"job-name": "autoaccel", "nodes": "1", "ntasks": "1", "exclusive": "", "mem": "0", "time": str(minutes)}
    lines = [
        f"cd {shell_word(str(Path.cwd()))} || exit 2",
        "# exec: cancelling the job then signals autoaccel itself, which stops measuring at once.",
        f"exec {command}",
    ]
    return Batch(batch_script(alone | options, lines), Path.cwd() / options["output"])
