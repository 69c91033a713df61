"""Whole trainings, from one seed after the other: to their end, or for as many steps as a task wants."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from autoaccel.records.messages import Failure, Train, TrainResult
from autoaccel.runtime.checkpoints import Checkpoints, begins_anew
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.progress import Progress
from autoaccel.runtime.ranks import leads
from autoaccel.runtime.steps import Step
from autoaccel.text import say
from autoaccel.units import format_duration

StartLoop = Callable[[int, Progress | None], Loop]
"""Builds the training from a seed, and resumes it from a checkpoint if there is one."""


class _Trained(NamedTuple):
    """What a training from one seed came to."""

    metric_name: str
    metric: float
    loss: float
    steps: int
    samples: int
    step_seconds: list[float]
    resumed_at: int


def train(task: Train, start: StartLoop) -> TrainResult | Failure:
    """Train from each seed; a seed decides on the model's first weights and on the order of the data."""
    runs: list[_Trained] = []
    for seed in task.seeds:
        run = _train_from(seed, task, start)
        if isinstance(run, Failure):
            return run
        runs.append(run)
    step_seconds = [seconds for run in runs for seconds in run.step_seconds]
    last = runs[-1]
    return TrainResult(
        metric=last.metric_name,
        metrics=tuple(run.metric for run in runs),
        losses=tuple(run.loss for run in runs),
        steps=last.steps,
        samples=last.samples,
        train_seconds=tuple(math.fsum(run.step_seconds) for run in runs),
        step_seconds=statistics.median(step_seconds) if step_seconds else None,
        resumed_at=last.resumed_at,
    )


def _train_from(seed: int, task: Train, start: StartLoop) -> _Trained | Failure:
    checkpoints = None
    if task.checkpoint_path is not None:
        checkpoints = Checkpoints(Path(task.checkpoint_path), task.checkpoint_seconds, seed)
    resumed = checkpoints.load() if checkpoints else None
    loop = start(seed, resumed)
    if resumed is not None and task.announce and leads():
        for difference in begins_anew(loop, resumed):
            say(f"resumes from the checkpoint, but {difference}")
    resumed_at = loop.steps_done
    steps = loop.planned_steps
    if task.steps is not None:
        steps = min(loop.own_steps(task.steps), steps)
    step_seconds = _make_steps(loop, steps, checkpoints, announce=task.announce)
    loss, metric, name = loop.mean_last_loss(), loop.evaluate(), loop.training.metric.name
    if not (math.isfinite(metric) and math.isfinite(loss)):
        return Failure(kind="diverged", message=f"after training from seed {seed}, {name} is {metric}, the loss {loss}")
    if task.save_path is not None and leads():
        aside = Path(f"{task.save_path}.partial")
        torch.save(loop.plain_model.state_dict(), aside)
        aside.replace(task.save_path)
    return _Trained(name, metric, loss, steps, loop.samples_done, step_seconds, resumed_at)


def _make_steps(loop: Loop, steps: int, checkpoints: Checkpoints | None, announce: bool) -> list[float]:
    """Train until this many steps are done, with a line per epoch if announced; return how long each took."""
    seconds: list[float] = []
    made: list[Step] = []
    samples_before = loop.samples_done
    for number in range(loop.steps_done + 1, steps + 1):
        made.append(loop.step())
        if checkpoints is not None:
            checkpoints.keep(loop)
        epoch, into_epoch = divmod(number, loop.steps_per_epoch)
        if into_epoch and number < steps:
            continue
        of_epoch = [step.seconds for step in made]
        seconds.extend(of_epoch)
        made.clear()
        if announce and leads():
            metric = loop.evaluate()
            samples = loop.samples_done - samples_before
            say(
                f"epoch {epoch}/{loop.training.epochs}  loss {loop.last_loss:.4g}  "
                f"{loop.training.metric.name} {metric:.4g}  {samples / math.fsum(of_epoch):,.0f} samples/s  "
                f"{format_duration(math.fsum(of_epoch))}"
            )
        samples_before = loop.samples_done
    return seconds
