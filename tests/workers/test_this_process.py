"""What a process is to do and may use, alone and as one of two that a launcher has started on its machine."""

from __future__ import annotations

import os

import msgspec
import pytest

from autoaccel.machine.detect import detect_machine
from autoaccel.records.machine import Machine
from autoaccel.records.recipe import Recipe
from autoaccel.workers.this_process import ThisProcess, this_process
from tests.export.samples import make_recipe


def launched(rank: int) -> ThisProcess:
    """Return one of four processes, two on each of two machines."""
    numbers = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": 29500}
    return this_process({"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}})


@pytest.fixture
def asked(machine: Machine) -> Recipe:
    """A recipe of six threads and four loader workers, for one process."""
    return make_recipe(machine, {"threads.intra_op": 6, "loader.workers": 4, "parallel.world_size": 1})


def test_a_process_alone_leads_and_has_all_that_the_recipe_says(asked: Recipe) -> None:
    alone = this_process({})
    assert alone.leads and not alone.is_launched
    assert alone.settings(asked) == alone.share(asked) == asked.settings


def test_of_launched_processes_the_first_leads_on_all_machines() -> None:
    assert [launched(rank).leads for rank in range(4)] == [True, False, False, False]
    assert all(launched(rank).is_launched for rank in range(4))


def test_a_launched_process_has_its_share_of_its_own_machine(asked: Recipe) -> None:
    third = launched(2)
    assert third.settings(asked) == {**asked.settings, "parallel.world_size": 2}
    share = third.share(asked)
    assert (share["threads.intra_op"], share["loader.workers"]) == (3, 2)


def test_what_each_process_of_a_machine_gets_is_told_in_order(asked: Recipe) -> None:
    shares = launched(3).shares_of_all(asked)
    assert [(share.threads, share.loader_workers, share.gpu) for share in shares] == [(3, 2, None)] * 2
    (alone,) = this_process({}).shares_of_all(asked)
    assert (alone.threads, alone.loader_workers, set(alone.cpus)) == (6, 4, set(detect_machine().limits.affinity))


def test_a_recipe_may_use_what_the_launcher_has_given_to_others() -> None:
    machine = detect_machine()
    one_cpu = msgspec.structs.replace(machine.limits, affinity=(min(os.sched_getaffinity(0)),), physical_cores=1)
    bound = msgspec.structs.replace(machine, limits=one_cpu)
    assert this_process({}).usable(bound) == bound
    assert len(launched(1).usable(bound).limits.affinity) == machine.cpu.logical_cores
