"""What evaluating costs, and whether it records gradients that nobody needs."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import torch

from autoaccel.records.conditions import Evaluation
from autoaccel.runtime.data import OnDevice, eval_loader
from autoaccel.runtime.metrics import read_metric
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.randomness import same_random_numbers_after

_MORE_TURNS = 2
_IN_TURNS, _ONCE = 3.0, 1.0  # steps that the first evaluation batches count as, if they are as large as a step's


class _First:
    """The first batches of a loader: so many, or as many as some time allows."""

    def __init__(self, loader: Iterable[Any], most: int | None, seconds: float) -> None:
        self.loader = loader
        self.given = 0
        self._most = most
        self._until = time.perf_counter() + seconds

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # asked only of what has a length

    def __iter__(self) -> Iterator[Any]:
        self.given = 0
        for batch in self.loader:
            self.given += 1
            yield batch
            if self.given == self._most or (self._most is None and time.perf_counter() > self._until):
                return


def evaluation_steps(loop: Inspectable, step_samples: float) -> tuple[float, float]:
    """Return how many steps looking at evaluation costs: in turns without gradients, and once.

    Its batches may be many times as large as those of a step, which have so many samples.
    """
    samples = getattr(eval_loader(loop.training), "batch_size", None) or step_samples
    factor = samples / max(1.0, step_samples)
    return _IN_TURNS * factor, _ONCE * factor


def measure_evaluation(loop: Inspectable, seconds: float, in_turns: bool = True) -> Evaluation | None:
    """Return what evaluating costs, from as many batches as it takes in about this time.

    None if the metric cannot be computed on a part of the data, or if nobody can tell how large that part is. With
    `in_turns`, what records gradients is compared in turns with what does not.
    """
    loader = eval_loader(loop.training)
    try:
        batches = len(loader)  # type: ignore[arg-type]  # it may have a length
    except TypeError:
        return None
    gradients: list[bool] = []

    def note(module: Any, inputs: Any) -> None:
        gradients.append(torch.is_grad_enabled())

    hook = loop.plain_model.register_forward_pre_hook(note)
    try:
        _seconds_on(loop, _First(loader, 1, 0.0))  # the kernels for the shapes of evaluation are chosen
        gradients.clear()
        first = _First(loader, None, seconds / 4)
        as_is = _seconds_on(loop, first)
        has_gradients = any(gradients)
        share = first.given / max(1, batches)
        if not first.given:
            return None
        without = _seconds_without_gradients(loop, loader, first.given) if has_gradients else None
        if without is not None:  # again, in turns, against what disturbed only one of them
            turns = [(as_is, without)]
            for _ in range(_MORE_TURNS if in_turns else 0):
                again = _seconds_on(loop, _First(loader, first.given, 0.0))
                turns.append((again, _seconds_without_gradients(loop, loader, first.given) or without))
            as_is, without = (statistics.median(seconds) for seconds in zip(*turns, strict=True))
    except Exception:  # whatever the user's metric raises on a part of the data
        return None
    finally:
        hook.remove()
        loop.plain_model.train()
    return Evaluation(as_is / share, first.given, has_gradients, without / share if without is not None else None)


def _seconds_on(loop: Inspectable, loader: Iterable[Any]) -> float:
    device = loop.device
    loop.plain_model.eval()
    start = time.perf_counter()
    with torch.no_grad(), same_random_numbers_after(device):
        read_metric(loop.training.metric.compute(loop.plain_model, OnDevice(loader, device)))
    return time.perf_counter() - start


def _seconds_without_gradients(loop: Inspectable, loader: Iterable[Any], batches: int) -> float | None:
    """Return the time with nobody able to switch gradients on; None if the metric needs them."""
    was_on = torch.is_grad_enabled()
    # Not no_grad(): that itself calls what is replaced here.
    torch._C._set_grad_enabled(False)
    try:
        with (
            mock.patch.object(torch, "enable_grad", contextlib.nullcontext),
            mock.patch.object(torch, "set_grad_enabled", lambda mode: contextlib.nullcontext()),
        ):
            return _seconds_on(loop, _First(loader, batches, 0.0))
    except RuntimeError:
        return None
    finally:
        torch._C._set_grad_enabled(was_on)
