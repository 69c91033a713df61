"""The rows of benchmarks/results: what was measured, by which code, on which machine, when. Rows are only ever added.

Each result is a file of lines, `benchmarks/results/NAME.jsonl`, a row a line. A row that is measured again is added
below the older one, and the last one of its name counts. A run that failed or did not come to an end is a row as well,
with its reason; it does not count, and hides nothing.

    add_row("live", "char_gpt", {"picks": ...}, code=("autoaccel", "benchmarks/studies/live.py"))

A row names the code that it speaks of, files or folders, with a digest of each as it was when the row was measured. A
row is stale when one of these digests is another today; that needs no history, so it holds in a shallow clone, after a
rebase, and for code that was never committed.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from autoaccel.machine.cpu import read_cpu
from autoaccel.machine.topology import read_logical_cpus
from autoaccel.records.base import Record, decode, encode

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
UNKNOWN = "unknown"
_DIGITS = 16  # of a digest, in hexadecimal
_BESIDE = {"autoaccel": "search_spaces"}  # part of the package that lies beside it
_MOVED = {
    "autoaccel/session/rounding.py": "autoaccel/bench/rounding.py",
    "benchmarks/rounding_plants.py": "benchmarks/studies/rounding/plants.py",
    "benchmarks/rounding_trainings.py": "benchmarks/studies/rounding/trainings.py",
}
"""Earlier path of a file -> where it lies now; its digest is that under the earlier path."""

RowStatus = Literal["measured", "failed", "incomplete"]


class Provenance(Record, frozen=True):
    """By which code, where and when a row was measured; `UNKNOWN` what was not kept."""

    date: str
    """UTC, ISO 8601, to the second."""
    commit: str
    changed: bool | None
    """Whether tracked files differed from the commit, None where it is not known.

    Committed results do not count: a benchmark adds to them."""
    cpu: str
    """Model, and family.model.stepping where the kernel tells them: one name may stand for several generations."""
    cores: int | None
    """That this process may use."""
    torch: str
    code: dict[str, str]
    """File or folder of the repository -> digest; what the row speaks of."""
    note: str = ""
    """How the provenance was found out, where it was not written down when the row was measured."""


class Row(Record, frozen=True):
    """What was measured under one name."""

    name: str
    status: RowStatus = msgspec.field(name="outcome")
    reason: str
    """Why there is no result; empty where it was measured."""
    made: Provenance
    found: dict[str, Any]


def provenance(code: Sequence[str] = ("autoaccel",), *, torch: str = "") -> Provenance:
    """Return what a row measured now, on this machine, has to say of itself.

    Args:
        code: Files or folders of the repository that the row speaks of.
        torch: Its version where another environment than this process's measured.
    """
    return Provenance(
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        commit=_git("rev-parse", "HEAD") or UNKNOWN,
        changed=bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")),
        cpu=this_cpu(),
        cores=len(os.sched_getaffinity(0)),
        torch=torch or _torch_version(),
        code={path: digest(path) for path in sorted(code)},
    )


def this_cpu() -> str:
    """Return what a row calls the CPU of this machine."""
    cpu = read_cpu(Path("/"), read_logical_cpus(Path("/")))
    return f"{cpu.model} {cpu.revision}".strip()


def add_row(
    result: str,
    name: str,
    found: Mapping[str, Any],
    *,
    code: Sequence[str] = ("autoaccel",),
    made: Provenance | None = None,
    status: RowStatus = "measured",
    reason: str = "",
) -> None:
    """Add a row to a result; `made` where it was measured elsewhere or before, else `provenance(code)`."""
    if (status == "measured") == bool(reason):
        raise ValueError(f"a row has a reason if, and only if, it was not measured: {status!r}, {reason!r}")
    row = Row(name, status, reason, made or provenance(code), dict(found))
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{result}.jsonl").open("ab") as file:
        file.write(encode(row).replace(f"{ROOT}/".encode(), b"") + b"\n")  # an error may name where the checkout lies


def read_rows(result: str) -> list[Row]:
    """Return all rows of a result, in the order in which they were added; none if nothing was measured."""
    path = RESULTS / f"{result}.jsonl"
    return [decode(line, Row) for line in path.read_bytes().splitlines()] if path.exists() else []


def of_this_cpu(rows: Iterable[Row]) -> list[Row]:
    """Return those measured on a CPU like this one: what is best on another need not be here."""
    cpu = this_cpu()
    return [row for row in rows if row.made.cpu == cpu]


def latest(rows: Iterable[Row]) -> dict[str, Row]:
    """Return name -> the last row that was measured, in the order of the names."""
    found = {row.name: row for row in rows if row.status == "measured"}
    return dict(sorted(found.items()))


def is_stale(row: Row, today: Mapping[str, str] | None = None) -> bool:
    """Return whether code that the row speaks of is another today; a row that names none cannot tell, and is.

    Args:
        row: Any row.
        today: Path -> digest, where they were taken before; else they are taken now.
    """
    now = {path: digest(path) for path in row.made.code} if today is None else today
    return not row.made.code or any(now[path] != then for path, then in row.made.code.items())


def is_fresh(result: str, name: str) -> bool:
    """Return whether this was measured with today's code, so that a resumed run leaves it out."""
    row = latest(read_rows(result)).get(name)
    return row is not None and not is_stale(row)


def to_measure(result: str, names: Iterable[str]) -> list[str]:
    """Return those of the names that were not measured with today's code."""
    return [name for name in names if not is_fresh(result, name)]


def runs_folder(result: str) -> Path:
    """Return where runs of today's code lie: a resumed run must not find a recipe of an earlier version."""
    return ROOT / "autoaccel-runs" / result / digest("autoaccel")


def digest(path: str, root: Path | None = None) -> str:
    """Return a digest of a file, or of all files in a folder with their names; empty if there is none.

    The digest of the package covers its search spaces, which lie beside it.

    Args:
        path: As seen from the root of the repository.
        root: Of another copy of the repository than this one.
    """
    root = root or ROOT
    tops = [root / _MOVED.get(path, path), *([root / _BESIDE[path]] if path in _BESIDE else [])]
    files = sorted(file for top in tops for file in (top, *top.rglob("*")))
    counted = [file for file in files if file.is_file() and "__pycache__" not in file.parts]
    if not counted:
        return ""
    summed = hashlib.sha256()
    for file in counted:
        name = path if path in _MOVED else file.relative_to(root).as_posix()
        summed.update(f"{name}\0".encode())
        summed.update(hashlib.sha256(file.read_bytes()).digest())
    return summed.hexdigest()[:_DIGITS]


@functools.cache
def _torch_version() -> str:
    import torch

    return str(torch.__version__)


def _git(*arguments: str) -> str:
    """Return what git says, or nothing where there is no git or no history."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
