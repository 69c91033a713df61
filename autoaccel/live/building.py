"""A training that build() returns, tuned while it trains: its steps are heard as those of any script."""

from __future__ import annotations

import os
import sys

from autoaccel.live.trainings import LiveTraining
from autoaccel.records.base import decode
from autoaccel.records.messages import Failure, TuneLive, WorkerSpec
from autoaccel.records.workload import TrainingFunction
from autoaccel.runtime.failures import failure_from
from autoaccel.runtime.hosting import host
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.whole_training import train_whole
from autoaccel.text import one_line, say
from autoaccel.units import format_duration


def main() -> None:
    """Train what the spec names that waits at the descriptor that is the first argument."""
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        spec = decode(pipe.read(), WorkerSpec)
    host()
    task, workload = spec.task, spec.workload
    assert isinstance(task, TuneLive)
    assert isinstance(workload, TrainingFunction)
    loops: list[Loop] = []  # once it trains
    live = LiveTraining(spec, _tell, lambda: loops[0].planned_steps if loops else None)
    try:
        result = train_whole(workload, task.seed, loops.append)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        result = failure_from(error)
    if isinstance(result, Failure):
        say("\n".join(filter(None, (f"autoaccel: {result.message}", result.traceback))), to_stderr=True)
        sys.exit(2 if result.kind == "invalid" else 3)
    _tell(live.summary())
    seconds = result.train_seconds[0]
    say(f"trained {result.steps} steps in {format_duration(seconds)}: {result.samples / seconds:,.0f} samples/s")
    say(f"{result.metric}: {result.metrics[0]:.6g}")


def _tell(line: str) -> None:
    say(one_line(f"autoaccel: {line}"), to_stderr=True)
