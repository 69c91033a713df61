"""One training, in a loop as a person writes it: plain, or within `with autoaccel.live():`; timed step by step.

    python -m benchmarks.studies.first_runs.train MODEL.py --seconds 180
    python -m benchmarks.studies.first_runs.train MODEL.py --seconds 1200 --steps 4000 --live FOLDER

Prints one line of JSON. The clock is read once for each step, between two of them, whether it is tuned or not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import autoaccel
from autoaccel.runs.workloads import find_workload
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loading import build_training, load_build
from autoaccel.runtime.training import Training
from benchmarks.studies.unseen.plain import batches

_PARTS = 20  # of the run, whose mean steps are told
_FIRST_STEPS = 2  # of a plain one, that choose kernels and fill caches


def train(training: Training, planned_steps: int, seconds: float) -> list[float]:
    """Train, for so many steps or so long at most; return what each step took."""
    model = training.model.train()
    optimizer = training.make_optimizer(training.model)
    scheduler = training.scheduler(optimizer) if training.scheduler and training.scheduler_interval == "step" else None
    drawn = batches(training, Applied({}))
    taken: list[float] = []
    began = last = time.perf_counter()
    for _ in range(planned_steps):
        batch = next(drawn)
        if training.step is not None:
            loss = training.step(model, batch)
        else:
            assert training.loss is not None  # Training refuses it otherwise
            *inputs, target = batch
            loss = training.loss(model(*inputs), target)
        optimizer.zero_grad()
        loss.backward()
        if training.clip is not None:
            training.clip.apply(training.model.parameters())
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        now = time.perf_counter()
        taken.append(now - last)
        last = now
        if now - began > seconds:
            break
    return taken


def told(taken: list[float]) -> dict[str, Any]:
    """Return what steps took, in all and part by part."""
    ends = [len(taken) * number // _PARTS for number in range(_PARTS + 1)]
    parts = [statistics.fmean(taken[one:other]) for one, other in itertools.pairwise(ends) if other > one]
    return {
        "steps": len(taken),
        "seconds": math.fsum(taken),
        "step_seconds": statistics.fmean(taken[_FIRST_STEPS:] or taken),
        "parts": parts,
    }


def main(arguments: list[str]) -> None:
    """Train, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="MODEL.py")
    parser.add_argument("--seconds", type=float, required=True, help="after which it ends")
    parser.add_argument("--steps", type=int, default=sys.maxsize, help="that are planned")
    parser.add_argument("--live", type=Path, metavar="FOLDER", help="tune while it trains, and leave the recipe there")
    parsed = parser.parse_args(arguments)
    workload = find_workload(parsed.model)
    training = build_training(load_build(workload), workload, seed=0)
    if parsed.live is None:
        found = told(train(training, parsed.steps, parsed.seconds))
    else:
        began = time.perf_counter()
        with autoaccel.live(output=parsed.live, history=False) as live:
            taken = train(training, parsed.steps, parsed.seconds)
        whole = time.perf_counter() - began
        found = {**told(taken), "whole_seconds": whole, "said": live.summary}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
