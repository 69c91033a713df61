"""Rules about memory: handing it out, page faults, swapping."""

from __future__ import annotations

from autoaccel.advise.observations import Gain, Observations, Rule, make_finding
from autoaccel.records.profile import Finding

_FAULT_SECONDS = 1e-6  # a first touch of a 4 KiB page, zeroing included: 0.5 to 1 microsecond on present x86 servers
_MAX_FAULT_SECONDS = 4e-6  # in a virtual machine: 2.8 microseconds of system time on a Xeon with AVX512-FP16
_MAJOR_FAULT_SECONDS = 1e-4  # one read from a fast disk
_NOTICEABLE = 0.02
_SWAPPING = 1 << 20  # bytes per second
_SCARCE = 0.05  # of the memory


def memory(observed: Observations) -> Finding | None:
    """Copying, filling and handing out memory."""
    own = observed.groups("memory") * (1 - observed.data_wait)
    # Page faults and cache misses of fresh memory are spent inside the operators that write it first.
    share = max(own, min(0.5, 2 * own))
    return make_finding(
        "memory",
        f"copying, filling and allocating memory takes {own:.1%} of the step, at most {share:.1%} including "
        "what fresh memory costs other operators",
        Gain(share, removable=0.2),
        "An allocator that keeps freed pages, and huge pages, reduce the system's work.",
        knobs=(
            "memory.keep_freed",
            "memory.allocator",
            "memory.huge_pages",
            "memory.keep_gradients",
            "memory.expandable_segments",
        ),
    )


def page_faults(observed: Observations) -> Finding | None:
    """The system hands out the same memory again and again."""
    faults = observed.profile.minor_faults_per_step
    if faults is None:
        return None
    share = _share_of_faults(observed, faults)
    if share < _NOTICEABLE:
        return None
    return make_finding(
        "page-faults",
        f"{faults:,.0f} page faults a step: memory is returned to the system and requested again",
        Gain(share, removable=0.5),
        "Let glibc keep freed memory (MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1099511627776), use an allocator that "
        "does (jemalloc, tcmalloc), or keep the gradients.",
        knobs=("memory.keep_freed", "memory.allocator", "memory.keep_gradients"),
        numbers={"faults_per_step": faults},
    )


def small_pages(observed: Observations) -> Finding | None:
    """Page faults where the system would give larger pages if asked."""
    faults, mode = observed.profile.minor_faults_per_step, observed.machine.huge_pages
    if faults is None or mode not in ("madvise", "never"):
        return None
    share = _share_of_faults(observed, faults)
    if share < _NOTICEABLE:
        return None
    how = (
        "Request them with THP_MEM_ALLOC_ENABLE=1."
        if mode == "madvise"
        else "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled, then THP_MEM_ALLOC_ENABLE=1."
    )
    return make_finding(
        "small-pages",
        f"memory comes in pages of 4 KiB, {faults:,.0f} faults a step, and huge pages are off (mode {mode})",
        Gain(share, removable=0.5),
        how,
        knobs=("memory.huge_pages",),
        numbers={"faults_per_step": faults},
    )


def _share_of_faults(observed: Observations, faults: float) -> float:
    """Return the share of the step that page faults take at most: all of the system's time, if they can explain it."""
    spent = min(observed.profile.system_seconds or 0.0, faults * _MAX_FAULT_SECONDS)
    return min(0.9, max(spent, faults * _FAULT_SECONDS) / observed.mean_step_seconds)


def swapping(observed: Observations) -> Finding | None:
    """Memory does not suffice."""
    machine_conditions = observed.machine_conditions
    faults = observed.profile.major_faults_per_step or 0.0
    swapped = machine_conditions.swapped_bytes_per_second if machine_conditions else 0.0
    scarce = (
        machine_conditions is not None and machine_conditions.available_bytes < _SCARCE * observed.machine.memory_bytes
    )
    if faults < 1 and swapped < _SWAPPING and not scarce:
        return None
    share = max(0.05, min(0.95, faults * _MAJOR_FAULT_SECONDS / observed.mean_step_seconds))
    return make_finding(
        "swapping",
        f"memory runs short: {faults:.0f} reads from disk a step, {swapped / 2**20:.3g} MiB/s swapped",
        Gain(share, removable=0.9),
        "Use fewer loader workers, smaller batches or activation checkpointing, or add memory.",
        knobs=("memory.checkpointing",),
        numbers={"major_faults_per_step": faults, "swapped_bytes_per_second": swapped},
    )


RULES: dict[str, Rule] = {
    "memory": memory,
    "page-faults": page_faults,
    "small-pages": small_pages,
    "swapping": swapping,
}
