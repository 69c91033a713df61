"""Rules about samples, batches and the loader."""

from __future__ import annotations

from autoaccel.advise.bounds import bound_of_share
from autoaccel.advise.observations import SHORTEST_STEP, Gain, Observations, Rule, make_finding
from autoaccel.advise.reach import MARGIN
from autoaccel.records.conditions import Samples
from autoaccel.records.profile import Finding

_WAITS = 0.05  # share of the step: what is less cannot be told from noise between two processes
_WAITS_MUCH = 0.1
_ASLEEP = 0.5  # of the time for a sample: then waiting is its main cost
_ASLEEP_MOSTLY = 0.8
_SHORTEST_SAMPLE = 100e-6  # seconds: a sample that is read from memory takes less, and waits for nothing
_SLOW_PART = 0.2  # of the time for a sample
_CACHE_SHARE = 0.25  # of the memory that is free; the rest is for the training and its loader workers
_WORKER_COSTS = 0.05  # of the step


def _bound_of_wait(observed: Observations) -> float:
    """Return the speed-up if batches were there when the step needs them.

    It may be more than the share of the wait: after a wait, caches are cold, threads asleep and the clock slow.
    """
    bound = bound_of_share(observed.data_wait)
    alone = observed.conditions.alone if observed.conditions else None
    if alone is None or observed.data_wait < _WAITS:
        return bound
    return max(bound, observed.mean_step_seconds / max(alone.min_seconds, SHORTEST_STEP))


def _bound_of_workers(observed: Observations) -> float:
    """Return the speed-up if others prepared the batches: no more than the cores have time for.

    Loading a sample keeps some core busy unless it sleeps, and at least one core trains.
    """
    bound, conditions = _bound_of_wait(observed), observed.conditions
    if conditions is None or conditions.samples is None or observed.on_gpu:
        return bound
    loading = conditions.batch_samples * conditions.samples.busy_seconds / observed.mean_step_seconds
    if conditions.loader is not None and not conditions.loader.workers:
        loading = min(loading, observed.data_wait)
    return min(bound, max(1.0, MARGIN * observed.machine.usable_cores / max(loading + 1 / bound, 1e-9)))


def data_wait(observed: Observations) -> Finding | None:
    """Batches are not ready when the step needs them."""
    share, training = observed.data_wait, observed.training
    cacheable = training is None or training.dataset_bytes is not None
    return make_finding(
        "data-wait",
        f"the step waits {share:.1%} of its time for data",
        Gain(
            share, removable=0.8, bound_speedup=_bound_of_wait(observed) if cacheable else _bound_of_workers(observed)
        ),
        "Prepare batches in loader workers, or make the transforms cheaper.",
        knobs=(
            "loader.workers",
            "loader.prefetch",
            "loader.persistent",
            "loader.context",
            "loader.cache",
            "threads.loader_cores",
        ),
    )


def _asleep(samples: Samples) -> float:
    """Return the share of the time for a sample in which nothing is computed."""
    # Where neighbours keep the cores busy, this process waits for one most of the time, and sleep looks short.
    called = sum(part.share for part in samples.parts if part.name.startswith("time.sleep"))
    return max(1 - samples.busy_seconds / samples.seconds, called)


def waiting_sample(observed: Observations) -> Finding | None:
    """Loading a sample sleeps, or waits for a disk or a network."""
    samples = observed.conditions.samples if observed.conditions else None
    if samples is None or samples.seconds < _SHORTEST_SAMPLE or observed.data_wait < _WAITS:
        return None
    asleep = _asleep(samples)
    if asleep < _ASLEEP:
        return None
    slowest = samples.parts[0].name if samples.parts else "the dataset"
    return make_finding(
        "waiting-sample",
        f"loading a sample sleeps {asleep:.0%} of its {samples.seconds * 1e3:.3g} ms, most of it in {slowest}",
        Gain(
            observed.data_wait,
            removable=asleep,
            bound_speedup=_bound_of_wait(observed),
            claims_half=asleep >= _ASLEEP_MOSTLY,
        ),
        "Remove what sleeps, read from memory or a local disk instead, or let many loader workers wait in parallel.",
        knobs=("loader.workers", "loader.prefetch", "loader.cache"),
        numbers={"sample_seconds": samples.seconds, "busy_seconds": samples.busy_seconds, "asleep_share": asleep},
    )


def slow_sample(observed: Observations) -> Finding | None:
    """One part of loading a sample is what the step waits for."""
    samples = observed.conditions.samples if observed.conditions else None
    if samples is None or not samples.parts or observed.data_wait < _WAITS_MUCH:
        return None
    slowest = samples.parts[0]
    if samples.seconds < _SHORTEST_SAMPLE or _asleep(samples) >= _ASLEEP:
        return None
    if slowest.share < _SLOW_PART:
        return None
    return make_finding(
        "slow-sample",
        f"{slowest.name} takes {slowest.share:.0%} of the {samples.seconds * 1e3:.3g} ms for a sample",
        Gain(observed.data_wait, removable=slowest.share, bound_speedup=_bound_of_wait(observed)),
        "Do it once and keep the result, do it on smaller images or on whole batches, or leave it out.",
        knobs=("loader.workers", "loader.cache"),
        numbers={
            "sample_seconds": samples.seconds,
            **{f"share of {part.name}": part.share for part in samples.parts},
        },
    )


def few_workers(observed: Observations) -> Finding | None:
    """Cores are idle while the step waits for data."""
    conditions = observed.conditions
    if conditions is None or conditions.loader is None or observed.data_wait < _WAITS_MUCH:
        return None
    workers, cores = conditions.loader.workers, observed.machine.usable_cores
    if workers >= max(1, cores - 1):
        return None
    return make_finding(
        "few-workers",
        f"{workers or 'no'} loader workers prepare batches, although {cores} cores are available",
        Gain(observed.data_wait, removable=0.6, bound_speedup=_bound_of_workers(observed)),
        "Give the loader more workers; with few cores, give the training one thread fewer.",
        knobs=("loader.workers",),
        numbers={"workers": workers, "cores": cores},
    )


def many_workers(observed: Observations) -> Finding | None:
    """Loader workers take the cores from the training."""
    conditions = observed.conditions
    if conditions is None or conditions.loader is None or conditions.alone is None:
        return None
    workers, cores = conditions.loader.workers, observed.machine.usable_cores
    # One worker beside as many threads as cores is PyTorch's usual advice; twice the cores busy is no longer that.
    if workers <= 1 or workers + conditions.threads <= 1.5 * cores:
        return None
    alone_seconds = conditions.alone.step_seconds
    share = 1 - alone_seconds / observed.mean_step_seconds
    if share < _WORKER_COSTS:
        return None
    return make_finding(
        "many-workers",
        f"{workers} loader workers share {cores} cores with the training (threads: {conditions.threads}): "
        f"with the workers stopped, a step takes {share:.0%} less",
        Gain(
            share,
            removable=0.9,
            bound_speedup=observed.mean_step_seconds / max(conditions.alone.min_seconds, SHORTEST_STEP),
        ),
        "Give the loader fewer workers, or none where samples are cheap.",
        knobs=("loader.workers",),
        numbers={
            "workers": workers,
            "threads": conditions.threads,
            "cores": cores,
            "alone_seconds": alone_seconds,
            "step_seconds": observed.mean_step_seconds,
        },
    )


def large_batches(observed: Observations) -> Finding | None:
    """Handing batches from workers to the training takes long."""
    conditions = observed.conditions
    if conditions is None or conditions.loader is None or conditions.samples is None:
        return None
    seconds = conditions.samples.handover_seconds
    if not conditions.loader.workers or seconds is None:
        return None
    share = min(observed.data_wait, seconds / observed.mean_step_seconds)
    if share < _WORKER_COSTS:
        return None
    return make_finding(
        "large-batches",
        f"passing a batch of {conditions.batch_bytes / 2**20:.3g} MiB from worker to step takes {seconds * 1e3:.3g} ms",
        Gain(share, removable=0.5),
        "Pass smaller types (uint8 images, converted in the step), or one tensor instead of many objects.",
        knobs=("loader.workers",),
        numbers={"handover_seconds": seconds, "batch_bytes": conditions.batch_bytes},
    )


def slow_collate(observed: Observations) -> Finding | None:
    """Making a batch of loaded samples takes long."""
    conditions = observed.conditions
    samples = conditions.samples if conditions else None
    if conditions is None or samples is None or samples.collate_seconds is None:
        return None
    share = min(observed.data_wait, samples.collate_seconds / observed.mean_step_seconds)
    if share < _WAITS:
        return None
    return make_finding(
        "slow-collate",
        f"collating a batch of {conditions.batch_samples:.0f} samples takes {samples.collate_seconds * 1e3:.3g} ms",
        Gain(share, removable=0.7),
        "Keep the data as one tensor and index it once per batch (Dataset.__getitems__), or collate in workers.",
        knobs=("loader.workers",),
        numbers={"collate_seconds": samples.collate_seconds},
    )


def uncached(observed: Observations) -> Finding | None:
    """The same samples are made again in each epoch, although all of them fit into memory."""
    training, machine_conditions = observed.training, observed.machine_conditions
    samples = observed.conditions.samples if observed.conditions else None
    if training is None or training.dataset_bytes is None or samples is None or observed.data_wait < _WAITS_MUCH:
        return None
    free = machine_conditions.available_bytes if machine_conditions else observed.machine.memory_bytes // 2
    held_bytes = training.dataset_bytes * max(1, training.loader_workers)  # by each worker
    if samples.seconds < _SHORTEST_SAMPLE or held_bytes > _CACHE_SHARE * free or training.epochs == 1:
        return None
    return make_finding(
        "uncached",
        f"all samples are the same in each epoch and would take {held_bytes / 2**20:.3g} MiB of memory",
        Gain(observed.data_wait, removable=0.75, bound_speedup=_bound_of_wait(observed)),
        "Keep them.",
        knobs=("loader.cache",),
        numbers={"dataset_bytes": held_bytes, "sample_seconds": samples.seconds},
    )


def epoch_start(observed: Observations) -> Finding | None:
    """Each epoch begins with a wait for loader workers to start."""
    extra, training, conditions = observed.profile.epoch_start_seconds, observed.training, observed.conditions
    if extra is None or training is None or conditions is None:
        return None
    if conditions.loader is None or not conditions.loader.workers or conditions.loader.persistent:
        return None
    share = extra / (training.steps_per_epoch * observed.profile.step_seconds + extra)
    if share < _WAITS:
        return None
    return make_finding(
        "epoch-start",
        f"the first step of an epoch takes {extra:.3g} s longer than others: {share:.0%} of the epoch",
        Gain(share, removable=0.8),
        "Keep loader workers from epoch to epoch (persistent_workers=True).",
        knobs=("loader.persistent",),
        numbers={"epoch_start_seconds": extra, "steps_per_epoch": training.steps_per_epoch},
    )


RULES: dict[str, Rule] = {
    "data-wait": data_wait,
    "waiting-sample": waiting_sample,
    "slow-sample": slow_sample,
    "few-workers": few_workers,
    "many-workers": many_workers,
    "large-batches": large_batches,
    "slow-collate": slow_collate,
    "uncached": uncached,
    "epoch-start": epoch_start,
}
