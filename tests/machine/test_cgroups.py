from __future__ import annotations

import pytest

from autoaccel.machine.cgroups import cpu_quota, find_hierarchy, memory_limit_bytes

GIB = 1024**3
V2 = "40 31 0:38 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"


def limits_of(computer) -> tuple[int | None, float | None, int | None]:
    """Version, CPUs and bytes."""
    for_cpu, for_memory = find_hierarchy(computer.root, "cpu"), find_hierarchy(computer.root, "memory")
    return (
        for_cpu.version if for_cpu else None,
        cpu_quota(for_cpu) if for_cpu else None,
        memory_limit_bytes(for_memory) if for_memory else None,
    )


def test_a_container_of_version_2(computer):
    computer.cgroups("0::/", V2)
    computer.write("/sys/fs/cgroup/cpu.max", "150000 100000")
    computer.write("/sys/fs/cgroup/memory.max", str(4 * GIB))
    assert limits_of(computer) == (2, 1.5, 4 * GIB)


def test_version_2_without_limits(computer):
    computer.cgroups("0::/user.slice/session.scope", V2)
    computer.write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000")
    computer.write("/sys/fs/cgroup/user.slice/memory.max", "max")
    assert limits_of(computer) == (2, None, None)


def test_a_tighter_parent_counts(computer):
    computer.cgroups("0::/pod/sidecars/container", V2)
    computer.write("/sys/fs/cgroup/pod/cpu.max", "200000 100000")
    computer.write("/sys/fs/cgroup/pod/memory.max", str(8 * GIB))
    computer.write("/sys/fs/cgroup/pod/sidecars/cpu.max", "max 100000")
    computer.write("/sys/fs/cgroup/pod/sidecars/memory.max", str(2 * GIB))
    computer.write("/sys/fs/cgroup/pod/sidecars/container/cpu.max", "150000 50000")
    computer.write("/sys/fs/cgroup/pod/sidecars/container/memory.max", str(4 * GIB))
    assert limits_of(computer) == (2, 2.0, 2 * GIB)


def test_the_limits_of_other_groups_do_not_count(computer):
    computer.cgroups("0::/mine", V2)
    computer.write("/sys/fs/cgroup/mine/cpu.max", "300000 100000")
    computer.write("/sys/fs/cgroup/mine/child/cpu.max", "100000 100000")
    computer.write("/sys/fs/cgroup/other/cpu.max", "100000 100000")
    assert limits_of(computer) == (2, 3.0, None)


def test_a_group_outside_of_the_namespace_leaves_what_is_mounted(computer):
    computer.cgroups("0::/../job", V2)
    computer.write("/sys/fs/cgroup/cpu.max", "250000 100000")
    computer.write("/sys/fs/job/cpu.max", "100000 100000")
    assert limits_of(computer) == (2, 2.5, None)


def v1_mount(controllers: str, group: str = "/", point: str | None = None) -> str:
    return (
        f"33 32 0:29 {group} {point or '/sys/fs/cgroup/' + controllers} rw master:11 - cgroup cgroup rw,{controllers}"
    )


def test_a_container_of_version_1_that_shows_the_path_of_the_host(computer):
    own = "/docker/0123abcd"
    computer.cgroups(
        f"5:memory:{own}\n4:cpu,cpuacct:{own}\n1:name=systemd:{own}",
        v1_mount("cpu,cpuacct", own),
        v1_mount("memory", own),
    )
    computer.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000")
    computer.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
    computer.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", str(GIB))
    assert limits_of(computer) == (1, 0.5, GIB)


def test_a_path_that_is_not_below_the_mount_leaves_what_is_mounted(computer):
    computer.cgroups("4:cpu:/kubepods/pod1/other", v1_mount("cpu", "/kubepods/pod1/mine"))
    computer.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000")
    computer.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert limits_of(computer) == (1, 4.0, None)


def test_of_two_mounts_the_one_with_the_own_group_counts(computer):
    computer.cgroups("4:cpu:/mine", v1_mount("cpu", "/other", "/elsewhere"), v1_mount("cpu"))
    for folder, quota in {"/elsewhere": 100000, "/sys/fs/cgroup/cpu/mine": 200000}.items():
        computer.write(f"{folder}/cpu.cfs_quota_us", str(quota))
        computer.write(f"{folder}/cpu.cfs_period_us", "100000")
    assert limits_of(computer) == (1, 2.0, None)


def test_a_group_below_the_mounted_one_is_found(computer):
    computer.cgroups("4:cpu:/docker/0123/inner", v1_mount("cpu", "/docker/0123"))
    computer.write("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "300000")
    computer.write("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000")
    assert limits_of(computer) == (1, 3.0, None)


def test_mount_points_may_hold_white_space(computer):
    computer.cgroups("4:cpu:/", v1_mount("cpu", "/", "/my\\040groups/cpu"))
    computer.write("/my groups/cpu/cpu.cfs_quota_us", "100000")
    computer.write("/my groups/cpu/cpu.cfs_period_us", "100000")
    assert limits_of(computer) == (1, 1.0, None)


# 2**63 rounded down to pages of 4 KiB and of 64 KiB.
@pytest.mark.parametrize("unlimited", [9223372036854771712, 9223372036854710272])
def test_version_1_without_limits_beside_an_empty_version_2(computer, unlimited):
    computer.cgroups(
        "4:memory:/process/60ae\n1:cpu:/\n0::/",
        v1_mount("cpu"),
        v1_mount("memory"),
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
    )
    computer.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    computer.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    computer.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", str(unlimited))
    computer.write("/sys/fs/cgroup/memory/process/60ae/memory.limit_in_bytes", str(unlimited))
    assert limits_of(computer) == (1, None, None)


def test_version_1_beside_version_2_is_the_one_that_limits(computer):
    computer.cgroups(
        "4:memory:/process/60ae\n1:cpu:/process\n0::/",
        v1_mount("cpu"),
        v1_mount("memory"),
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
    )
    computer.write("/sys/fs/cgroup/cpu/process/cpu.cfs_quota_us", "120000")
    computer.write("/sys/fs/cgroup/cpu/process/cpu.cfs_period_us", "100000")
    computer.write("/sys/fs/cgroup/memory/process/memory.limit_in_bytes", str(3 * GIB))
    assert limits_of(computer) == (1, 1.2, 3 * GIB)


def test_a_controller_that_version_1_left_is_found_in_version_2(computer):
    computer.cgroups("4:memory:/\n0::/job", v1_mount("memory"), V2)
    computer.write("/sys/fs/cgroup/job/cpu.max", "100000 100000")
    computer.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", str(GIB))
    assert limits_of(computer) == (2, 1.0, GIB)


def test_without_proc_there_is_no_limit(computer):
    assert limits_of(computer) == (None, None, None)


def test_mounts_without_the_own_group_limit_nothing(computer):
    computer.cgroups("4:devices:/", v1_mount("cpu"), V2)
    computer.write("/sys/fs/cgroup/cpu.max", "100000 100000")
    assert limits_of(computer) == (None, None, None)


def test_groups_that_are_not_mounted_cannot_be_read(computer):
    computer.cgroups("4:cpu:/\n0::/")
    assert limits_of(computer) == (None, None, None)
