"""The pieces in which a workload is measured: each is a row of its own, that today's code has measured or has not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.harness.rows import Row, is_stale

PIECES = ("autoaccel", "grid", "optuna", "run_cpu", "side_by_side")
"""In this order: what others chose is compared last."""

_WHOLE_SECONDS = {"autoaccel": 660.0, "optuna": 660.0, "run_cpu": 300.0}
"""What a piece takes that must be measured in one go. Of the others each reading, or round, is kept."""

_PLAIN_CODE = (
    "autoaccel/runtime/applied.py",
    "autoaccel/runtime/knobs",
    "autoaccel/space/knobs",
    "benchmarks/harness/peers.py",
    "benchmarks/harness/side_by_side.py",
    "benchmarks/spaces/unseen.toml",
    "benchmarks/studies/unseen/plain.py",
    "benchmarks/studies/unseen/searches.py",
    "benchmarks/studies/unseen/suite.py",
)
CODE = {
    "autoaccel": ("autoaccel", "benchmarks/studies/unseen/tunes.py"),
    "grid": _PLAIN_CODE,
    "optuna": _PLAIN_CODE,
    "run_cpu": _PLAIN_CODE,
    "side_by_side": (
        "autoaccel/workers",
        "autoaccel/runtime",
        "autoaccel/space/knobs",
        "autoaccel/statistics",
        "benchmarks/harness/side_by_side.py",
        "benchmarks/studies/unseen/rounds.py",
        "benchmarks/studies/unseen/scores.py",
    ),
}
"""Piece -> files and folders that decide on it, beside the workload's own."""

CHOOSING = {"autoaccel": "autoaccel", "grid": "grid's best", "optuna": "optuna", "run_cpu": "run_cpu"}
"""Piece in which somebody chooses settings -> the name under which they are compared."""
_COMPARED_LEAST = ("autoaccel", "grid")

Choices = dict[str, dict[str, Any]]
"""Name -> settings that differ from the user's own, environment, affinity."""


def row_name(workload: str, piece: str) -> str:
    """Return the name of a piece's row."""
    return f"{workload}: {piece}"


def choices_in(rows: Mapping[str, Row], workload: str) -> Choices:
    """Return what was chosen for a workload, as far as that was found out."""
    found = {who: rows.get(row_name(workload, piece)) for piece, who in CHOOSING.items()}
    return {who: row.found["choice"] for who, row in found.items() if row is not None}


def why_later(
    rows: Mapping[str, Row], workload: str, piece: str, seconds_left: float, left: Collection[str] = ()
) -> str:
    """Return why a piece is not measured now; empty if it is.

    Args:
        rows: Name -> row, of what was measured.
        workload: Its name.
        piece: Wanted one.
        seconds_left: Until this run ends.
        left: Workloads of which another piece was left for another run.
    """
    if piece == "side_by_side":
        missing = [one for one in _COMPARED_LEAST if row_name(workload, one) not in rows]
        if missing:
            return f"there is nothing to compare without the pieces {' and '.join(missing)}"
        return "other pieces come first" if workload in left else ""
    needed = _WHOLE_SECONDS.get(piece, 0.0)
    return f"it takes about {needed / 60:.0f} minutes in one go" if seconds_left < needed else ""


def is_done(rows: Mapping[str, Row], workload: str, piece: str) -> bool:
    """Return whether a piece was measured with today's code and, of a comparison, with what is chosen now."""
    row = rows.get(row_name(workload, piece))
    if row is None or is_stale(row):
        return False
    return piece != "side_by_side" or row.found["choices"] == choices_in(rows, workload)


def to_measure(rows: Mapping[str, Row], workloads: Sequence[str], pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield workload and piece of what is not done when it is asked for: all pieces of a workload, then the next.

    Args:
        rows: Name -> row; those that are added meanwhile count.
        workloads: Their names.
        pieces: Wanted ones.
    """
    for workload in workloads:
        for piece in (one for one in PIECES if one in pieces):
            if not is_done(rows, workload, piece):
                yield workload, piece
