"""Run a script from its first line to its last, and tune it while it trains."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.workload import Workload
from autoaccel.space.search_space import check_wishes
from autoaccel.workers.processes import WholeRun, processes_of


def become_tuned_script(workload: Workload, space: str) -> None:
    """Become the script, tuned while it trains: streams, signals and exit code are its own.

    This returns if the training is a function.

    Args:
        workload: The script.
        space: Name of a search space, or the path of its file.

    Raises:
        BadRequestError: If the script is a launcher, whose processes train, or there is no such search space.
    """
    check_wishes(space)
    if workload.launcher is not None:
        raise BadRequestError("several processes are not tuned while they train: tune first, and run with the recipe.")
    processes_of(workload).become(partial(_whole_run, workload, space))


def _whole_run(workload: Workload, space: str) -> WholeRun:
    path = Path(space)
    task = TuneLive(str(path.absolute()) if path.suffix == ".toml" else space)  # it may go to another folder
    return WorkerSpec(task=task, workload=workload), dict(os.environ)
