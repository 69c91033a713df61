"""The processors: their name, their instruction sets, and how many there are of everything."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from autoaccel.machine.kernel_files import read_fields, read_text
from autoaccel.machine.topology import (
    LogicalCpu,
    read_caches,
    read_efficient_cpus,
    read_numa_nodes,
    sockets_of,
)
from autoaccel.records.machine import Cpu

# Linux's own names of x86 features are also ours.
_X86_FEATURES = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "amx_bf16",
    "amx_int8",
    "amx_fp16",
)
_ARM_FEATURES = {"asimd": "neon", "sve": "sve", "bf16": "bf16"}

# ARM processors give numbers instead of a name (implementer, part): Arm's and Ampere's MIDR_EL1 values.
_ARM_MODELS = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd83"): "Neoverse-V3AE",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


def read_cpu(root: Path, cpus: Sequence[LogicalCpu]) -> Cpu:
    """Return the processors that the logical CPUs belong to."""
    blocks = [read_fields(block) for block in (read_text(root / "proc/cpuinfo") or "").split("\n\n")]
    return Cpu(
        model=_model(blocks),
        sockets=len({cpu.socket for cpu in cpus}),
        physical_cores=len({cpu.core for cpu in cpus}),
        logical_cores=len(cpus),
        numa_nodes=read_numa_nodes(root, cpus),
        caches=read_caches(root, cpus),
        features=_features(blocks[0]),
        revision=_revision(blocks[0]),
        is_virtual="hypervisor" in blocks[0].get("flags", "").split(),
        socket_cpus=sockets_of(cpus),
        efficient_cpus=read_efficient_cpus(root, cpus),
    )


def _model(blocks: Sequence[dict[str, str]]) -> str:
    """Return the processor's name; two kinds of core in one computer as `Cortex-A76 + Cortex-A55`."""
    # A dict keeps the order and drops repetitions.
    names = {name: None for block in blocks if (name := _model_of_one(block))}
    # Not platform.processor(): it starts `uname -p`.
    return " + ".join(names) or platform.machine() or "unknown"


def _model_of_one(fields: dict[str, str]) -> str | None:
    # "cpu" is where PowerPC has its name.
    for name in ("model name", "cpu"):
        if fields.get(name):
            return " ".join(fields[name].split())
    if "CPU part" in fields:
        implementer, part = fields.get("CPU implementer", "unknown"), fields["CPU part"]
        return _ARM_MODELS.get((implementer, part), f"ARM implementer {implementer} part {part}")
    return None


def _revision(fields: dict[str, str]) -> str:
    numbers = [fields.get(name, "") for name in ("cpu family", "model", "stepping")]
    return ".".join(numbers) if all(numbers) else ""


def _features(fields: dict[str, str]) -> tuple[str, ...]:
    if "flags" in fields:
        flags = set(fields["flags"].split())
        return tuple(name for name in _X86_FEATURES if name in flags)
    if "Features" in fields:
        flags = set(fields["Features"].split())
        return tuple(name for flag, name in _ARM_FEATURES.items() if flag in flags)
    # Without /proc (macOS) the least that a 64-bit ARM has is known.
    return ("neon",) if platform.machine() == "arm64" else ()
