"""Count what a script does in a whole run of its own, without autoaccel: updates, batches, models.

    python count.py SCRIPT FOUND.json

Nothing of autoaccel is imported: what it believes is held against this.
"""

from __future__ import annotations

import collections
import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader


def count(script: str) -> dict[str, Any]:
    """Run a script; return how many updates each class of optimizer made, and how many batches were drawn from what."""
    updates: collections.Counter[str] = collections.Counter()
    batches: collections.Counter[str] = collections.Counter()
    parameters: dict[str, int] = {}
    times: list[float] = []

    def updated(optimizer: torch.optim.Optimizer) -> None:
        name = type(optimizer).__name__
        updates[name] += 1
        parameters[name] = sum(one.numel() for group in optimizer.param_groups for one in group["params"])
        times.append(time.perf_counter())

    register_optimizer_step_post_hook(lambda optimizer, *_: updated(optimizer))
    _count_batches(batches)
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    began = time.perf_counter()
    _count_fastai(updates, parameters, times)
    runpy.run_path(script, run_name="__main__")
    return {
        "updates": dict(updates),
        "updated parameters": parameters,
        "batches": dict(batches),
        "seconds": round(time.perf_counter() - began, 1),
        "seconds of updates": round(times[-1] - times[0], 1) if times else 0.0,
    }


def _count_batches(batches: collections.Counter[str]) -> None:
    """Count what is drawn from each iterator of torch's, whichever loader has made it."""
    iterators: Any = dataloader._BaseDataLoaderIter
    begins, draws = iterators.__init__, iterators.__next__

    def begun(iterator: Any, loader: Any) -> None:
        iterator.counted_as = _name(loader)
        begins(iterator, loader)

    def drawn(iterator: Any) -> Any:
        batch = draws(iterator)
        batches[iterator.counted_as] += 1
        return batch

    iterators.__init__, iterators.__next__ = begun, drawn


def _name(loader: Any) -> str:
    """Return what tells a loader from a script's others: its samples, and how many make a batch."""
    dataset = loader.dataset
    size = getattr(loader, "batch_size", None) or getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    try:
        return f"{type(dataset).__name__} {len(dataset)} in {size}"
    except TypeError:
        return f"{type(dataset).__name__} in {size}"


def _count_fastai(updates: collections.Counter[str], parameters: dict[str, int], times: list[float]) -> None:
    """Count the updates of fastai's optimizers, which are none of torch's."""
    try:
        from fastai.optimizer import Optimizer
    except ImportError:
        return
    own = Optimizer.step

    def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        found = own(optimizer, *args, **kwargs)
        updates["Optimizer of fastai"] += 1
        parameters["Optimizer of fastai"] = sum(one[0].numel() for one in optimizer.all_params())
        times.append(time.perf_counter())
        return found

    Optimizer.step = step


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(count(sys.argv[1])))
