"""What something costs that can be switched off in a running process: steps with and without it, in turns."""

from __future__ import annotations

import contextlib
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

from autoaccel.records.conditions import Alone, LargerBatch, Switched
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.batches import map_tensors, tensors_of
from autoaccel.runtime.paced import Inspectable

_ROUNDS = 5
_MIN_ROUNDS = 2
_TURN_STEPS = 10
ROUNDS_OF_STEPS: dict[float, int] = {7.0: _MIN_ROUNDS, 3.0: 1}
"""The fewest steps for which something is switched off -> rounds: a step as it is, one to get used to it, one without,
and one to get used to it again between rounds."""

ALONE_STEPS = 3
_SMALL_BATCH = 8  # samples; from which on a larger batch is not worth a look
_LARGER_BATCH = 64


def measure_without(
    loop: Inspectable,
    switch: Callable[[], AbstractContextManager[Any]],
    seconds: float,
    min_rounds: int = _MIN_ROUNDS,
) -> Switched:
    """Return step times as they are and inside `switch()`, in turns: both meet the same neighbours."""
    as_is: list[float] = []
    without: list[float] = []
    until = time.perf_counter() + seconds
    for number in range(_ROUNDS):
        if number >= min_rounds and time.perf_counter() > until:
            break
        if number:
            loop.step()
        turn = max(1, min(_TURN_STEPS, int(seconds / _ROUNDS / 2 / (as_is[0] if as_is else seconds))))
        as_is.extend(_seconds_of_steps(loop, turn))
        with switch():
            loop.step()  # on what the other half left in the caches
            without.extend(_seconds_of_steps(loop, turn))
    as_is.sort()
    without.sort()
    return Switched(_quantile(as_is, 0.5), _quantile(as_is, 0.25), _quantile(without, 0.5), _quantile(without, 0.25))


def _seconds_of_steps(loop: Inspectable, count: int) -> list[float]:
    steps = [loop.step() for _ in range(count)]
    return [step.seconds for step in steps]  # only now: asking for them makes the program wait for an accelerator


def measure_without_anomaly_mode(loop: Inspectable, seconds: float, min_rounds: int = _MIN_ROUNDS) -> Switched:
    """Return step times with and without autograd's anomaly mode.

    In a thread of its own, whose stack is as short as a training's: for each operator that mode writes down the whole
    stack, which is deep here.
    """
    found: list[Switched] = []

    def measure() -> None:
        found.append(measure_without(loop, without_anomaly_mode, seconds, min_rounds))

    thread = threading.Thread(target=measure)
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


def measure_alone(loop: Inspectable, batch: Any, seconds: float) -> Alone:
    """Return what a step on a batch that is there takes while all loader workers are stopped."""
    workers = psutil.Process().children(recursive=True)
    for worker in workers:
        with contextlib.suppress(psutil.Error):  # it has ended
            worker.suspend()
    try:
        taken = _seconds_on(loop, batch, seconds)
        return Alone(_quantile(taken, 0.5), _quantile(taken, 0.25))
    finally:
        for worker in workers:
            with contextlib.suppress(psutil.Error):  # it has ended
                worker.resume()


def larger_batch_factors(samples: int) -> dict[float, int]:
    """Return the fewest steps that comparing a small batch with a larger one takes -> how many times as large.

    Loading it is included. Nothing where the batch is no small one.
    """
    if not 1 <= samples <= _SMALL_BATCH:
        return {}
    return {3.0 + 4.0 * factor: factor for factor in (_LARGER_BATCH // samples, 8, 4, 2)}


def measure_larger_batch(loop: Inspectable, factor: int, seconds: float) -> LargerBatch:
    """Return what steps on a batch take, and on one so many times as large.

    Raises:
        Exception: Whatever the model raises that takes only batches of its own size, or joining samples that differ.
    """
    first = loop.next_batch()
    larger = _joined([first, *(loop.next_batch() for _ in range(factor - 1))])
    return LargerBatch(
        step_seconds=_quantile(_seconds_on(loop, first, seconds / 2), 0.5),
        # Of the larger batch the quicker steps: the least that a sample costs decides on the bound.
        larger_seconds=_quantile(_seconds_on(loop, larger, seconds / 2), 0.25),
        factor=float(factor),
    )


def _joined(batches: list[Any]) -> Any:
    """Return one batch of all samples of these batches."""
    tensors = [list(tensors_of(batch)) for batch in batches]
    joined = iter([torch.cat(same) for same in zip(*tensors, strict=True)])
    return map_tensors(lambda tensor: next(joined), batches[0])


def _seconds_on(loop: Inspectable, batch: Any, seconds: float) -> list[float]:
    """Return the times of steps on one batch, without loading it, the shortest first."""
    taken: list[float] = []
    until = time.perf_counter() + seconds
    _step_on(loop, batch)
    while len(taken) < _MIN_ROUNDS or (time.perf_counter() < until and len(taken) < 50):
        start = time.perf_counter()
        _step_on(loop, batch)
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def _step_on(loop: Inspectable, batch: Any) -> None:
    """Make an optimizer step on as many copies of the batch as make one."""
    while not loop.step_on(batch):
        pass
    synchronize(loop.device)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))]
