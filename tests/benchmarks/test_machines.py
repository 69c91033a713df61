"""Searches on a model of recorded machines: what the model says, how near searches come, what the docs tell."""

from __future__ import annotations

import random
import statistics
from typing import Any

import msgspec
import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.settings import Settings
from benchmarks.harness.rows import ROOT
from benchmarks.studies.simulated_machines.measure import (
    CLOSE,
    FACTS,
    Case,
    best_of,
    first_guesses,
    make_case,
    recorded_machines,
    search,
    simulate,
)
from benchmarks.studies.simulated_machines.model import Work, draw_work

MACHINES = recorded_machines()


def case_on(name: str, **changes: Any) -> Case:
    """Return a training of convolutions on batches of 64 that are ready in memory, with these changes."""
    machine = MACHINES[name]
    assert machine.torch is not None
    facts = msgspec.structs.replace(FACTS, device=machine.torch.device)
    plain = vars(draw_work(machine, facts, 0)) | {"facts": facts, "loading_seconds": 1e-4, "asleep": 0.0}
    return make_case(machine, 0, Work(**(plain | changes)))


def speedup(case: Case, changes: Settings) -> float:
    """Return what some changes make of a step's speed, by the model."""
    return case.model.step_seconds(case.baseline) / case.model.step_seconds({**case.baseline, **changes})


def test_on_two_sockets_a_rank_for_each_reaches_no_memory_of_the_other() -> None:
    moving = case_on("xeon-2x32", moved_bytes=1e11, parameter_bytes=4e6)
    assert speedup(moving, {"parallel.world_size": 2}) > 1.3
    # What ranks agree on may take longer than what they compute.
    large = case_on("xeon-2x32", moved_bytes=1e9, dense_seconds=1.0, parameter_bytes=5e9)
    assert speedup(large, {"parallel.world_size": 2}) < 1


def test_small_operators_want_few_threads_on_one_node() -> None:
    small = case_on("xeon-2x32", operators=50_000, dense_seconds=0.1, moved_bytes=1e6)
    assert speedup(small, {"threads.intra_op": 8, "threads.affinity": "node"}) > 1.2


def test_threads_beyond_a_quota_wait_for_each_other() -> None:
    assert speedup(case_on("container-8"), {"threads.intra_op": 8}) > 2


def test_an_operators_equal_parts_wait_for_the_slowest_core() -> None:
    laptop = case_on("laptop", moved_bytes=1e6)
    fast = {"threads.intra_op": 4, "threads.affinity": "fast"}
    assert speedup(laptop, fast) > 1.5 * speedup(laptop, {"threads.intra_op": 4, "threads.affinity": "8-11"})


def test_short_types_pay_where_there_are_units_for_them() -> None:
    for name in MACHINES:
        assert (speedup(case_on(name), {"precision.autocast": "bfloat16"}) > 1) == (name != "laptop")


def test_loading_is_hidden_by_workers_that_keep_up() -> None:
    plain = case_on("arm-64")
    late = case_on("arm-64", loading_seconds=3 * plain.model.step_seconds(plain.baseline))
    assert speedup(late, {"loader.workers": 4}) == pytest.approx(4, rel=0.2)
    assert speedup(late, {"loader.workers": 1}) < 1.4


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_best_is_better_than_anything_drawn_by_chance(name: str) -> None:
    case = make_case(MACHINES[name], 1)
    best, draw = case.run_seconds(best_of(case)), random.Random(0)
    for _ in range(200):
        drawn = {**case.space.fixed, **{knob: draw.choice(values) for knob, values in case.space.open.items()}}
        settings = case.space.settle(drawn)
        assert not case.space.allows(settings) or case.run_seconds(settings) >= best


@pytest.mark.long  # tests/benchmarks/test_recorded_searches.py holds two searches to every trial
@pytest.mark.parametrize("name", ["container-8", "laptop"])
def test_searches_find_the_best_within_twelve_trials(name: str) -> None:
    """A few of the two hundred of benchmarks/studies/simulated_machines/measure.py, which are the claim."""
    searches = [simulate(MACHINES[name], seed) for seed in range(6)]
    assert all(found.trials <= 12 for found in searches)
    assert statistics.median(found.reached for found in searches) >= CLOSE
    assert all(found.share <= 1 for found in searches)


def test_a_search_is_held_to_its_trials() -> None:
    assert len(search(make_case(MACHINES["laptop"], 3), 3, trials=4).trials) <= 4


def test_the_docs_tell_what_is_tried_first() -> None:
    page = (ROOT / "docs" / "guesses.md").read_text(encoding="utf-8")
    for name, machine in MACHINES.items():
        for guess in first_guesses(machine):
            assert f"`{guess}`" in page, f"{name}: {guess}"


def listed(machine: Machine) -> str:
    """Return what `lscpu --parse=CPU,Core,Socket,Node` prints: cores are numbered from 0 on."""
    lines = []
    for cpu in machine.limits.affinity:
        core = next(number for number, cpus in enumerate(machine.limits.cores) if cpu in cpus)
        socket = next(number for number, cpus in enumerate(machine.cpu.socket_cpus) if cpu in cpus)
        node = next(one.node for one in machine.cpu.numa_nodes if cpu in one.cpus)
        lines.append(f"{cpu},{core},{socket},{node}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "cores", "nodes"), [("laptop", 12, 1), ("arm-64", 64, 1), ("xeon-2x32", 64, 2), ("container-8", 64, 2)]
)
def test_the_docs_tell_what_torchs_own_launcher_would_start(name: str, cores: int, nodes: int) -> None:
    from torch.backends.xeon.run_cpu import _CPUinfo  # the launcher's own view of the processors

    seen = _CPUinfo(listed(MACHINES[name]))
    assert seen.get_all_physical_cores() == list(range(cores))  # bound to as if they were numbers of CPUs
    assert seen.node_nums == nodes
