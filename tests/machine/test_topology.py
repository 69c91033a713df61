from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from autoaccel.machine.topology import (
    LogicalCpu,
    read_caches,
    read_efficient_cpus,
    read_logical_cpus,
    read_numa_nodes,
    sockets_of,
)
from autoaccel.records.machine import Cache, NumaNode

KIB, MIB = 1024, 1024**2


def test_siblings_share_a_core_and_sockets_do_not(computer):
    computer.xeon()
    cpus = read_logical_cpus(computer.root)
    assert [cpu.number for cpu in cpus] == list(range(8))
    assert [cpu.socket for cpu in cpus] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert [cpu.core for cpu in cpus] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_kernels_before_5_3_name_the_siblings_otherwise(computer):
    computer.topology(sockets=1, cores=2, threads=2)
    for cpu in range(4):
        folder = computer.root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        (folder / "core_cpus_list").rename(folder / "thread_siblings_list")
    assert [cpu.core for cpu in read_logical_cpus(computer.root)] == [0, 1, 0, 1]


def test_cpus_that_are_offline_or_hidden_do_not_count(computer):
    computer.topology(sockets=1, cores=2, threads=2)
    computer.write("/sys/devices/system/cpu/online", "0-1,3")
    assert read_logical_cpus(computer.root) == (LogicalCpu(0, 0, 0), LogicalCpu(1, 0, 1), LogicalCpu(3, 0, 1))


def test_a_socket_that_firmware_does_not_tell_is_the_first(computer):
    computer.topology(sockets=1, cores=1, threads=1)
    computer.write("/sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")
    assert read_logical_cpus(computer.root) == (LogicalCpu(0, 0, 0),)


def test_without_sysfs_cpuinfo_tells_the_cores(computer):
    computer.cpuinfo(
        *({"processor": cpu, "physical id": socket, "core id": 3} for cpu, socket in enumerate([0, 1, 0, 1]))
    )
    cpus = read_logical_cpus(computer.root)
    assert [cpu.socket for cpu in cpus] == [0, 1, 0, 1]
    assert [cpu.core for cpu in cpus] == [0, 1, 0, 1]


def test_sysfs_without_topology_also_leaves_it_to_cpuinfo(computer):
    computer.write("/sys/devices/system/cpu/online", "0-1")
    computer.cpuinfo(*({"processor": cpu, "physical id": 0, "core id": 0} for cpu in range(2)))
    assert read_logical_cpus(computer.root) == (LogicalCpu(0, 0, 0), LogicalCpu(1, 0, 0))


def test_without_core_ids_every_processor_is_a_core(computer):
    computer.cpuinfo({"processor": 0}, {"processor": 1}, {"Hardware": "a board"})
    assert read_logical_cpus(computer.root) == (LogicalCpu(0, 0, 0), LogicalCpu(1, 0, 1))


@pytest.mark.parametrize(("physical", "cores"), [(4, [0, 0, 1, 1, 2, 2, 3, 3]), (None, list(range(8)))])
def test_without_any_file_the_counts_decide(computer, monkeypatch, physical, cores):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("psutil.cpu_count", lambda logical: physical)
    cpus = read_logical_cpus(computer.root)
    assert [cpu.number for cpu in cpus] == list(range(8))
    assert [cpu.core for cpu in cpus] == cores


def test_memory_nodes_have_their_cpus(computer):
    computer.xeon()
    nodes = read_numa_nodes(computer.root, read_logical_cpus(computer.root))
    assert nodes == (NumaNode(0, (0, 1, 4, 5)), NumaNode(1, (2, 3, 6, 7)))


def test_memory_nodes_are_in_order_of_number_and_those_without_cpus_are_left_out(computer):
    computer.topology(sockets=1, cores=3, threads=1)
    for node, cpus in {10: "2", 2: "1", 0: "0", 3: ""}.items():
        computer.write(f"/sys/devices/system/node/node{node}/cpulist", cpus)
    nodes = read_numa_nodes(computer.root, read_logical_cpus(computer.root))
    assert nodes == (NumaNode(0, (0,)), NumaNode(2, (1,)), NumaNode(10, (2,)))


def test_without_memory_nodes_there_is_one(computer):
    computer.cpuinfo({"processor": 0}, {"processor": 1})
    assert read_numa_nodes(computer.root, read_logical_cpus(computer.root)) == (NumaNode(0, (0, 1)),)


def test_shared_caches_count_once(computer):
    computer.xeon()
    assert read_caches(computer.root, read_logical_cpus(computer.root)) == (
        Cache(1, "data", 48 * KIB, 4),
        Cache(1, "instruction", 32 * KIB, 4),
        Cache(2, "unified", 2 * MIB, 4),
        Cache(3, "unified", 105 * MIB, 2),
    )


def test_caches_of_two_kinds_of_core_are_two_kinds(computer):
    # A performance core with its own second-level cache, beside two efficient ones that share theirs.
    computer.topology(sockets=1, cores=3, threads=1)
    computer.cache((0,), 0, 1, "Data", "48K", "0")
    computer.cache((1,), 0, 1, "Data", "32K", "1")
    computer.cache((2,), 0, 1, "Data", "32K", "2")
    computer.cache((0,), 1, 2, "Unified", "2M", "0")
    computer.cache((1, 2), 1, 2, "Unified", "4M", "1-2")
    assert read_caches(computer.root, read_logical_cpus(computer.root)) == (
        Cache(1, "data", 32 * KIB, 2),
        Cache(1, "data", 48 * KIB, 1),
        Cache(2, "unified", 2 * MIB, 1),
        Cache(2, "unified", 4 * MIB, 1),
    )


def test_a_cache_without_a_size_is_left_out_and_the_next_is_not(computer):
    computer.topology(sockets=1, cores=1, threads=1)
    computer.cache((0,), 0, 1, "Data", "", "0")
    computer.cache((0,), 1, 2, "Unified", "1024K", "0")
    assert read_caches(computer.root, read_logical_cpus(computer.root)) == (Cache(2, "unified", MIB, 1),)


def test_this_computer_has_as_many_cpus_as_psutil_counts():
    cpus = read_logical_cpus(Path("/"))
    assert len(cpus) == psutil.cpu_count()
    # psutil does not know it in every container.
    if physical := psutil.cpu_count(logical=False):
        assert len({cpu.core for cpu in cpus}) == physical


def capacities(*each):
    return {f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity": str(capacity) for cpu, capacity in enumerate(each)}


def test_sockets_have_their_cpus(computer):
    computer.xeon()
    assert sockets_of(read_logical_cpus(computer.root)) == ((0, 1, 4, 5), (2, 3, 6, 7))


@pytest.mark.parametrize(
    ("files", "efficient"),
    [
        ({}, ()),
        ({"/sys/devices/cpu_core/cpus": "0-1", "/sys/devices/cpu_atom/cpus": "2-3"}, (2, 3)),  # Intel
        (capacities(462, 462, 462, 1024), (0, 1, 2)),  # ARM
        (capacities(1024, 1024, 1024, 1024), ()),  # all alike
        ({"/sys/devices/cpu_atom/cpus": "0-3"}, ()),  # a processor of efficient cores alone
    ],
)
def test_cores_of_the_slower_kind_are_told_apart(computer, files, efficient):
    computer.topology(sockets=1, cores=4, threads=1)
    for path, text in files.items():
        computer.write(path, text)
    assert read_efficient_cpus(computer.root, read_logical_cpus(computer.root)) == efficient
