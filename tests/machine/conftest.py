"""Computers made of files: what Linux would show in /sys and /proc, below a folder of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

XEON_FLAGS = (
    "fpu sse4_2 fma avx avx2 avx512f avx512dq avx512_bf16 avx512_vnni avx512_fp16 amx_bf16 amx_tile amx_int8 avx_vnni"
)


class Computer:
    """A computer's files; every method adds some."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """Write one file, given by its absolute path on that computer."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def cpuinfo(self, *blocks: dict[str, object]) -> None:
        """Write /proc/cpuinfo."""
        texts = ["\n".join(f"{name}\t: {value}" for name, value in block.items()) for block in blocks]
        self.write("/proc/cpuinfo", "\n\n".join(texts) + "\n")

    def topology(self, sockets: int, cores: int, threads: int) -> None:
        """Write the sysfs topology of sockets x cores x threads, numbered as Linux does: second threads come last."""
        physical = sockets * cores
        self.write("/sys/devices/system/cpu/online", f"0-{physical * threads - 1}")
        for cpu in range(physical * threads):
            core = cpu % physical
            folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
            self.write(f"{folder}/physical_package_id", str(core // cores))
            self.write(f"{folder}/core_id", str(core % cores))
            siblings = ",".join(str(core + physical * thread) for thread in range(threads))
            self.write(f"{folder}/core_cpus_list", siblings)

    def cache(self, cpus: range | tuple[int, ...], index: int, level: int, kind: str, size: str, shared: str) -> None:
        """Write one cache as each of the CPUs that share it shows it."""
        for cpu in cpus:
            folder = f"/sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            self.write(f"{folder}/level", str(level))
            self.write(f"{folder}/type", kind)
            self.write(f"{folder}/size", size)
            self.write(f"{folder}/shared_cpu_list", shared)

    def cgroups(self, membership: str, *mounts: str) -> None:
        """Write this process's groups, and its mounts as mountinfo shows them."""
        self.write("/proc/self/cgroup", membership)
        self.write("/proc/self/mountinfo", "\n".join(("22 27 0:21 / /proc rw,relatime - proc proc rw", *mounts)))

    def xeon(self) -> None:
        """Write a computer of two sockets with two cores each, two threads per core, a memory node per socket."""
        self.topology(sockets=2, cores=2, threads=2)
        common = {"vendor_id": "GenuineIntel", "model name": "Intel(R) Xeon(R)  Platinum 8480+", "flags": XEON_FLAGS}
        self.cpuinfo(
            *({"processor": cpu, **common, "physical id": cpu % 4 // 2, "core id": cpu % 2} for cpu in range(8))
        )
        for core in range(4):
            pair, shared = (core, core + 4), f"{core},{core + 4}"
            self.cache(pair, 0, 1, "Data", "48K", shared)
            self.cache(pair, 1, 1, "Instruction", "32K", shared)
            self.cache(pair, 2, 2, "Unified", "2048K", shared)
        self.cache((0, 1, 4, 5), 3, 3, "Unified", "107520K", "0-1,4-5")
        self.cache((2, 3, 6, 7), 3, 3, "Unified", "107520K", "2-3,6-7")
        self.write("/sys/devices/system/node/node0/cpulist", "0-1,4-5")
        self.write("/sys/devices/system/node/node1/cpulist", "2-3,6-7")
        self.write("/sys/devices/system/node/possible", "0-1")
        self.write("/proc/meminfo", "MemTotal:       527988736 kB\nMemFree:        100 kB")
        self.write("/proc/self/status", "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7")


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    """An empty computer, to be filled in."""
    return Computer(tmp_path)
