"""Topologies of real machines, recorded; NVML itself is played by a stand-in."""

# ruff: noqa: N802  (the names are NVML's)

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.machine.detect import detect_machine
from autoaccel.machine.gpu_sets import best_connected, best_ring, cores_near, gpu_sets
from autoaccel.machine.interconnect import read_interconnect
from autoaccel.machine.topology_text import parse_topology
from autoaccel.records.base import decode, encode
from autoaccel.records.machine import Interconnect, Machine

FOLDER = Path(__file__).parent / "topologies"
RECORDED = sorted(path.stem for path in FOLDER.glob("*.txt"))


def recorded(name: str) -> Interconnect:
    return parse_topology((FOLDER / f"{name}.txt").read_text(encoding="utf-8"))


def numbers(*ranges):
    return tuple(itertools.chain.from_iterable(range(first, last + 1) for first, last in ranges))


def of_links(*rows: str) -> Interconnect:
    return Interconnect(tuple(tuple(row.split()) for row in rows), ((),) * len(rows), (None,) * len(rows))


# --- what nvidia-smi prints ---


@pytest.mark.parametrize(
    ("name", "row", "cpus", "node"),
    [
        ("dgx1-v100", "SYS SYS SYS NV1 NV2 NV1 NV2 X", numbers((20, 39), (60, 79)), None),
        ("dgx1-p100", "SYS SYS SYS NV1 NV1 NV1 NV1 X", (1,), None),
        ("v100-server", "NV2 SYS SYS SYS NV1 NV2 NV1 X", numbers((24, 47), (72, 95)), 1),
        ("p3.8xlarge", "NV2 NV1 NV2 X", numbers((0, 31)), None),
        ("dgx-a100", "NV12 NV12 NV12 NV12 NV12 NV12 NV12 X", numbers((80, 95), (208, 223)), 5),
        ("polaris", "NV4 NV4 NV4 X", numbers((0, 7), (32, 39)), 0),
        ("slurm-share", "NV4 NV4 NV4 X", (), 1),
        ("traverse", "SYS SYS NV3 X", numbers((64, 127)), 8),
        ("4-gpus-one-socket", "NV2 NV2 NV2 X", tuple(range(0, 40, 2)), None),
        ("8-gpus-bridged", "SYS SYS SYS SYS NODE NODE NV4 X", numbers((64, 127)), 1),
        ("8-gpus-pcie", "SYS SYS SYS SYS PXB PXB PIX X", numbers((14, 27)), None),
        ("5-gpus-pcie", "SYS NODE NODE PHB X", numbers((0, 7), (16, 23)), 0),
    ],
)
def test_every_recorded_topology_is_read(name, row, cpus, node):
    interconnect = recorded(name)
    assert interconnect.links[-1] == tuple(row.split())
    assert interconnect.cpus[-1] == cpus
    assert interconnect.numa_nodes[-1] == node


def test_no_recorded_topology_is_left_out():
    assert len(RECORDED) == 12
    assert all(len(recorded(name).links) >= 4 for name in RECORDED)


PLAIN = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tPXB\t0-3\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t4-7\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t
"""


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\t", "    "),
        PLAIN.replace("\n", "\r\n"),
        "\n$ nvidia-smi topo -m\n\x1b[4m" + PLAIN.replace("GPU NUMA ID", "GPU NUMA ID\x1b[0m", 1),
        PLAIN + "\nLegend:\n\n  X    = Self\n\n \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n",
    ],
    ids=["plain", "spaces", "Windows", "underlined", "another matrix behind it"],
)
def test_all_ways_to_print_it_mean_the_same(text):
    assert parse_topology(text) == Interconnect((("X", "NV12"), ("NV12", "X")), ((0, 1, 2, 3), (4, 5, 6, 7)), (0, 1))


def test_columns_may_be_missing():
    links = (("X", "PHB"), ("PHB", "X"))
    assert parse_topology("GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X") == Interconnect(links, ((), ()), (None, None))
    told = parse_topology("GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X PHB N/A N/A\nGPU1 PHB X 0-3 0-1")
    assert told == Interconnect(links, ((), (0, 1, 2, 3)), (None, None))
    assert parse_topology("\tGPU0\tCPU Affinity\nGPU0\t X \t0-1").cpus == ((0, 1),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no line names the GPUs"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "no line names the GPUs"),
        ("\x00\xff\x1b[", "no line names the GPUs"),
        ("GPU0 GPU1\nGPU0 X SYS\n", "the row of GPU1 is missing or too short"),
        ("GPU0 GPU1\nGPU0 X SYS\nGPU1 X\n", "the row of GPU1 is missing or too short"),
        ("GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X\n", "GPU0 and GPU1 do not agree"),
        ("GPU0 GPU1\nGPU0 X X\nGPU1 X X\n", "GPU0 and GPU1 do not agree"),
        ("GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n", "'OK' is not a link between GPUs"),
        ("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n", "'NV0' is not a link between GPUs"),
        ("GPU0 CPU Affinity\nGPU0 X many\n", "'many' is not a list of CPUs"),
    ],
)
def test_anything_else_is_one_clear_error(text, reason):
    with pytest.raises(BadRequestError, match="this is not what `nvidia-smi topo -m` prints") as error:
        parse_topology(text)
    assert reason in str(error.value)
    assert "nvidia-smi topo -m > " in str(error.value)


# --- what NVML tells ---

GPU, NPU, SWITCH, UNKNOWN = 0, 1, 2, 255
DISTANCES = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}


class NVMLError(Exception):
    pass


class FakeNvml:
    """A driver with GPUs on buses 1, 2, ..; `nvlinks` has for each the (kind, bus) at the other end of its links."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NVMLError
    NVML_NVLINK_MAX_LINKS = 36
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_DEVICE_TYPE_IBMNPU = NPU
    NVML_NVLINK_DEVICE_TYPE_SWITCH = SWITCH
    NVML_NVLINK_DEVICE_TYPE_UNKNOWN = UNKNOWN
    NVML_TOPOLOGY_INTERNAL = 0
    NVML_TOPOLOGY_SINGLE = 10
    NVML_TOPOLOGY_MULTIPLE = 20
    NVML_TOPOLOGY_HOSTBRIDGE = 30
    NVML_TOPOLOGY_NODE = 40
    NVML_TOPOLOGY_SYSTEM = 50
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0
    NVML_AFFINITY_SCOPE_NODE = 0

    def __init__(self, nvlinks, distances="SYS", cpus=(), nodes=(), lost=(), apart=()):
        self.nvlinks = nvlinks
        self.distances = distances  # one for all pairs, or of each
        self.cpus = cpus or ((),) * len(nvlinks)
        self.nodes = nodes or ((),) * len(nvlinks)
        self.lost = lost
        self.apart = apart
        self.open = 0

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return "570.86.15"

    def nvmlDeviceGetCount(self):
        return len(self.nvlinks)

    def nvmlDeviceGetHandleByIndex(self, index):
        if index in self.lost:
            raise NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle):
        raise self.NVMLError

    def nvmlDeviceGetName(self, handle):
        return "NVIDIA A10"

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=24 << 30)

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(domain=0, bus=handle + 1, device=0)

    def nvmlDeviceGetNvLinkState(self, handle, link):
        if not self.nvlinks[handle]:
            raise NVMLError("not supported")
        return int(link < len(self.nvlinks[handle]))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link):
        if self.nvlinks[handle][link] is None:
            raise NVMLError("not supported")
        return self.nvlinks[handle][link][0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        if self.nvlinks[handle][link] is None:
            raise NVMLError("unknown")
        return SimpleNamespace(domain=0, bus=self.nvlinks[handle][link][1], device=0)

    def nvmlDeviceGetP2PStatus(self, one, other, index):
        return 5 if (one, other) in self.apart else 0

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):
        return DISTANCES[self.distances if isinstance(self.distances, str) else self.distances[one][other]]

    def nvmlDeviceGetCpuAffinityWithinScope(self, handle, words, scope):
        return as_words(self.cpus[handle], words)

    def nvmlDeviceGetMemoryAffinity(self, handle, words, scope):
        return as_words(self.nodes[handle], words)


def as_words(positions, words):
    if not positions:
        raise NVMLError("not supported")
    bits = sum(1 << position for position in positions)
    return [bits >> 64 * word & (2**64 - 1) for word in range(words)]


@pytest.fixture
def play(monkeypatch):
    def install(nvml):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return nvml

    return install


def nvml_of(interconnect: Interconnect) -> FakeNvml:
    """Return a driver of the machine whose topology was recorded."""
    nvlinks = [
        [(GPU, other + 1) for other, link in enumerate(row) if link.startswith("NV") for _ in range(int(link[2:]))]
        for row in interconnect.links
    ]
    nodes = tuple(() if node is None else (node,) for node in interconnect.numa_nodes)
    return FakeNvml(nvlinks, interconnect.links, interconnect.cpus, nodes)


@pytest.mark.parametrize("name", sorted(set(RECORDED) - {"dgx-a100"}))
def test_nvml_tells_what_nvidia_smi_prints(play, name):
    nvml = play(nvml_of(recorded(name)))
    assert read_interconnect() == recorded(name)
    assert nvml.open == 0


def test_through_switches_every_pair_has_all_links(play):
    play(FakeNvml([[(SWITCH, 100 + link % 6) for link in range(12)]] * 8))
    links = read_interconnect().links
    assert all(link == "NV12" for one, row in enumerate(links) for other, link in enumerate(row) if one != other)


def test_switches_that_a_virtual_machine_does_not_see_are_there_nevertheless(play):
    play(FakeNvml([[None] * 18] * 2))
    assert read_interconnect().links == (("X", "NV18"), ("NV18", "X"))


def test_a_partitioned_switch_connects_only_within_partitions(play):
    apart = [(one, other) for one in (0, 1) for other in (2, 3)]
    play(FakeNvml([[(SWITCH, 100)] * 6] * 4, "NODE", apart=apart))
    assert read_interconnect().links[0] == ("X", "NV6", "NODE", "NODE")


def test_nvlinks_to_a_processor_or_to_a_hidden_gpu_connect_no_pair(play):
    play(FakeNvml([[(NPU, 100), (GPU, 200)], [(NPU, 100), (GPU, 201)]]))
    assert read_interconnect().links == (("X", "SYS"), ("SYS", "X"))


def test_several_memory_nodes_are_none(play):
    play(FakeNvml([[]], nodes=((0, 1),), cpus=((3, 64, 1023),)))
    assert read_interconnect() == Interconnect((("X",),), ((3, 64, 1023),), (None,))


def test_without_gpus_or_module_or_with_a_lost_gpu_nothing_is_told(play):
    play(FakeNvml([]))
    assert read_interconnect() is None
    nvml = play(FakeNvml([[], []], lost=[1]))
    assert read_interconnect() is None
    assert nvml.open == 0
    play(None)
    assert read_interconnect() is None


def test_the_real_module_has_what_is_used():
    pynvml = pytest.importorskip("pynvml")
    for name, value in vars(FakeNvml).items():
        if name.startswith(("nvml", "NVML")):
            assert hasattr(pynvml, name), name
            if name == "NVML_NVLINK_MAX_LINKS":  # 18 in older releases
                assert value >= getattr(pynvml, name)
            elif isinstance(value, int):
                assert value == getattr(pynvml, name), name


def test_it_is_part_of_the_machine_and_of_what_is_written(play, computer):
    play(nvml_of(recorded("traverse")))
    computer.xeon()
    machine = detect_machine(computer.root)
    assert machine.interconnect == recorded("traverse")
    assert decode(encode(machine), Machine) == machine
    # A recipe of before says nothing of it.
    older = msgspec.json.decode(encode(machine))
    del older["interconnect"]
    assert decode(msgspec.json.encode(older), Machine).interconnect is None


# --- which GPUs ---


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        # The first of those that NVIDIA allots on a DGX-1.
        ("dgx1-v100", [(0, 3), (0, 1, 2, 3)]),
        ("dgx1-p100", [(0, 1), (0, 1, 2, 3)]),
        ("v100-server", [(0, 2), (0, 1, 2, 3)]),
        ("p3.8xlarge", [(0, 3), (0, 1, 2, 3)]),
        ("dgx-a100", [(0, 1), (0, 1, 2, 3)]),
        ("traverse", [(0, 1), (0, 1, 2, 3)]),
        ("8-gpus-bridged", [(0, 1), (0, 1, 2, 3)]),
        ("8-gpus-pcie", [(0, 1), (0, 1, 2, 3)]),
        ("5-gpus-pcie", [(1, 2), (1, 2, 3, 4)]),
    ],
)
def test_the_best_pairs_and_quads_of_known_machines(name, gpus):
    assert [best_connected(recorded(name), count) for count in (2, 4)] == gpus


def without(interconnect: Interconnect, *gone: int) -> Interconnect:
    kept = [gpu for gpu in range(len(interconnect.links)) if gpu not in gone]
    return Interconnect(
        tuple(tuple(interconnect.links[one][other] for other in kept) for one in kept),
        tuple(interconnect.cpus[gpu] for gpu in kept),
        tuple(interconnect.numa_nodes[gpu] for gpu in kept),
    )


def test_the_next_best_are_those_that_nvidia_names_next():
    dgx = recorded("dgx1-v100")
    # Numbers among those that are left: 1, 2, 4, 5, 6, 7.
    assert best_connected(without(dgx, 0, 3), 2) == (0, 1)
    assert best_connected(without(dgx, 0, 1, 2, 3), 2) == (0, 3)
    # 0 is taken: the second quad is whole.
    assert best_connected(without(dgx, 0), 4) == (3, 4, 5, 6)


def test_the_slowest_hop_counts_more_than_all_links_together():
    # 0, 1 and 2 have more NVLinks among them, but 1 and 2 have none: their ring is as slow as SYS.
    uneven = of_links(
        "X NV12 NV12 SYS SYS SYS",
        "NV12 X SYS SYS SYS SYS",
        "NV12 SYS X SYS SYS SYS",
        "SYS SYS SYS X NV1 NV1",
        "SYS SYS SYS NV1 X NV1",
        "SYS SYS SYS NV1 NV1 X",
    )
    assert best_connected(uneven, 3) == (3, 4, 5)


def test_all_links_together_count_more_than_low_numbers():
    # Without 0, the GPUs 1, 2, 6 and 5 have a ring as fast, across the sockets, but no links besides.
    mesh = msgspec.structs.replace(without(recorded("dgx1-v100"), 0), cpus=((),) * 7)
    assert best_connected(mesh, 4) == (3, 4, 5, 6)


def test_one_memory_node_is_preferred_where_links_are_equal():
    links = tuple(tuple("X" if one == other else "NV4" for other in range(4)) for one in range(4))
    for nodes, cpus in (((0, 1, 0, 1), ((),) * 4), ((None,) * 4, ((0,), (1,), (0,), (1,)))):
        assert best_connected(Interconnect(links, cpus, nodes), 2) == (0, 2)


def slowest(interconnect: Interconnect, ring) -> int:
    speed = {"SYS": 0, "NODE": 1, "PHB": 2, "PXB": 3, "PIX": 4, "NV1": 5, "NV2": 6}
    return min(speed[interconnect.links[one][other]] for one, other in zip(ring, ring[1:] + ring[:1], strict=True))


def anything(generator: random.Random, gpus: int, kinds: str) -> Interconnect:
    links = [["X"] * gpus for _ in range(gpus)]
    for one, other in itertools.combinations(range(gpus), 2):
        links[one][other] = links[other][one] = generator.choice(kinds.split())
    return of_links(*map(" ".join, links))


@pytest.mark.parametrize("seed", range(10))
def test_no_set_and_no_order_has_a_faster_ring(seed):
    generator = random.Random(seed)
    kinds = "SYS NODE PHB PXB PIX NV1 NV2" if seed % 2 else "SYS SYS SYS NV1 NV2"
    interconnect = anything(generator, 7, kinds)
    for count in (2, 3, 4, 5, 6, 7):
        found = max(
            slowest(interconnect, order)
            for gpus in itertools.combinations(range(7), count)
            for order in itertools.permutations(gpus)
            if order[0] == gpus[0]
        )
        gpus = best_connected(interconnect, count)
        ring = best_ring(interconnect, gpus)
        assert sorted(ring) == list(gpus) and len(gpus) == count
        assert slowest(interconnect, ring) == found


def test_a_ring_hidden_among_sixteen_gpus_is_found():
    generator = random.Random(0)
    hidden = generator.sample(range(16), 8)
    links = [list(row) for row in anything(generator, 16, "SYS NODE PHB PXB").links]
    for one, other in zip(hidden, hidden[1:] + hidden[:1], strict=True):
        links[one][other] = links[other][one] = "PIX"
    interconnect = of_links(*map(" ".join, links))
    assert best_connected(interconnect, 8) == tuple(sorted(hidden))
    ring = best_ring(interconnect, hidden)
    assert {interconnect.links[one][other] for one, other in itertools.pairwise((*ring, ring[0]))} == {"PIX"}


def test_a_ring_of_all_sixteen_is_ordered():
    links = [["X" if one == other else "SYS" for other in range(16)] for one in range(16)]
    order = random.Random(0).sample(range(16), 16)
    for one, other in itertools.pairwise((*order, order[0])):
        links[one][other] = links[other][one] = "NV1"
    interconnect = of_links(*map(" ".join, links))
    (*_, everyone) = gpu_sets(interconnect, ())
    assert everyone.gpus == tuple(range(16))
    assert set(everyone.hops) == {"NV1"} and len(everyone.hops) == 16
    assert everyone.slowest == "NV1"


def test_the_cube_mesh_has_a_ring_of_double_links():
    assert [(chosen.gpus, chosen.hops, chosen.slowest) for chosen in gpu_sets(recorded("dgx1-v100"), ())] == [
        ((0, 3), ("NV2",), "NV2"),
        ((0, 1, 2, 3), ("NV2", "NV2", "NV2", "NV1"), "NV1"),
        (tuple(range(8)), ("NV2",) * 8, "NV2"),
    ]


def test_sets_are_offered_for_powers_of_two_and_for_all():
    assert [len(chosen.gpus) for chosen in gpu_sets(recorded("5-gpus-pcie"), ())] == [2, 4, 5]
    assert gpu_sets(of_links("X"), ()) == ()


@pytest.mark.parametrize(("count", "gpus"), [(0, 4), (5, 4), (2, 17)])
def test_a_wrong_number_of_gpus_is_refused(count, gpus):
    with pytest.raises(BadRequestError, match=f"got {gpus if gpus > 16 else count}"):
        best_connected(anything(random.Random(0), gpus, "SYS"), count)


# --- which cores ---


@pytest.mark.parametrize("name", RECORDED)
def test_no_two_ranks_get_the_same_core_and_none_is_left_over(name):
    interconnect = recorded(name)
    allowed = {cpu for cpus in interconnect.cpus for cpu in cpus}
    shares = list(cores_near(interconnect, allowed).values())
    assert sorted(itertools.chain(*shares)) == sorted(allowed)
    for near, share in zip(interconnect.cpus, shares, strict=True):
        assert set(share) <= set(near or allowed)


def test_the_two_threads_of_a_core_stay_together():
    dgx = recorded("dgx1-v100")
    assert cores_near(dgx, range(80))[1] == numbers((5, 9), (45, 49))
    # Told by the topology, whatever the numbers: threads are neighbours here.
    pairs = [(first, first + 1) for first in range(0, 80, 2)]
    assert cores_near(dgx, range(80), pairs)[1] == numbers((10, 19))


def test_cores_of_a_machine_with_one_gpu_per_node_are_those_that_its_users_are_told():
    # From the same page as the topology.
    told = [numbers((24, 31)), numbers((16, 23)), numbers((8, 15)), numbers((0, 7))]
    assert list(cores_near(recorded("polaris"), range(32)).values()) == told


def test_only_allowed_cores_are_divided_and_only_among_the_ranks():
    bridged = recorded("8-gpus-bridged")
    allowed = range(32, 72)
    assert cores_near(bridged, allowed)[0] == numbers((32, 39))
    assert cores_near(bridged, allowed, gpus=(0, 1))[0] == numbers((32, 47))
    assert cores_near(bridged, allowed, gpus=(0, 1))[1] == numbers((48, 63))
    assert cores_near(bridged, allowed, gpus=(0, 4))[4] == numbers((64, 71))
    assert cores_near(bridged, range(32))[4] == ()


def test_fewer_cores_than_ranks_leave_the_last_without():
    bridged = recorded("8-gpus-bridged")
    shares = list(cores_near(bridged, (0, 1, 2), gpus=range(4)).values())
    assert sorted(itertools.chain(*shares)) == [0, 1, 2]
    assert shares[0] == (0,) and shares[3] == ()


def test_where_nothing_is_known_all_cores_are_near():
    unknown = of_links("X PHB", "PHB X")
    assert list(cores_near(unknown, range(4)).values()) == [(0, 1), (2, 3)]


def test_gpus_whose_cpus_overlap_in_part_divide_what_they_share():
    interconnect = Interconnect((("X", "SYS"), ("SYS", "X")), ((0, 1, 2, 3), (2, 3, 4)), (None, None))
    assert list(cores_near(interconnect, range(6)).values()) == [(0, 1, 2), (3, 4)]
