"""Machine: the facts that must match before two measurements may be compared, and those that decide on knobs."""

from __future__ import annotations

import math

from autoaccel.records.base import Record
from autoaccel.records.bounds import Core, Cores, Count, CpuNumber, NotNegative, Number


class NumaNode(Record, frozen=True):
    """One memory node and its logical CPUs."""

    node: Cores
    cpus: tuple[CpuNumber, ...]


class Cache(Record, frozen=True):
    """One kind of cache: its size, and how many of them this computer has."""

    level: Count
    kind: str  # "data", "instruction" or "unified"
    size_bytes: Count
    count: Count


class Cpu(Record, frozen=True):
    """The processors of the whole computer, whatever part of them this process may use."""

    model: str
    sockets: Cores
    physical_cores: Cores
    logical_cores: Cores
    numa_nodes: tuple[NumaNode, ...]
    caches: tuple[Cache, ...]
    features: tuple[
        str, ...
    ]  # of: avx2 avx512f avx512_bf16 avx512_fp16 avx512_vnni amx_bf16 amx_int8 amx_fp16 neon sve bf16
    revision: str = ""  # family.model.stepping as Linux numbers them: some clouds call all generations one name
    is_virtual: bool = False  # a hypervisor hands them out, most often to other machines as well
    socket_cpus: tuple[tuple[CpuNumber, ...], ...] = ()  # logical CPUs of each socket, ascending; empty: not known
    efficient_cpus: tuple[CpuNumber, ...] = ()  # logical CPUs of the slower kind of core; empty: one kind, or not known

    @property
    def has_bfloat16(self) -> bool:
        """Whether it has instructions that multiply in bfloat16; without them that is emulated, and slower."""
        return bool({"amx_bf16", "avx512_bf16", "bf16"} & set(self.features))

    @property
    def cache_bytes(self) -> int:
        """What all caches for data hold together."""
        return sum(cache.size_bytes * cache.count for cache in self.caches if cache.kind != "instruction")


class ProcessLimits(Record, frozen=True):
    """What this process may use of the computer: the limit that counts in a container."""

    affinity: tuple[CpuNumber, ...]  # logical CPUs, ascending
    physical_cores: Cores  # distinct cores among them
    cores: tuple[Core, ...] = ()  # the same CPUs by the core that they share; empty: not known
    cpu_quota: NotNegative | None = None  # CPUs' worth of time per second; None: unlimited
    memory_bytes: Count | None = None  # None: unlimited
    cgroup_version: int | None = None  # 1 or 2; None: no cgroups, or not visible


class Library(Record, frozen=True):
    """A shared library that a knob may name, and where it lies on this computer."""

    name: str
    path: str


class Gpu(Record, frozen=True):
    """One GPU as NVML names it."""

    name: str
    memory_bytes: Count  # 0 where it shares the computer's memory
    driver: str
    uuid: str = ""  # "GPU-..."; empty: not told


PCIE_LINKS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""What nvidia-smi calls links that are no NVLink, the shortest first."""


class Interconnect(Record, frozen=True):
    """How the GPUs of one computer are connected with one another and with its processors.

    GPUs are in the driver's order, by bus, which is CUDA's only under CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """

    links: tuple[tuple[str, ...], ...]  # of each pair as nvidia-smi names it: NV<n>, or of PCIE_LINKS; X: itself
    cpus: tuple[tuple[CpuNumber, ...], ...]  # logical CPUs near each GPU, ascending; empty: not known
    numa_nodes: tuple[int | None, ...]  # memory node near each GPU; None: several, or not known


class GpuSet(Record, frozen=True):
    """GPUs to train on together, and where the rank of each runs best."""

    gpus: tuple[int, ...]  # ascending
    ring: tuple[int, ...]  # the same in an order in which neighbours, and the ends, are connected best
    hops: tuple[str, ...]  # the link from each GPU of the ring to the next; a pair has one
    slowest: str  # of the hops
    cores: tuple[tuple[int, ...], ...]  # logical CPUs for each of `gpus`, ascending; empty: leave it to the system


class TorchFacts(Record, frozen=True):
    """What torch itself can do here, told by a child process in the user's environment."""

    version: str
    intra_op_threads: Cores
    inter_op_threads: Cores
    cpu_capability: str
    device: str  # "cpu", "cuda", "mps" or "xpu": where a Training runs unless it says otherwise
    device_name: str
    autocast: tuple[str, ...]  # dtypes whose autocast trained a convolution and a linear layer on the device
    fused_optimizer: bool  # fused Adam made a step on the device
    compile_backends: tuple[str, ...] = ()  # of torch.compile, besides Inductor, with which a small model trained
    has_triton: bool = True  # it is there, and generates code for the device; asked of accelerators only
    attention: dict[str, tuple[str, ...]] = {}  # kernel -> dtypes in which it trained on the accelerator
    gpus: tuple[str, ...] = ()  # UUIDs of those that CUDA shows, in its order
    product_speedups: dict[str, Number] = {}  # of a CPU: 16-bit dtype -> times as fast as float32, in matrix products


class Machine(Record, frozen=True):
    """This computer, as far as training speed depends on it."""

    system: str
    architecture: str
    python: str
    cpu: Cpu
    limits: ProcessLimits
    memory_bytes: Count
    gpus: tuple[Gpu, ...]
    compiler: str | None  # of C++, where torch.compile looks for it; None: compiling for a CPU will fail
    openmp: tuple[Library, ...]
    allocators: tuple[Library, ...]
    torch: TorchFacts | None = None
    huge_pages: str | None = None  # transparent: "always", "madvise" or "never"; None: unknown here
    interconnect: Interconnect | None = None  # None: no GPU, or the driver does not tell
    packages: dict[str, str] = {}  # version of each installed distribution that a knob may need
    c_compiler: str | None = None  # of C, where Triton looks for it; None: compiling for a GPU will fail
    python_headers: bool = True  # Python.h is there, which Triton's launchers include
    libc: str | None = None  # the C library and its version, such as "glibc 2.36"; None: another, or not known
    shown_gpus: Count | None = None  # how many of `gpus` CUDA_VISIBLE_DEVICES shows; None: not known

    @property
    def usable_cores(self) -> int:
        """Logical CPUs' worth of work this process may do at once: affinity and quota together, at least 1."""
        allowed = len(self.limits.affinity)
        if self.limits.cpu_quota is not None:
            allowed = min(allowed, math.ceil(self.limits.cpu_quota))
        return max(1, allowed)

    @property
    def usable_physical_cores(self) -> int:
        """The same, counted in whole cores: threads that share one hardly compute more than one does, at least 1."""
        return max(1, min(self.usable_cores, self.limits.physical_cores))

    @property
    def usable_memory_bytes(self) -> int:
        """Memory that this process may use: the computer's, or what its container is limited to."""
        return min(self.memory_bytes, self.limits.memory_bytes or self.memory_bytes)

    @property
    def fingerprint(self) -> dict[str, str]:
        """What must be equal before two measurements may be compared, by the name people know it by."""
        return {
            "CPU": f"{self.cpu.model} {self.cpu.revision}".strip(),
            "usable CPU cores": str(self.usable_cores),
            "GPUs": ", ".join(gpu.name for gpu in self.gpus) or "none",
            "torch": self.torch.version if self.torch else "not probed",
        }

    def difference_from(self, present: Machine) -> str | None:
        """Return what sets another machine apart as `torch 2.11.0, here 2.13.0; ...`, or None if nothing does.

        A version of torch that does not tell its build is taken for any build of that version.
        """
        there, here = self.fingerprint, present.fingerprint
        found = {name: f"{name} {there[name]}, here {here[name]}" for name in there if there[name] != here[name]}
        release, build = _release_and_build(there["torch"])
        release_here, build_here = _release_and_build(here["torch"])
        if release == release_here and build != build_here:
            if build and build_here:
                found["torch"] += " (another build of the same version)"
            else:
                del found["torch"]
        return "; ".join(found.values()) or None


def _release_and_build(version: str) -> tuple[str, str]:
    """Return `2.15.0` and `cu132` of `2.15.0+cu132`; the build is empty where it is not told."""
    release, _, build = version.partition("+")
    return release, build
