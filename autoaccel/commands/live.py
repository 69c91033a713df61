"""Train from the first line to the last, and tune by the steps that are made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.workload import Workload
from autoaccel.runs.history import training_key
from autoaccel.runs.run_names import next_run_path
from autoaccel.space.search_space import check_wishes
from autoaccel.workers.processes import processes_of
from autoaccel.workers.this_process import this_process


def become_tuned(workload: Workload, space: str, seed: int, with_history: bool) -> NoReturn:
    """Become the training, tuned while it trains: streams, signals and exit code are its own.

    Args:
        workload: What is trained.
        space: Name of a search space, or the path of its file.
        seed: Of what build() returns.
        with_history: Whether it begins with what earlier runs have found, and leaves its own for the next.

    Raises:
        BadRequestError: If there is no such search space, or a launcher starts processes for what build() returns.
    """
    check_wishes(space)
    if this_process().is_launched:
        workload.must_be_script(
            f"{Path(workload.path).name}: processes of a launcher train what build() returns with a recipe only: tune "
            "it first, without the launcher."
        )
    path = Path(space)
    # Absolute: a script may go to another folder.
    named = str(path.absolute()) if path.suffix == ".toml" else space
    task = TuneLive(
        space=named,
        folder=str(next_run_path(Path(workload.path).stem).absolute()),
        seed=seed,
        training=workload.path if workload.part == "__main__" else f"{workload.path}:{workload.part}",
        training_key=training_key(workload) if with_history else "",
    )
    processes_of(workload).become_tuned((WorkerSpec(task=task, workload=workload), dict(os.environ)))
