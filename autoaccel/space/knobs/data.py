"""Knobs of the way from the data set to the device."""

from __future__ import annotations

from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import (
    Clash,
    Knob,
    Need,
    Place,
    always,
    choices,
    is_on,
    powers_of_two,
    switch,
    why_no_gpu,
)

_WORKERS = Need("loader.workers", lambda value: int(value) > 0, "above 0")
_CACHED_SHARE = 0.25  # of the memory that this process may use: the rest is the training's


def _worker_values(place: Place) -> tuple[Value, ...]:
    """0, 1, 2, then doubling up to the usable cores: more than that only take turns."""
    return tuple(sorted({0, 1, *powers_of_two(place.machine.usable_cores)} | {_worker_default(place)}))


def _worker_default(place: Place) -> int:
    return place.training.loader_workers if place.training else 0


def why_no_loader(place: Place) -> str:
    """Return why arguments of a loader are unavailable; empty if batches come from a DataLoader that can be rebuilt."""
    if place.training is not None and not place.training.loader_adjustable:
        return place.training.loader_fixed or "batches do not come from a torch DataLoader"
    return ""


def _why_no_copies(place: Place) -> str:
    if place.device == "cpu":
        return "there is no accelerator to copy to"
    return f"{place.device} shares the computer's memory" if place.device == "mps" else why_no_loader(place)


def _why_no_side_stream(place: Place) -> str:
    return _why_no_copies(place) or why_no_gpu(place)


def _pin_default(place: Place) -> bool:
    return place.training.loader_pins_memory if place.training else False


def _prefetch_default(place: Place) -> int:
    return place.training.loader_prefetch if place.training else 2


def _context_default(place: Place) -> str:
    own = place.training.loader_context if place.training else ""
    # Python's own choice before 3.14.
    return own or ("fork" if place.machine.system == "Linux" else "spawn")


def _persistent_default(place: Place) -> bool:
    """As the user's own loader; where it has no workers, nobody has chosen yet, and starting anew is never faster."""
    return place.training.loader_persistent if place.training and place.training.loader_workers else True


def _why_no_cache(place: Place) -> str:
    if reason := why_no_loader(place):
        return reason
    if place.training is None:
        return ""
    if place.training.dataset_bytes is None:
        return "its samples are not the same each time, or their size is not known"
    if place.training.epochs == 1:
        return "the training is over after one epoch, in which each sample is loaded for the first time"
    if _is_too_much(place, 1):
        return f"the data set takes more than {_CACHED_SHARE:.0%} of the memory"
    return ""


def _is_too_much(place: Place, copies: int) -> bool:
    """Whether so many copies of all samples leave too little memory for the training."""
    held = copies * ((place.training and place.training.dataset_bytes) or 0)
    return held > _CACHED_SHARE * (place.machine.limits.memory_bytes or place.machine.memory_bytes)


def _is_too_much_in_each(place: Place, cached: Value, processes: Value) -> bool:
    return _is_too_much(place, int(processes))


_IN_EACH = f"each process that loads would hold the data set, together more than {_CACHED_SHARE:.0%} of the memory"

_PINNED = Need("loader.pin_memory", is_on, "on")

KNOBS = (
    Knob(
        name="loader.workers",
        group="data",
        stage="data",
        risk="exact",
        decides_on_loading=True,
        help="processes that prepare batches ahead of the training step",
        helps_when="the step waits for data; useless, or harmful, where samples are ready in memory",
        effect="autoaccel.runtime.knobs.loader:Workers",
        values=_worker_values,
        usual=_worker_default,
        why_unavailable=why_no_loader,
        limits=lambda place: (0, 4 * place.machine.usable_cores),
    ),
    Knob(
        name="loader.prefetch",
        group="data",
        stage="data",
        risk="exact",  # a worker draws the same numbers for the same samples, however far ahead of the step
        help="batches that each worker prepares ahead",
        helps_when="the time that a batch takes to prepare varies much",
        effect="autoaccel.runtime.knobs.loader:Prefetch",
        values=lambda place: tuple(sorted({2, 4, 8, _prefetch_default(place)})),
        usual=_prefetch_default,
        why_unavailable=why_no_loader,
        limits=lambda place: (1, 64),
        needs=(_WORKERS,),
    ),
    Knob(
        name="loader.persistent",
        group="data",
        stage="data",
        risk="exact",
        decides_on_loading=True,
        help="workers stay for all epochs instead of being started anew for each",
        helps_when="epochs of seconds, or workers that import much",
        effect="autoaccel.runtime.knobs.loader:Persistent",
        values=choices(True, False),
        usual=_persistent_default,
        why_unavailable=why_no_loader,
        needs=(_WORKERS,),
    ),
    Knob(
        name="loader.context",
        group="data",
        stage="data",
        risk="exact",
        decides_on_loading=True,
        help="how worker processes are started",
        helps_when="fork is fastest; forkserver and spawn where a library does not survive a fork",
        effect="autoaccel.runtime.knobs.loader:Context",
        values=choices("fork", "forkserver", "spawn"),
        usual=_context_default,
        why_unavailable=why_no_loader,
        needs=(_WORKERS,),
    ),
    Knob(
        name="loader.cache",
        group="data",
        stage="data",
        risk="changes_training",  # a random transform that was not noticed would be drawn only once
        help="each sample is kept in memory once it was loaded, by every process that loads",
        helps_when="loading and decoding dominate, samples are the same each time, and several epochs are trained",
        effect="autoaccel.runtime.knobs.loader:Cache",
        values=switch,
        usual=always(False),
        why_unavailable=_why_no_cache,
        clashes=(
            # Workers are counted for all ranks together, and each rank without workers loads for itself.
            Clash(is_on, "loader.workers", is_on, _IN_EACH, _is_too_much_in_each),
            Clash(is_on, "parallel.world_size", is_on, _IN_EACH, _is_too_much_in_each),
        ),
    ),
    Knob(
        name="loader.pin_memory",
        group="data",
        stage="data",
        risk="exact",
        help="batches are put in page-locked memory, from which an accelerator copies faster",
        helps_when="large batches travel to a GPU",
        effect="autoaccel.runtime.knobs.loader:PinMemory",
        values=switch,
        usual=_pin_default,
        why_unavailable=_why_no_copies,
    ),
    Knob(
        name="loader.non_blocking",
        group="data",
        stage="data",
        risk="exact",
        help="copies to the accelerator do not hold up the program",
        helps_when="batches lie in pinned memory",
        effect="autoaccel.runtime.knobs.loader:NonBlocking",
        values=switch,
        usual=always(False),
        why_unavailable=_why_no_copies,
        needs=(_PINNED,),
    ),
    Knob(
        name="loader.side_stream",
        group="data",
        stage="data",
        risk="exact",
        decides_on_loading=True,
        help="the next batch is copied on a stream of its own while this one computes",
        helps_when="copying takes a noticeable part of the step",
        effect="autoaccel.runtime.knobs.loader:SideStream",
        values=switch,
        usual=always(False),
        why_unavailable=_why_no_side_stream,
        needs=(_PINNED,),
        clashes=(Clash(is_on, "loader.non_blocking", lambda value: not value, "copies that hold up cannot overlap"),),
    ),
)
"""Those of data."""
