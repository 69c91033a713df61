from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoaccel.machine.limits import read_limits
from autoaccel.machine.topology import read_logical_cpus

GIB = 1024**3


def limits_of(computer):
    return read_limits(computer.root, read_logical_cpus(computer.root))


def test_a_whole_computer_is_not_limited(computer):
    computer.xeon()
    limits = limits_of(computer)
    assert limits.affinity == tuple(range(8))
    assert limits.physical_cores == 4
    assert (limits.cpu_quota, limits.memory_bytes, limits.cgroup_version) == (None, None, None)


def test_two_threads_of_one_core_are_one_core(computer):
    computer.xeon()
    computer.write("/proc/self/status", "Cpus_allowed_list:\t1,5-6")
    limits = limits_of(computer)
    assert limits.affinity == (1, 5, 6)
    assert limits.physical_cores == 2


def test_cpus_that_could_be_plugged_in_are_not_there(computer):
    computer.topology(sockets=1, cores=2, threads=1)
    computer.write("/proc/self/status", "Cpus_allowed_list:\t0-127")
    assert limits_of(computer).affinity == (0, 1)


def test_without_a_recorded_mask_every_cpu_is_allowed(computer):
    computer.topology(sockets=1, cores=3, threads=1)
    assert limits_of(computer).affinity == (0, 1, 2)


def test_a_container_with_quota_and_memory_limit(computer):
    computer.xeon()
    computer.cgroups("0::/", "40 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    computer.write("/sys/fs/cgroup/cpu.max", "150000 100000")
    computer.write("/sys/fs/cgroup/memory.max", str(4 * GIB))
    limits = limits_of(computer)
    assert (limits.cpu_quota, limits.memory_bytes, limits.cgroup_version) == (1.5, 4 * GIB, 2)


def test_a_limit_on_memory_alone_still_tells_the_version(computer):
    computer.xeon()
    computer.cgroups("4:memory:/", "33 32 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory")
    computer.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", str(GIB))
    limits = limits_of(computer)
    assert (limits.cpu_quota, limits.memory_bytes, limits.cgroup_version) == (None, GIB, 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity masks")
def test_the_mask_of_this_process_counts_here():
    before = os.sched_getaffinity(0)
    one = max(before)
    os.sched_setaffinity(0, {one})
    try:
        limits = read_limits(Path("/"), read_logical_cpus(Path("/")))
    finally:
        os.sched_setaffinity(0, before)
    assert limits.affinity == (one,)
    assert limits.physical_cores == 1


def test_the_system_is_asked_for_the_mask_where_proc_does_not_tell(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {9, 4}, raising=False)
    assert read_limits(Path("/"), read_logical_cpus(Path("/"))).affinity == (4, 9)


def test_a_system_without_masks_allows_every_cpu(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    cpus = read_logical_cpus(Path("/"))
    assert read_limits(Path("/"), cpus).affinity == tuple(cpu.number for cpu in cpus)
