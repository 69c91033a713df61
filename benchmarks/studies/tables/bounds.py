"""What advice is worth to a search: on the tables, with a space that bounds narrow, without, and without findings.

    python -m benchmarks.studies.tables.bounds [--searches 200] [--steps own|50|50000 ...] [NAME ...]

For each table: which knobs the bounds close, whether the best setting of the whole table is still among those that are
searched, and how long searches take and how close they come. Results go to benchmarks/results/bounds.jsonl; minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from autoaccel.records.profile import Finding
from autoaccel.records.space import SearchSpace
from autoaccel.space.narrow import narrow
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.recorded import MIN_SPEEDUP
from benchmarks.harness.replay import Facts
from benchmarks.harness.rows import add_row
from benchmarks.studies.tables.proofs import ReplayTask
from benchmarks.studies.tables.simulate import SHARE, horizons, judge, made_from, search_space


def narrowed_space(facts: Facts) -> SearchSpace:
    """Return the space that `autoaccel tune` would search: what the bounds leave of the table's."""
    head = facts.table.head
    return narrow(head.space, head.baseline_settings, facts.findings, MIN_SPEEDUP)


def what_is_left(facts: Facts, planned_steps: int) -> dict[str, Any]:
    """Return what bounds close, and whether the best is still among the rest."""
    head, space = facts.table.head, narrowed_space(facts)
    totals = {key: facts.total_seconds(facts.settings[key], planned_steps) for key in facts.visits}
    best = min(totals, key=totals.__getitem__)
    kept = [key for key in totals if _is_in(facts, key, space)]
    return {
        "closed": {name: why for name, why in space.closed.items() if name in head.space.open},
        "settings": head.space.size,
        "settings_searched": space.size,
        "best": best,
        "best_is_searched": best in kept,
        "best_searched_over_best": min(totals[key] for key in kept) / totals[best],
    }


def compare(facts: Facts, planned_steps: int, searches: int) -> dict[str, dict[str, Any]]:
    """Return what searches with and without bounds come to."""
    head = facts.table.head
    variants: dict[str, tuple[SearchSpace, Sequence[Finding]]] = {
        "narrowed": (narrowed_space(facts), facts.findings),
        "not narrowed": (head.space, facts.findings),
        "without findings": (head.space, ()),
    }
    budget_seconds = SHARE * facts.grid_seconds
    return {
        name: judge(
            facts,
            planned_steps,
            [
                search_space(ReplayTask(facts, planned_steps, budget_seconds, seed), space, found)
                for seed in range(searches)
            ],
        )
        for name, (space, found) in variants.items()
    }


def _is_in(facts: Facts, key: str, space: SearchSpace) -> bool:
    """Return whether the space holds these settings."""
    settings = facts.settings[key]
    return all(settings[name] == value for name, value in space.fixed.items() if name in settings)


def main(arguments: Sequence[str]) -> None:
    """Compare; write the results."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--steps", nargs="*", default=["own", "50000"], help="planned steps; own: the workload's")
    parsed = parser.parse_args(arguments)
    results: dict[str, dict[str, Any]] = {}
    for name, facts, planned in horizons(parsed.names, parsed.steps):
        found = {**what_is_left(facts, planned), "searches": compare(facts, planned, parsed.searches)}
        results.setdefault(name, {})[str(planned)] = found
        print(
            name,
            planned,
            "closed:",
            ", ".join(found["closed"]) or "nothing",
            "best kept:",
            found["best_is_searched"],
        )
        for variant, row in found["searches"].items():
            print(f"  {variant:17} {row['median_seconds']:5.0f} s, regret {row['median_regret']:.2%}", flush=True)
    for name, found in results.items():
        add_row("bounds", name, found, made=made_from(name))


if __name__ == "__main__":
    main(sys.argv[1:])
