"""What `layout.channels_last` is worth where it converts what flows, what it would be worth if it converted weights.

    python -m benchmarks.studies.layouts [NAME ...]

Each workload trains in one process, in four ways that take their turns: as it is (`own`); with the inputs of its
convolutions in channels_last, which is what the knob does (`inputs`); with converted weights alone (`weights`); and
with both (`both`), which is what the knob did once. All four have a copy of the same model and the same batch, which is
on the device before. A row is a workload and a precision, bfloat16 where the machine has units for it: the time of a
step in each way and round, and by how many times each way is faster than `own`, as a trimmed mean over the rounds with
its 95 % interval. Where there is a CUDA GPU, all of this happens there, in both precisions, and rows say so. They go to
benchmarks/results/layouts.jsonl, or to $OUT if that is set. Half a minute each; nothing else should run meanwhile.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoaccel.machine.detect import detect_machine
from benchmarks.checks.gpu import gpu_name
from benchmarks.harness import rows as results
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure
from benchmarks.studies.script_overhead import trimmed

if TYPE_CHECKING:
    import torch

    from autoaccel import Training

WORKLOADS = {
    "digits_cnn": "examples/digits_cnn.py:build",
    "image_pipeline": "examples/image_pipeline.py:build",
    "small_resnet": "benchmarks/workloads/small_resnet.py:build",
    "inverted_residuals": "benchmarks/workloads/convolutions.py:inverted_residuals",
    "large_kernels": "benchmarks/workloads/convolutions.py:large_kernels",
    "with_attention": "benchmarks/workloads/convolutions.py:with_attention",
    "unet_cells": "benchmarks/studies/unseen/first/unet_cells.py:build",
    "audio_sounds": "benchmarks/studies/unseen/second/audio_sounds.py:build",
}
WAYS = ("own", "inputs", "weights", "both")
ROUNDS = 15
_TURN_SECONDS = {"cpu": 0.4, "cuda": 0.1}  # of each way in each round, and at least two steps
_MOST_SECONDS = 900.0  # of a process
_MARK = "LAYOUTS"


def measure(place: str, precision: str) -> dict[str, Any]:
    """Return the seconds of a step in each way and round, in this process.

    Args:
        place: Of the function that returns the training, as "file:function".
        precision: "float32", or the type of autocast.
    """
    import torch

    path, _, function = place.partition(":")
    spec = importlib.util.spec_from_file_location("workload", ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["workload"] = module  # where its samples are pickled
    spec.loader.exec_module(module)
    training = getattr(module, function)()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = _batch_of(training, device)
    steps = {way: _step_of(way, training, batch, precision, device) for way in WAYS}
    for step in steps.values():
        for _ in range(3):
            step()
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(ROUNDS):
        for place_in_round in range(len(WAYS)):
            way = WAYS[(number + place_in_round) % len(WAYS)]
            seconds[way].append(_seconds_of(steps[way], device))
    return {"device": str(device), "seconds": seconds}


def _batch_of(training: Training, device: torch.device) -> Any:
    """Return the first batch of a training, on the device."""
    from torch.utils import _pytree
    from torch.utils.data import DataLoader, Dataset

    data = training.train_data
    loader = (
        DataLoader(data, training.batch_size, collate_fn=training.collate_fn) if isinstance(data, Dataset) else data()
    )
    return _pytree.tree_map(lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf, next(iter(loader)))


def _step_of(way: str, training: Training, batch: Any, precision: str, device: torch.device) -> Callable[[], None]:
    """Return what makes one step of a training in one way."""
    import torch
    from torch.utils import _pytree

    from autoaccel.runtime.knobs.layout import ChannelsLast
    from autoaccel.space.knobs import KNOBS

    model = copy.deepcopy(training.model).to(device)
    if way in ("weights", "both"):
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = training.optimizer(model.parameters())
    name = "layout.channels_last"
    effect = ChannelsLast(KNOBS[name], {name: way in ("inputs", "both")}, device)
    model, optimizer = effect.model(model), effect.optimizer(optimizer)

    def step() -> None:
        with ExitStack() as stack:
            stack.enter_context(effect.forward())
            if precision != "float32":
                stack.enter_context(torch.autocast(device.type, getattr(torch, precision)))
            given = _pytree.tree_map(lambda leaf: effect.batch(leaf) if isinstance(leaf, torch.Tensor) else leaf, batch)
            if training.step is not None:
                loss = training.step(model, given)
            else:
                assert training.loss is not None
                loss = training.loss(model(*given[:-1]), given[-1])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


def _seconds_of(step: Callable[[], None], device: torch.device) -> float:
    """Return what a step takes, in the mean of a turn."""
    import torch

    count, start = 0, time.perf_counter()
    while count < 2 or time.perf_counter() - start < _TURN_SECONDS[device.type]:
        step()
        count += 1
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / count


def precisions(gpu: str) -> tuple[str, ...]:
    """Return the precisions that the GPU, or without one this machine, has units for."""
    features = detect_machine().cpu.features
    return ("float32", "bfloat16") if gpu or {"avx512_bf16", "amx_bf16", "bf16"} & set(features) else ("float32",)


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WORKLOADS))
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(WORKLOADS)):
        parser.error(f"there is no workload {', '.join(unknown)} here; there are {', '.join(WORKLOADS)}")
    gpu = gpu_name()
    if "OUT" in os.environ:
        results.RESULTS = Path(os.environ["OUT"])
    where = f", {gpu}" if gpu else ""
    rows = [f"{name}, {precision}{where}" for name in parsed.names or WORKLOADS for precision in precisions(gpu)]
    for row in to_measure("layouts", rows):
        name, precision, *_ = row.split(", ")
        program = "import json; from benchmarks.studies.layouts import measure, _MARK; "
        program += f"print(_MARK + json.dumps(measure({WORKLOADS[name]!r}, {precision!r})))"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=_MOST_SECONDS
        )
        path = WORKLOADS[name].partition(":")[0]
        code = ("autoaccel/runtime/knobs/layout.py", "benchmarks/studies/layouts.py", path)
        if _MARK not in done.stdout:
            reason = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            add_row("layouts", row, {}, code=code, status="failed", reason=reason)
            print(f"{row}: {reason}", flush=True)
            continue
        found = json.loads(done.stdout.rpartition(_MARK)[2])
        own = found["seconds"]["own"]
        found["speedup"] = {
            way: trimmed([base / each for base, each in zip(own, found["seconds"][way], strict=True)])
            for way in WAYS[1:]
        }
        add_row("layouts", row, found, code=code)
        words = [f"{way} {low:.2f} to {high:.2f}" for way, (_, low, high) in found["speedup"].items()]
        print(f"{row}: {'; '.join(words)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
