"""The names of run folders: `autoaccel-runs/model-1`, `-2`, ..."""

from __future__ import annotations

from pathlib import Path

from autoaccel.errors import BadRequestError

RUNS = Path("autoaccel-runs")
"""Where runs go unless told otherwise, in the working folder."""


def next_run_path(stem: str, runs: Path = RUNS) -> Path:
    """Return a new folder for a run of this workload: `autoaccel-runs/model-1`, `-2`, ..."""
    taken = [int(path.name.rpartition("-")[2]) for path in _runs_of(stem, runs)]
    return runs / f"{stem}-{max(taken, default=0) + 1}"


def latest_run_path(stem: str, runs: Path = RUNS) -> Path:
    """Return the newest folder of a run of this workload.

    Raises:
        BadRequestError: If there is none.
    """
    found = _runs_of(stem, runs)
    if not found:
        raise BadRequestError(f"{runs}: there is no run of {stem} to resume. Name its folder with --output.")
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]))


def _runs_of(stem: str, runs: Path) -> list[Path]:
    numbered = (path for path in runs.glob("*-*") if path.name.rpartition("-")[2].isdecimal())
    return [path for path in numbered if path.name.rpartition("-")[0] == stem]
