"""A table: every setting of a space, measured again and again on one machine, with all raw step times.

Lines of JSON, compressed: a TableHead, then one Visit after another in the order in which they were measured.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.profile import Finding, Profile
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts

TABLES = Path(__file__).parents[1] / "results" / "tables"
CODE = ("benchmarks/harness/replay.py", "benchmarks/harness/table.py")
"""What rows of whatever is replayed on tables speak of, besides its own code."""
DIGITS = 6  # of a second: times are kept to the microsecond


class TableHead(Record, frozen=True):
    """What was measured, where, and what is known before any search."""

    schema: str
    workload: str
    machine: Machine
    facts: TrainingFacts
    baseline_settings: Settings = msgspec.field(name="own")
    space: SearchSpace
    profile: Profile
    findings: tuple[Finding, ...]
    baseline: Measurement
    prepare_seconds: float  # probe and describe
    profile_seconds: float
    turn_seconds: float


class Visit(Record, frozen=True):
    """One process under some settings, measured in turns with the baseline's."""

    round: int
    settings: Settings
    outcome: Measurement | Failure
    baseline_turns: tuple[Turn, ...] = msgspec.field(name="own_turns")
    spent_seconds: float
    cold: bool  # it compiled what no process before it had compiled
    trusted: bool = True  # enough of its turns were undisturbed


@dataclass(frozen=True)
class Table:
    """A head and its visits, in the order in which they were measured."""

    head: TableHead
    visits: Sequence[Visit]


def read_table(path: Path) -> Table:
    """Return the table in a file, compressed or not; a last line that was cut off is left out."""
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")
    return Table(decode(lines[0], TableHead), [decode(line, Visit) for line in lines[1:-1]])


def write_table(table: Table, path: Path) -> None:
    """Write a table, compressed; the same table gives the same bytes."""
    lines = [encode(table.head), *map(encode, table.visits)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", compresslevel=9, mtime=0))
