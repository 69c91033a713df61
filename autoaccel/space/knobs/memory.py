"""Knobs of memory: who hands it out, in which pages, and what is kept of it between steps."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import Knob, KnobContext, Need, always, choices, equals, switch, why_no_gpu

_JEMALLOC = "oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:9000000000,muzzy_decay_ms:-1"
"""What PyTorch's own launcher for Xeon processors sets (torch/backends/xeon/run_cpu.py): freed pages are kept."""

_KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""For glibc's allocator: no block is mapped by itself, and unmapped when it is freed; and the heap is not trimmed,
unless more than a TiB at its end is free (`man mallopt`). Its own thresholds follow the blocks that were freed, but
none above 32 MiB."""

_HOW_TO_GET = "apt install libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0"


def _allocators(context: KnobContext) -> tuple[Value, ...]:
    return ("system", *(library.name for library in context.machine.allocators))


def _why_one_allocator(context: KnobContext) -> str:
    if context.machine.system != "Linux":
        return f"no allocator can be preloaded on {context.machine.system}"
    return "" if len(_allocators(context)) > 1 else f"this machine has no other allocator: {_HOW_TO_GET}"


def _allocator_environment(value: Value, context: KnobContext) -> Mapping[str, str]:
    paths = {library.name: library.path for library in context.machine.allocators}
    if value not in paths:
        return {}
    return {"LD_PRELOAD": paths[str(value)], **({"MALLOC_CONF": _JEMALLOC} if value == "jemalloc" else {})}


def _why_no_glibc(context: KnobContext) -> str:
    return "" if (context.machine.libc or "").startswith("glibc") else "the C library is not known to be glibc"


def _why_no_huge_pages(context: KnobContext) -> str:
    mode = context.machine.huge_pages
    if mode is None:
        return f"{context.machine.system} has no transparent huge pages, or does not report them"
    if mode == "always":
        return "the system already gives huge pages to every process"
    return "" if mode == "madvise" else "the system's transparent huge pages are off"


def _why_no_checkpoints(context: KnobContext) -> str:
    if context.training is None:
        return ""
    if context.training.repeated_blocks < 2:
        return "the model has no repeated blocks"
    if context.training.blocks_normalise_batches:
        return "its blocks normalise over the batch, and computing them twice would count each batch twice"
    return ""


KNOBS = (
    Knob(
        name="memory.allocator",
        group="memory",
        effect_stage="launch",
        acts_in=("loop", "script"),
        risk="exact",
        help="the library that allocates memory; jemalloc is configured to keep freed pages",
        helps_when="large tensors are created and freed in each step on a CPU: the system's allocator returns "
        "them every time",
        effect="autoaccel.runtime.knobs.memory:Allocator",
        values=_allocators,
        usual=always("system"),
        off="system",
        why_unavailable=_why_one_allocator,
        environment=_allocator_environment,
    ),
    Knob(
        name="memory.keep_freed",
        group="memory",
        effect_stage="environment",
        acts_in=("loop", "script"),
        risk="exact",
        help="glibc keeps the memory that is freed instead of giving it back to the system (MALLOC_MMAP_MAX_, "
        "MALLOC_TRIM_THRESHOLD_)",
        helps_when="large tensors are created and freed in each step on a CPU: the system must clear every page that "
        "it hands out again",
        effect="autoaccel.runtime.knobs.memory:KeepFreed",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_glibc,
        environment=lambda value, context: _KEEPING,
        needs=(Need("memory.allocator", equals("system"), "the system's"),),
        # On examples/digits_cnn.py, two quiet cores: steps 1.2 times as fast.
        usual_effect=0.2,
        spares_system=True,
    ),
    Knob(
        name="memory.huge_pages",
        group="memory",
        effect_stage="environment",
        acts_in=("loop", "script"),
        risk="exact",
        help="tensors of 2 MB and more are stored in huge pages (THP_MEM_ALLOC_ENABLE)",
        helps_when="large tensors on a CPU: fewer page faults and address look-ups",
        effect="autoaccel.runtime.knobs.memory:HugePages",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_huge_pages,
        environment=lambda value, context: {"THP_MEM_ALLOC_ENABLE": "1"},
    ),
    Knob(
        name="memory.expandable_segments",
        group="memory",
        effect_stage="environment",
        acts_in=("loop", "script"),
        risk="exact",
        help="CUDA memory grows in place instead of in blocks of fixed size (PYTORCH_CUDA_ALLOC_CONF)",
        helps_when="sizes change from step to step and memory is nearly full",
        effect="autoaccel.runtime.knobs.memory:ExpandableSegments",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=why_no_gpu,
        environment=lambda value, context: {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
    Knob(
        name="memory.keep_gradients",
        group="memory",
        effect_stage="step",
        risk="rounding",  # a gradient is added to zeros, which makes +0.0 of -0.0
        help="gradients are set to zero in place after each step instead of freed",
        helps_when="the allocator is slow for large blocks",
        effect="autoaccel.runtime.knobs.memory:KeepGradients",
        values=switch,
        usual=always(False),
        off=False,
    ),
    Knob(
        name="memory.checkpointing",
        group="memory",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="activations inside repeated blocks are recomputed in the backward pass instead of kept",
        helps_when="never by itself: it frees memory for a larger batch",
        effect="autoaccel.runtime.knobs.memory:Checkpointing",
        values=choices("off", "blocks"),
        usual=always("off"),
        off="off",
        why_unavailable=_why_no_checkpoints,
    ),
)
"""Those of memory."""
