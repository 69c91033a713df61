"""Knobs of the way from the data set to the device."""

from __future__ import annotations

import math

from autoaccel.records.by_hand import ByHand
from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import (
    ON,
    Clash,
    Knob,
    KnobContext,
    Need,
    always,
    baseline_threads,
    choices,
    equals,
    gpus_of,
    switch,
    why_no_gpu,
)

_WORKERS = Need("loader.workers", ON, "above 0")
_CACHED_SHARE = 0.25  # of the memory that this process may use: the rest is the training's
_FASTER, _FASTER_WITH_TILES, _FASTER_ON_GPU = 3.0, 8.0, 6.0
"""By how much other settings may shorten the step for which workers load. On CPUs: OTHERS_SPEEDUP in advise/bounds.py.
AMX multiplies bfloat16 up to 16 times as fast as AVX-512 does float32, tensor cores likewise: guesses, between that and
what whole steps win."""
NEGLIGIBLE_LOADING = 0.05
"""Share of the step that loading takes: what is less cannot be told from noise between two processes."""
_USUAL_WORKERS = (0, 1, 2, 4)
_LIMIT = 4  # workers for each CPU that may be asked for by hand
_WORKERS_OF_A_GPU = 4  # where nobody knows better: Hugging Face, "Efficient training on a single GPU"


def _worker_values(context: KnobContext) -> tuple[Value, ...]:
    """The user's own count, none, and as many as keep up with the step: see `workers_needed`.

    That many, and one more, because batches take unequal times; as many as steps need that other settings make faster,
    or that several GPUs make together; and half of the most where that would be more than the most, as loading then
    takes the cores from the training. Until somebody has measured what loading takes, a few.
    """
    workers, most, needed = _worker_default(context), _max_workers(context), workers_needed(context)
    if needed is None:
        counts = {*_USUAL_WORKERS, _WORKERS_OF_A_GPU * gpus_of(context)}
    else:
        counts = {0, needed, needed + 1, *(workers_ahead(context, gpus) or 0 for gpus in (1, gpus_of(context)))}
        if max(counts) > most:
            counts.add(most // 2)
    return tuple(sorted({workers, *(min(count, most) for count in counts)}))


def steps_of_loading(context: KnobContext, times: float = 1.0) -> float | None:
    """Return how many steps go by while one process loads a batch; None where that is not known.

    Args:
        context: What a step and loading take there.
        times: How many times as fast as it is the step should be.
    """
    demand = context.demand
    if demand is None or demand.loading_seconds is None or demand.step_seconds <= 0:
        return None
    return times * demand.loading_seconds / demand.step_seconds


def times_faster(context: KnobContext, gpus: int = 1) -> float:
    """Return how many times as fast as it is the step may be once other settings are found.

    Args:
        context: What computes there.
        gpus: That share the batch.
    """
    if context.device != "cpu":
        return gpus * _FASTER_ON_GPU
    # Threads that a container's quota stops again and again make a step long that others would make short.
    crowded = max(1.0, baseline_threads(context) / context.machine.usable_physical_cores)
    return crowded * (_FASTER_WITH_TILES if "amx_bf16" in context.machine.cpu.features else _FASTER)


def workers_needed(context: KnobContext, times: float = 1.0) -> int | None:
    """Return how many workers load a batch in the time of a step; see `steps_of_loading`."""
    steps = steps_of_loading(context, times)
    if steps is None:
        return None
    return math.ceil(steps) if steps >= NEGLIGIBLE_LOADING else 0


def workers_ahead(context: KnobContext, gpus: int = 1) -> int | None:
    """Return how many workers keep up once other settings have made the step faster; None where that is not known."""
    return workers_needed(context, times_faster(context, gpus))


def threads_beside_loading(context: KnobContext) -> int | None:
    """Return how many cores compute once other settings have made the step faster, where the others load beside it.

    They are shared out as the work is, so that neither waits for the other. None where that is not known, or where
    there is next to nothing to load.
    """
    demand, steps = context.demand, steps_of_loading(context, times_faster(context))
    if demand is None or not demand.loading_seconds or steps is None or steps < NEGLIGIBLE_LOADING:
        return None
    busy = demand.loading_seconds if demand.busy_seconds is None else demand.busy_seconds
    cores = context.machine.usable_physical_cores
    return max(1, round(cores * cores / (cores + steps * busy / demand.loading_seconds)))


def _max_workers(context: KnobContext) -> int:
    """Return how many workers find a core when they need one: those that sleep most of the time need it seldom."""
    machine, demand = context.machine, context.demand
    most = machine.usable_physical_cores
    if demand is None or not demand.loading_seconds or not demand.busy_seconds:
        return most
    return min(_LIMIT * machine.usable_cores, max(most, int(most * demand.loading_seconds / demand.busy_seconds)))


def _worker_default(context: KnobContext) -> int:
    return context.training.loader_workers if context.training else 0


def why_no_loader(context: KnobContext) -> str:
    """Return why arguments of a loader are unavailable; empty if batches come from a DataLoader that can be rebuilt."""
    if context.training is not None and not context.training.loader_adjustable:
        return context.training.loader_fixed or "batches do not come from a torch DataLoader"
    return ""


def _why_bound(context: KnobContext) -> str:
    """Return why nobody else may load samples, nor sooner; empty if others may."""
    if reason := why_no_loader(context):
        return reason
    return context.training.loading_bound if context.training is not None else ""


def _why_no_copies(context: KnobContext) -> str:
    if context.device == "cpu":
        return "there is no accelerator to copy to"
    return f"{context.device} shares the computer's memory" if context.device == "mps" else why_no_loader(context)


def _why_no_side_stream(context: KnobContext) -> str:
    return _why_no_copies(context) or why_no_gpu(context) or _why_bound(context)


def _pin_default(context: KnobContext) -> bool:
    return context.training.loader_pins_memory if context.training else False


def _prefetch_default(context: KnobContext) -> int:
    return context.training.loader_prefetch if context.training else 2


def _context_default(context: KnobContext) -> str:
    declared = context.training.loader_context if context.training else ""
    # Python's own choice before 3.14.
    return declared or ("fork" if context.machine.system == "Linux" else "spawn")


def _persistent_default(context: KnobContext) -> bool:
    """As the user's own loader; where it has no workers, nobody has chosen yet, and starting anew is never faster."""
    return context.training.loader_persistent if context.training and context.training.loader_workers else True


def _why_no_cache(context: KnobContext) -> str:
    if reason := _why_bound(context):
        return reason
    if context.training is None:
        return ""
    if context.training.dataset_bytes is None:
        return "its samples differ from load to load, or their size is unknown"
    if context.training.epochs == 1:
        return "the training has only one epoch, which loads each sample for the first time"
    if _is_too_much(context, 1):
        return f"the dataset takes more than {_CACHED_SHARE:.0%} of the memory"
    return ""


def _is_too_much(context: KnobContext, copies: int) -> bool:
    """Whether so many copies of all samples leave too little memory for the training."""
    held = copies * ((context.training and context.training.dataset_bytes) or 0)
    return held > _CACHED_SHARE * context.machine.usable_memory_bytes


def _is_too_much_in_each(context: KnobContext, cached: Value, processes: Value) -> bool:
    return _is_too_much(context, int(processes))


_IN_EACH = f"each loading process would hold the dataset: together more than {_CACHED_SHARE:.0%} of the memory"

_PINNED = Need("loader.pin_memory", ON, "on")

KNOBS = (
    Knob(
        name="loader.workers",
        group="data",
        effect_stage="data",
        acts_in=("loop", "script"),
        risk="exact",
        decides_on_loading=True,
        help="number of processes that prepare batches ahead of the training step",
        helps_when="the step waits for data; useless or harmful if samples are already in memory",
        effect="autoaccel.runtime.knobs.loader:Workers",
        by_hand=lambda value, device: ByHand("loader", f"num_workers={value}"),
        values=_worker_values,
        usual=_worker_default,
        off=0,
        why_unavailable=_why_bound,
        value_range=lambda context: (0, _LIMIT * context.machine.usable_cores),
        own_range=(0, 64),  # more than people give a loader where there are fewer cores than a quarter of that
    ),
    Knob(
        name="loader.prefetch",
        group="data",
        effect_stage="data",
        acts_in=("loop", "script"),
        risk="exact",  # a worker draws the same numbers for the same samples, however far ahead of the step
        help="number of batches that each worker prefetches",
        helps_when="the time to prepare a batch varies greatly",
        effect="autoaccel.runtime.knobs.loader:Prefetch",
        by_hand=lambda value, device: ByHand("loader", f"prefetch_factor={value}"),
        values=lambda context: tuple(sorted({2, 4, 8, _prefetch_default(context)})),
        usual=_prefetch_default,
        why_unavailable=_why_bound,
        value_range=lambda context: (1, 64),
        own_range=(1, 256),
        needs=(_WORKERS,),
    ),
    Knob(
        name="loader.persistent",
        group="data",
        effect_stage="data",
        acts_in=("loop", "script"),
        risk="exact",
        decides_on_loading=True,
        help="workers are kept for all epochs instead of being restarted for each",
        helps_when="epochs take seconds, or workers import large libraries",
        effect="autoaccel.runtime.knobs.loader:Persistent",
        by_hand=lambda value, device: ByHand("loader", f"persistent_workers={value}"),
        values=choices(True, False),
        usual=_persistent_default,
        why_unavailable=_why_bound,
        needs=(_WORKERS,),
    ),
    Knob(
        name="loader.context",
        group="data",
        effect_stage="data",
        acts_in=("loop", "script"),
        risk="exact",
        decides_on_loading=True,
        help="how worker processes are started",
        helps_when="a library does not survive a fork: forkserver or spawn; otherwise fork is fastest",
        effect="autoaccel.runtime.knobs.loader:Context",
        by_hand=lambda value, device: ByHand("loader", f'multiprocessing_context="{value}"'),
        values=choices("fork", "forkserver", "spawn"),
        usual=_context_default,
        why_unavailable=_why_bound,
        needs=(_WORKERS,),
    ),
    Knob(
        name="loader.cache",
        group="data",
        effect_stage="data",
        risk="changes_training",  # a random transform that was not noticed would be drawn only once
        help="each loading process keeps every sample in memory after its first load",
        helps_when="loading and decoding dominate, samples are the same each time, and several epochs are trained",
        effect="autoaccel.runtime.knobs.loader:CacheSamples",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_cache,
        clashes=(
            # Workers are counted for all ranks together, and each rank without workers loads for itself.
            Clash(ON, "loader.workers", ON, _IN_EACH, _is_too_much_in_each),
            Clash(ON, "parallel.world_size", ON, _IN_EACH, _is_too_much_in_each),
        ),
    ),
    Knob(
        name="loader.pin_memory",
        group="data",
        effect_stage="data",
        risk="exact",
        help="batches are put in page-locked memory, from which an accelerator copies faster",
        helps_when="large batches are copied to a GPU",
        effect="autoaccel.runtime.knobs.loader:PinMemory",
        values=switch,
        usual=_pin_default,
        off=False,
        why_unavailable=_why_no_copies,
    ),
    Knob(
        name="loader.non_blocking",
        group="data",
        effect_stage="data",
        risk="exact",
        help="copies to the accelerator do not block the program",
        helps_when="batches are in pinned memory",
        effect="autoaccel.runtime.knobs.loader:NonBlocking",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_copies,
        needs=(_PINNED,),
    ),
    Knob(
        name="loader.side_stream",
        group="data",
        effect_stage="data",
        risk="exact",
        decides_on_loading=True,
        help="the next batch is copied on a separate stream while the accelerator computes",
        helps_when="copying takes a noticeable part of the step",
        effect="autoaccel.runtime.knobs.loader:SideStream",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_side_stream,
        needs=(_PINNED,),
        clashes=(Clash(ON, "loader.non_blocking", equals(False), "blocking copies cannot overlap"),),
    ),
)
"""Those of data."""
