"""How cores, threads and workers of one machine are shared out among ranks."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.records.machine import Cpu, Gpu, Interconnect, Machine, NumaNode, ProcessLimits, TorchFacts
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.knobs import KNOBS, KnobContext
from autoaccel.workers.shares import cores_of_ranks, devices_of_ranks, gpus_of_ranks, share_of_rank


@pytest.fixture
def server(machine: Machine) -> Machine:
    """Two memory nodes with four cores each, two logical CPUs on each core: core i has CPUs i and i + 8."""
    nodes = (NumaNode(0, (0, 1, 2, 3, 8, 9, 10, 11)), NumaNode(1, (4, 5, 6, 7, 12, 13, 14, 15)))
    return msgspec.structs.replace(
        machine,
        cpu=Cpu("Server", 2, 8, 16, nodes, (), ()),
        limits=ProcessLimits(tuple(range(16)), 8, cores=tuple((core, core + 8) for core in range(8))),
    )


def test_ranks_get_whole_cores_of_one_node_each(server: Machine) -> None:
    assert cores_of_ranks(server, "none", 2) == ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
    assert cores_of_ranks(server, "none", 4) == ((0, 1, 8, 9), (2, 3, 10, 11), (4, 5, 12, 13), (6, 7, 14, 15))


def test_every_core_is_somebodys_and_nobodys_twice(server: Machine) -> None:
    for ranks in range(1, 9):
        cpus = [cpu for rank in cores_of_ranks(server, "none", ranks) for cpu in rank]
        assert sorted(cpus) == list(range(16))


def test_more_ranks_than_cores_share_them(server: Machine) -> None:
    shared = cores_of_ranks(server, "none", 9)
    assert len(shared) == 9
    assert shared[8] == shared[0]


def test_ranks_stay_within_the_affinity_and_within_what_is_allowed(server: Machine) -> None:
    assert cores_of_ranks(server, "cores", 2) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert cores_of_ranks(server, "0-1,4", 3) == ((0,), (1,), (4,))
    limited = msgspec.structs.replace(server, limits=ProcessLimits((2, 3, 5), 3, cores=((2,), (3,), (5,))))
    assert cores_of_ranks(limited, "none", 2) == ((2,), (3, 5))


def test_threads_and_workers_are_those_of_all_ranks_together(server: Machine) -> None:
    settings = {"threads.intra_op": 8, "loader.workers": 4, "threads.affinity": "none", "parallel.world_size": 4}
    assert share_of_rank(settings, KnobContext(server), 3, 4) == {
        "threads.intra_op": 2,
        "loader.workers": 1,
        "threads.affinity": "6-7,14-15",
        "parallel.world_size": 4,
    }
    assert share_of_rank(settings, KnobContext(server), 0, 1) == settings
    few = share_of_rank({"threads.intra_op": 1, "loader.workers": 1}, KnobContext(server), 1, 4)
    assert (few["threads.intra_op"], few["loader.workers"]) == (1, 1)


def test_world_sizes_follow_the_cores(context: KnobContext, server: Machine) -> None:
    knob = KNOBS["parallel.world_size"]
    assert knob.values(context) == (1, 2, 4)
    assert knob.values(KnobContext(server, context.training)) == (1, 2, 8)  # two memory nodes, eight cores


# --- GPUs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def four_gpus(server: Machine) -> Machine:
    """Two pairs joined by NVLink, each pair at a memory node of its own."""
    links = (
        ("X", "SYS", "NV4", "SYS"),
        ("SYS", "X", "SYS", "NV4"),
        ("NV4", "SYS", "X", "SYS"),
        ("SYS", "NV4", "SYS", "X"),
    )
    near = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
    return msgspec.structs.replace(
        server,
        gpus=(Gpu("Test GPU", 80 << 30, "555"),) * 4,
        interconnect=Interconnect(links, (near[0], near[1], near[0], near[1]), (0, 1, 0, 1)),
    )


def on_cuda(machine: Machine, facts: TrainingFacts) -> KnobContext:
    return KnobContext(machine, msgspec.structs.replace(facts, device="cuda"))


def test_two_ranks_get_gpus_that_nvlink_joins_and_cores_near_them(four_gpus: Machine, facts: TrainingFacts) -> None:
    assert gpus_of_ranks(four_gpus, 2, {}) == (0, 2)
    context = on_cuda(four_gpus, facts)
    first, second = (share_of_rank({"threads.affinity": "none"}, context, rank, 2) for rank in (0, 1))
    assert {first["threads.affinity"], second["threads.affinity"]} == {"0-1,8-9", "2-3,10-11"}


def test_only_visible_gpus_are_chosen_from(four_gpus: Machine) -> None:
    assert gpus_of_ranks(four_gpus, 2, {"CUDA_VISIBLE_DEVICES": "3,1,0"}) == (3, 1)
    assert gpus_of_ranks(four_gpus, 2, {"CUDA_VISIBLE_DEVICES": "GPU-5f0c"}) == ()
    assert gpus_of_ranks(four_gpus, 2, {"CUDA_VISIBLE_DEVICES": "MIG-5f0c"}) == ()
    told = TorchFacts("2.13.0", 4, 4, "AVX2", "cuda", "Test GPU", (), True, gpus=("GPU-d", "GPU-b"))
    known = msgspec.structs.replace(
        four_gpus, gpus=tuple(Gpu("Test GPU", 80 << 30, "555", f"GPU-{letter}") for letter in "abcd"), torch=told
    )
    # What CUDA has told counts more than numbers, which are by speed or by bus.
    assert gpus_of_ranks(known, 2, {"CUDA_VISIBLE_DEVICES": "0,1"}) == (3, 1)
    assert gpus_of_ranks(four_gpus, 4, {"CUDA_VISIBLE_DEVICES": "0,1"}) == ()


def test_ranks_see_their_gpus_by_variables(
    four_gpus: Machine, facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    variables = devices_of_ranks(on_cuda(four_gpus, facts), 2)
    assert variables == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,2"}
    assert devices_of_ranks(KnobContext(four_gpus, facts), 2) == {}


def test_ranks_see_their_gpus_by_uuid_where_it_is_known(
    four_gpus: Machine, facts: TrainingFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are others by speed, as CUDA counts, than by bus, as NVML does: ranks got GPUs that no link joins."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    known = tuple(Gpu("Test GPU", 80 << 30, "555", f"GPU-{letter}") for letter in "abcd")
    variables = devices_of_ranks(on_cuda(msgspec.structs.replace(four_gpus, gpus=known), facts), 2)
    assert variables == {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-c"}
