"""Tell whether a training is still the one that a run began with."""

from __future__ import annotations

import shlex
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.records.workload import Workload


def check_same_training(began: Workload, present: Workload) -> None:
    """Refuse to resume with a training whose trials would be another training's.

    Args:
        began: What the run began with.
        present: What it is to be resumed with; how a person has typed the name of the same file does not matter.

    Raises:
        BadRequestError: Naming what differs, and what to do.
    """
    if present.however_typed == began.however_typed:
        return
    name = Path(present.path).name
    if present.sha256 != began.sha256:
        raise BadRequestError(
            f"{present.path}: has changed since the run began, so its trials no longer hold. Start without --resume, "
            "or put the file back as it was."
        )
    if present.arguments != began.arguments:
        raise BadRequestError(
            f"{name}: the run began with other arguments after --. Leave them out to resume with those, or start "
            "without --resume."
        )
    if present.part == began.part and present.folder != began.folder:
        raise BadRequestError(f"{name}: the run began in {began.folder}. Resume it there, or start without --resume.")
    raise BadRequestError(
        f"{name}: the run began with another training: {_target(began)}, not {_target(present)}. Resume that, or start "
        "without --resume."
    )


def _target(workload: Workload) -> str:
    """Return how the command line names a training."""
    stdin = ["--stdin", workload.stdin] if workload.stdin else []
    return shlex.join([*stdin, *workload.target(workload.path)])
