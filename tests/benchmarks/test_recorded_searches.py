"""Replayed searches make the very decisions that recorded ones made: what is restructured decides as before.

Whoever changes a decision on purpose records them anew: PYTHONPATH=. python THIS_FILE
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoaccel.records.settings import describe_change
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.simulated_machines import measure as machines
from benchmarks.studies.tables.halves import Splits
from benchmarks.studies.tables.proofs import ReplayTask, run
from benchmarks.studies.tables.simulate import SHARE

RECORDED = Path(__file__).parent / "recorded_searches.json"
PLANNED_STEPS = 50_000


def on_table(name: str, seed: int) -> list[tuple[float, str]]:
    """Return when a whole run on a table held which settings, in seconds, its proof included."""
    table = Splits(read_table(TABLES / f"{name}.jsonl.gz"))
    _, replayed = table.half(seed)
    budget_seconds = SHARE * table.whole.grid_seconds
    history = run(ReplayTask(replayed, PLANNED_STEPS, budget_seconds, seed))
    return [
        (round(seconds, 3), describe_change(settings, table.whole.table.head.baseline_settings))
        for seconds, settings in history
    ]


def on_machine(name: str, seed: int) -> list[str]:
    """Return the trials of a search on a recorded machine."""
    case = machines.make_case(machines.recorded_machines()[name], seed)
    return [describe_change(trial.settings, case.baseline) for trial in machines.search(case, seed).trials]


def recorded(group: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads(RECORDED.read_text())[group]
    return found


@pytest.mark.parametrize("name", recorded("tables"))
def test_a_run_replayed_from_a_table_is_the_recorded_one(name: str) -> None:
    table, seed = name.split()
    found, expected = on_table(table, int(seed)), recorded("tables")[name]
    assert [settings for _, settings in found] == [settings for _, settings in expected]
    assert [seconds for seconds, _ in found] == pytest.approx([seconds for seconds, _ in expected], abs=0.01)


@pytest.mark.parametrize("name", recorded("machines"))
def test_a_search_on_a_recorded_machine_is_the_recorded_one(name: str) -> None:
    """One of them in a space that is too large to weigh as a whole."""
    machine, seed = name.split()
    assert on_machine(machine, int(seed)) == recorded("machines")[name]


def record() -> None:
    """Write the searches of today."""
    tables = {name: on_table(name.split()[0], int(name.split()[1])) for name in recorded("tables")}
    on_machines = {name: on_machine(name.split()[0], int(name.split()[1])) for name in recorded("machines")}
    RECORDED.write_text(_a_line_each({"tables": tables, "machines": on_machines}))


def _a_line_each(found: dict[str, Any]) -> str:
    """Return the searches as JSON with a line for each step, so that what has changed can be read off."""
    groups = []
    for group, searches in found.items():
        steps = {name: ",\n".join(f"   {json.dumps(step)}" for step in search) for name, search in searches.items()}
        rows = ",\n".join(f"  {json.dumps(name)}: [\n{lines}\n  ]" for name, lines in steps.items())
        groups.append(f" {json.dumps(group)}: {{\n{rows}\n }}")
    return "{\n" + ",\n".join(groups) + "\n}\n"


if __name__ == "__main__":
    record()
