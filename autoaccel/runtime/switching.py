"""What something costs that can be switched off in a running process: steps with and without it, in turns."""

from __future__ import annotations

import contextlib
import statistics
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import psutil
import torch

from autoaccel.records.circumstances import Scaling, Switched
from autoaccel.runtime.applied import map_tensors
from autoaccel.runtime.loop import Loop, count_samples

_ROUNDS = 5
_LEAST_ROUNDS = 2
_TURN_STEPS = 10
_SMALL_BATCH = 8  # samples; from which on a larger batch is not worth a look
_LARGER_BATCH = 64


def measure_without(loop: Loop, switch: Callable[[], AbstractContextManager[Any]], seconds: float) -> Switched:
    """Return step times as they are and inside `switch()`, in turns: both meet the same neighbours."""
    as_is: list[float] = []
    without: list[float] = []
    until = time.perf_counter() + seconds
    for number in range(_ROUNDS):
        if number >= _LEAST_ROUNDS and time.perf_counter() > until:
            break
        turn = max(1, min(_TURN_STEPS, int(seconds / _ROUNDS / 2 / (as_is[0] if as_is else seconds))))
        as_is.extend(loop.step().seconds for _ in range(turn))
        with switch():
            loop.step()  # on what the other half left in the caches
            without.extend(loop.step().seconds for _ in range(turn))
        loop.step()
    quarter = statistics.quantiles(without, n=4)[0] if len(without) > 1 else without[0]
    return Switched(statistics.median(as_is), statistics.median(without), min(quarter, statistics.median(without)))


def measure_without_anomaly_mode(loop: Loop, seconds: float) -> Switched:
    """Return step times with and without autograd's anomaly mode.

    In a thread of its own, whose stack is as short as a training's: for each operator that mode writes down the whole
    stack, which is deep here.
    """
    found: list[Switched] = []
    thread = threading.Thread(target=lambda: found.append(measure_without(loop, without_anomaly_mode, seconds)))
    thread.start()
    thread.join()
    return found[0]


@contextmanager
def without_anomaly_mode() -> Iterator[None]:
    """Keep autograd's anomaly mode off, whoever switches it on."""
    was, checks = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    try:
        with mock.patch.object(torch, "set_anomaly_enabled", lambda *arguments: None):
            yield
    finally:
        torch.set_anomaly_enabled(was, checks)


@contextmanager
def without_deterministic_algorithms() -> Iterator[None]:
    """Let torch choose its fastest algorithms."""
    was, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    cudnn = torch.backends.cudnn.deterministic
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was, warn_only=warns)
        torch.backends.cudnn.deterministic = cudnn


@contextmanager
def without_profilers() -> Iterator[None]:
    """Let nobody watch what Python calls or allocates."""
    profiler, tracer, frames = sys.getprofile(), sys.gettrace(), tracemalloc.is_tracing()
    sys.setprofile(None)
    sys.settrace(None)
    tracemalloc.stop()
    try:
        yield
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)
        if frames:
            tracemalloc.start()


def with_threads(count: int) -> Callable[[], AbstractContextManager[None]]:
    """Return what makes steps use so many threads."""

    @contextmanager
    def switched() -> Iterator[None]:
        was = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(was)

    return switched


def seconds_alone(loop: Loop, seconds: float) -> float:
    """Return the median time of a step on a batch that is there, while all loader workers are stopped."""
    batch = loop.next_batch()
    workers = psutil.Process().children(recursive=True)
    for worker in workers:
        with contextlib.suppress(psutil.Error):
            worker.suspend()
    try:
        return _seconds_on(loop, batch, seconds)
    finally:
        for worker in workers:
            with contextlib.suppress(psutil.Error):
                worker.resume()


def measure_scaling(loop: Loop, seconds: float) -> Scaling | None:
    """Return what steps on a larger batch take, where the own is small; None if such a batch cannot be made."""
    first = loop.next_batch()
    samples = count_samples(first)
    if not 1 <= samples <= _SMALL_BATCH:
        return None
    factor = _LARGER_BATCH // samples
    try:
        larger = _joined([first, *(loop.next_batch() for _ in range(factor - 1))])
        return Scaling(
            step_seconds=_seconds_on(loop, first, seconds / 2),
            # Of the larger batch the quicker steps: the least that a sample costs decides on the bound.
            larger_seconds=_seconds_on(loop, larger, seconds / 2, quantile=0.25),
            factor=float(factor),
        )
    except (RuntimeError, ValueError):
        return None  # the model takes only batches of its own size, or samples differ in theirs


def _joined(batches: list[Any]) -> Any:
    """Return one batch of all samples of these batches."""
    tensors: list[list[torch.Tensor]] = []
    for batch in batches:
        found: list[torch.Tensor] = []
        map_tensors(lambda tensor, found=found: found.append(tensor) or tensor, batch)  # type: ignore[misc]
        tensors.append(found)
    joined = iter([torch.cat(same) for same in zip(*tensors, strict=True)])
    return map_tensors(lambda tensor: next(joined), batches[0])


def _seconds_on(loop: Loop, batch: Any, seconds: float, quantile: float = 0.5) -> float:
    """Return the median time of steps on one batch, or another quantile of it, without loading it."""
    taken: list[float] = []
    until = time.perf_counter() + seconds
    loop.step_on(batch)
    while len(taken) < _LEAST_ROUNDS or (time.perf_counter() < until and len(taken) < 50):
        start = time.perf_counter()
        loop.step_on(batch)
        if loop.device.type != "cpu":
            torch.cuda.synchronize(loop.device)
        taken.append(time.perf_counter() - start)
    return sorted(taken)[int(quantile * (len(taken) - 1))]
