"""Run a script under plain Python and count what it does, by hooks of torch's own; autoaccel has no part in it.

    python counting.py COUNTS SECONDS PROGRAM [ARGUMENT ...]

Writes COUNTS, a file of JSON, when the script has ended or the seconds are over.
"""

from __future__ import annotations

import collections
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

_FIRST = 24  # updates whose order is told


class OverError(BaseException):
    """The seconds are over; nothing of the script's is meant to catch it."""


def count() -> dict[str, Any]:
    """Begin to count in this process; return what is counted, which grows."""
    counts: dict[str, Any] = {"optimizers": [], "order": [], "backwards": 0, "loaders": {}}
    numbers: dict[int, int] = {}
    kept: list[Any] = []  # so that no id is used again

    def updated(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if id(optimizer) not in numbers:
            numbers[id(optimizer)] = len(numbers)
            kept.append(optimizer)
            size = sum(one.numel() for group in optimizer.param_groups for one in group["params"])
            counts["optimizers"].append({"kind": type(optimizer).__name__, "parameters": size, "updates": 0})
        number = numbers[id(optimizer)]
        counts["optimizers"][number]["updates"] += 1
        if len(counts["order"]) < _FIRST:
            counts["order"].append(number)

    register_optimizer_step_post_hook(updated)
    _count_gradients(counts)
    _count_batches(counts, kept)
    return counts


def _count_gradients(counts: dict[str, Any]) -> None:
    own = torch.autograd.backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        counts["backwards"] += 1
        return own(*args, **kwargs)

    torch.autograd.backward = backward


def _count_batches(counts: dict[str, Any], kept: list[Any]) -> None:
    iterators: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    begins, draws = DataLoader.__iter__, iterators.__next__
    names: dict[int, str] = {}

    def begun(loader: DataLoader[Any]) -> Any:
        iterator = begins(loader)
        kept.append(iterator)
        names[id(iterator)] = _name(loader)
        return iterator

    def drawn(iterator: Any) -> Any:
        batch = draws(iterator)
        if name := names.get(id(iterator)):
            drawn_from = counts["loaders"].setdefault(name, collections.Counter())
            drawn_from["with gradients" if torch.is_grad_enabled() else "without"] += 1
        return batch

    DataLoader.__iter__, iterators.__next__ = begun, drawn  # type: ignore[method-assign]  # in a process of its own


def _name(loader: DataLoader[Any]) -> str:
    def length(thing: Any) -> Any:
        try:
            return len(thing)
        except (TypeError, NotImplementedError):
            return None

    return (
        f"{type(loader.dataset).__name__} of {length(loader.dataset)}, batches of {loader.batch_size}, "
        f"{length(loader)} an epoch, {loader.num_workers} workers"
    )


def main(path: str, seconds: float, program: str, arguments: list[str]) -> None:
    """Count what the script does, and write it when that is over."""

    def over(*_: Any) -> None:
        raise OverError

    counts, process = count(), os.getpid()
    counts["ended"] = "by itself"
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).resolve().parent)
    try:
        runpy.run_path(program, run_name="__main__")
    except OverError:
        counts["ended"] = f"after {seconds:.0f} s"
    except SystemExit as end:
        counts["ended"] = f"exit code {end.code or 0}"
    except Exception as error:
        counts["ended"] = f"{type(error).__name__}: {error}"[:200]
    finally:
        if os.getpid() == process:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            Path(path).write_text(json.dumps(counts))
            # Workers of a loader that is still being drawn from keep an interpreter from ending.
            sys.stdout.flush()
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:])
