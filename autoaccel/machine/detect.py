"""Put together what is known of this computer without torch. Takes milliseconds (tens on hundreds of CPUs)."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path

import psutil

from autoaccel.machine.compiler import find_c_compiler, find_compiler, has_python_headers
from autoaccel.machine.cpu import read_cpu
from autoaccel.machine.gpus import read_gpus
from autoaccel.machine.interconnect import read_interconnect
from autoaccel.machine.kernel_files import read_fields, read_text
from autoaccel.machine.libraries import ALLOCATOR_STEMS, OPENMP_STEMS, find_libraries, library_folders
from autoaccel.machine.limits import read_limits
from autoaccel.machine.topology import read_logical_cpus
from autoaccel.machine.visible import visible_gpus
from autoaccel.records.machine import Machine


def detect_machine(root: Path = Path("/")) -> Machine:
    """Return what this computer can do; `torch` is left open.

    With another `root` the processors, limits, memory and system libraries are those of the computer whose files were
    recorded there; system, architecture, GPUs, compiler and the Python environment remain this one's.
    """
    cpus = read_logical_cpus(root)
    folders = library_folders(root)
    gpus = read_gpus()
    shown = visible_gpus(gpus)
    return Machine(
        system=platform.system(),
        architecture=platform.machine(),
        python=platform.python_version(),
        cpu=read_cpu(root, cpus),
        limits=read_limits(root, cpus),
        memory_bytes=_read_memory_bytes(root),
        gpus=gpus,
        compiler=find_compiler(),
        openmp=find_libraries(OPENMP_STEMS, folders),
        allocators=find_libraries(ALLOCATOR_STEMS, folders),
        huge_pages=_read_huge_pages(root),
        interconnect=read_interconnect(),
        packages=_installed(),
        c_compiler=find_c_compiler(),
        python_headers=has_python_headers(),
        libc=_libc(),
        shown_gpus=None if shown is None else len(shown),
    )


_PACKAGES = (
    "torch-pruning",
    "nni",
    "intel-extension-for-pytorch",
    "intel-openmp",
    "oneccl-bindings-for-pytorch",
    "torchvision",
)


def _installed() -> dict[str, str]:
    """Return the versions of the packages that knobs ask for, without importing them."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _libc() -> str | None:
    """Return the C library that this Python is linked with, as far as it tells."""
    return " ".join(platform.libc_ver()).strip() or None


def _read_huge_pages(root: Path) -> str | None:
    """Return the mode of transparent huge pages: the one in brackets in `always [madvise] never`; None if unknown."""
    modes = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    active = re.search(r"\[(\w+)\]", modes)
    return active[1] if active else None


def _read_memory_bytes(root: Path) -> int:
    """Return the memory of the whole computer; without /proc (macOS) as psutil tells it."""
    total = read_fields(read_text(root / "proc/meminfo") or "").get("MemTotal")
    # "24684096 kB", where kB means KiB.
    return int(total.split()[0]) * 1024 if total else int(psutil.virtual_memory().total)
