"""What a worker does for each kind of task."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import torch

from autoaccel.errors import AutoaccelError
from autoaccel.records.base import Record, decode
from autoaccel.records.rounding import CompareUpdates, RecordUpdates, UpdatesCompared
from autoaccel.records.trial import (
    Built,
    Describe,
    Described,
    Failure,
    Finished,
    GiveTurn,
    Measure,
    Order,
    Probe,
    Probed,
    Ready,
    TakeProfile,
    Train,
    TrainResult,
    TrialSpec,
    Turn,
)
from autoaccel.records.workload import Workload
from autoaccel.runtime import ranks
from autoaccel.runtime.accelerator import peak_bytes, synchronize
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.checkpoints import Checkpoints, begins_anew
from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.last_part import LastPart
from autoaccel.runtime.leftovers import remove_folder_of_imports
from autoaccel.runtime.loading import Imports, build_training, describe, load_build, user_traceback
from autoaccel.runtime.looking import take_and_gather
from autoaccel.runtime.loop import Loop, Progress, device_of
from autoaccel.runtime.memory_errors import is_out_of_memory
from autoaccel.runtime.own import find_own
from autoaccel.runtime.probing import probe_torch
from autoaccel.runtime.rounding import compare_updates, record_updates
from autoaccel.runtime.steps import Step
from autoaccel.runtime.warmup import WarmedUp, burst_steps, warm_up
from autoaccel.units import format_duration

# When this is imported: a fork server imports it for its workers, and is killed as they are.
remove_folder_of_imports()

_PROFILE_WARMUP_SECONDS = 2.0  # at most: shares settle sooner than speed-ups can be told
_MOST_UNUSUAL = 2  # steps that a turn is made longer for: the last of an epoch and the first of the next


class Line(Protocol):
    """The way to the tuner: turns come in, answers go out."""

    def read(self) -> bytes: ...

    def write(self, message: Record) -> None: ...


def serve(spec: TrialSpec, line: Line) -> Record | None:
    """Do the task; return its answer, the Failure that it met, or None if it was answered turn by turn."""
    try:
        return _serve(spec, line)
    except AutoaccelError as error:
        return Failure(kind="invalid", message=str(error))
    except IneffectiveError as error:
        return Failure(kind="ineffective", message=str(error))
    except SystemExit as error:
        message = f"the code ended its own process with exit({error.code!r})"
        return Failure(kind="exited", message=message, traceback=user_traceback(error))
    except BaseException as error:
        message = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
        trace = user_traceback(error)
        return Failure(kind="memory" if is_out_of_memory(error) else "raised", message=message, traceback=trace)


def _serve(spec: TrialSpec, line: Line) -> Record | None:
    task, workload = spec.task, spec.workload
    if isinstance(task, Probe):
        return Probed(facts=probe_torch())
    assert workload is not None  # only a probe has none
    # Only there: it sees whatever the user's code does that Python audits, and would slow down what is measured.
    imports = Imports() if isinstance(task, Describe) else None
    if spec.ranks is not None:
        ranks.join(spec.ranks, str(spec.settings.get("parallel.backend", "gloo")))
    build = load_build(workload)
    if imports is not None:
        training = build_training(build, workload, seed=0)
        facts, modules = describe(training), imports.since()
        own = find_own(training)
        facts = msgspec.structs.replace(
            facts, found=own.settings, own_autocast=own.autocast, shapes_change=own.shapes_change
        )
        return Described(facts=facts, modules=modules)
    if isinstance(task, Train):
        return _train(spec, task, workload, build)
    if isinstance(task, TakeProfile):
        return _look(_start_loop(spec, workload, build, seed=0), task, spec.warmup_seconds, line)
    if isinstance(task, RecordUpdates):
        loop = _start_loop(spec, workload, build, seed=0)
        return record_updates(loop, Path(task.folder), task.points, task.batches)
    if isinstance(task, CompareUpdates):
        return _compare(_start_loop(spec, workload, build, seed=0), Path(task.folder))
    assert isinstance(task, Measure)  # all others have been answered
    return _measure(spec, task, _start_loop(spec, workload, build, task.seed), line)


def _compare(loop: Loop, folder: Path) -> UpdatesCompared | Failure:
    compared = compare_updates(loop, folder)
    return _failure_of(loop, loop.applied.check()[1], "did nothing") or compared


def _measure(spec: TrialSpec, task: Measure, loop: Loop, line: Line) -> Failure | None:
    """Warm up when it is this process's turn, and answer turn by turn; return the Failure that the warm-up met."""
    line.write(Built())
    if not line.read():  # WarmUp, in its turn; nothing if the tuner is gone
        return None
    steps = loop.own_steps(task.steps)
    warmed = warm_up(loop, spec.warmup_seconds, steps, task.settling_steps)
    learned, ineffective = loop.applied.check()
    if failure := _failure_of(loop, ineffective, "did nothing"):
        return failure
    ready = Ready(
        warmup_step_seconds=tuple(warmed.step_seconds),
        settled_seconds=warmed.settled_seconds,
        settling_steps=warmed.settling_steps,
        surplus_steps=warmed.surplus_steps,
        learned=learned,
        stated_in_vain=ineffective,
        batch_factor=loop.batch_factor,
        late_seconds=warmed.late_seconds,
        model_size=loop.model_size,
    )
    line.write(ready)
    last = None if steps is None else LastPart(loop, steps)
    while text := line.read():
        order: Order = decode(text, Order)  # type: ignore[arg-type]  # to mypy a union is no class
        if isinstance(order, GiveTurn):
            line.write(_take_turn(loop, order, last.starts_at if last else None))
        else:
            assert last is not None  # only a training that ends is asked to finish
            line.write(_finish(loop, last, warmed))
    return None


def _failure_of(loop: Loop, ineffective: Mapping[str, str], what: str) -> Failure | None:
    """Return the failure that settings without an effect are, unless the training itself states them.

    What the user states is what they run, whatever it does: it must not end the measurement of their own settings.
    """
    stated = loop.training.settings
    tried = {name: reason for name, reason in ineffective.items() if stated.get(name) != loop.applied.settings[name]}
    said = "; ".join(f"{name} {what}: {reason}" for name, reason in tried.items())
    return Failure(kind="ineffective", message=said) if said else None


def _ended(loop: Loop) -> Failure | None:
    """Return the failure that a setting is which took effect at first and no longer does."""
    return _failure_of(loop, loop.applied.check()[1], f"took effect, but no longer after {loop.steps_done:,} steps")


def _look(loop: Loop, task: TakeProfile, warmup_seconds: float, line: Line) -> Record:
    """Warm up, and look at the training; what is found is told as it is found."""
    warmed = warm_up(loop, min(warmup_seconds, _PROFILE_WARMUP_SECONDS))
    if failure := _failure_of(loop, loop.applied.check()[1], "did nothing"):
        return failure
    return take_and_gather(loop, task, warmed.step_seconds[-1], line.write)


def _start_loop(
    spec: TrialSpec, workload: Workload, build: Callable[[], Any], seed: int, resumed: Progress | None = None
) -> Loop:
    training = build_training(build, workload, seed)
    return Loop(training, Applied(spec.settings, device_of(training), spec.own), seed, resumed)


def _take_turn(loop: Loop, turn: GiveTurn, most_steps: int | None) -> Turn | Failure:
    """Make steps for one turn, and see that every setting still has its effect after them."""
    most = math.inf if most_steps is None else most_steps
    for _ in range(turn.uncounted_steps):
        if loop.steps_done < most:
            loop.step()
    least = max(turn.least_steps, burst_steps(loop))
    steps: list[Step] = []
    start = time.perf_counter()
    while loop.steps_done < most and ranks.follow(
        time.perf_counter() - start < turn.seconds or _lacks_steps(steps, least)
    ):
        steps.append(loop.step())
    # Once, not after each step: the program runs ahead of an accelerator, as it does in the user's own loop.
    synchronize(loop.device)
    shares = tuple(step.share for step in steps)
    done = Turn(
        step_seconds=tuple(step.seconds for step in steps),
        epoch_starts=tuple(index for index, step in enumerate(steps) if step.begins_epoch),
        step_shares=shares if any(share != 1.0 for share in shares) else (),
        peak_bytes=int(ranks.total(peak_bytes(loop.device))),
        diverged=loop.has_diverged,
    )
    return _ended(loop) or done


def _lacks_steps(steps: Sequence[Step], least: int) -> bool:
    """Whether a turn needs more steps: so many in all, and one that neither begins an epoch nor is incomplete.

    Else what a single step says that has waited for its epoch's loader would stand for all.
    """
    usual = any(not step.begins_epoch and step.share == 1.0 for step in steps)
    return len(steps) < least or (not usual and len(steps) < least + _MOST_UNUSUAL)


def _finish(loop: Loop, last: LastPart, warmed: WarmedUp) -> Finished | Failure:
    """Make the steps that are left and evaluate."""
    found = last.train(warmed.settled_seconds)
    return found if isinstance(found, Failure) else _ended(loop) or found


def _train(spec: TrialSpec, task: Train, workload: Workload, build: Callable[[], Any]) -> TrainResult | Failure:
    """Train from each seed; a seed decides on the model's first weights and on the order of the data."""
    metrics, losses, train_seconds, step_seconds = [], [], [], []
    steps = samples = resumed_at = 0
    for seed in task.seeds:
        checkpoints = None
        if task.checkpoint_path is not None:
            checkpoints = Checkpoints(Path(task.checkpoint_path), task.checkpoint_seconds, seed)
        resumed = checkpoints.load() if checkpoints else None
        loop = _start_loop(spec, workload, build, seed, resumed)
        if resumed is not None and task.announce and ranks.leads():
            for difference in begins_anew(loop, resumed):
                print(f"goes on from the checkpoint, but {difference}", flush=True)
        resumed_at = loop.steps_done
        steps = min(loop.own_steps(task.steps) or loop.planned_steps, loop.planned_steps)
        seconds = _run_steps(loop, steps, checkpoints, announce=task.announce)
        losses.append(loop.mean_last_loss())
        metrics.append(loop.evaluate())
        if not (math.isfinite(metrics[-1]) and math.isfinite(losses[-1])):
            found = f"{loop.training.metric.name} is {metrics[-1]}, the loss {losses[-1]}"
            return Failure(kind="diverged", message=f"after training from seed {seed}, {found}")
        train_seconds.append(math.fsum(seconds))
        step_seconds.extend(seconds)
        samples = loop.samples_done
        if task.save_path is not None and ranks.leads():
            aside = Path(f"{task.save_path}.partial")
            torch.save(loop.plain_model.state_dict(), aside)
            aside.replace(task.save_path)
    return TrainResult(
        metric=loop.training.metric.name,
        metrics=tuple(metrics),
        losses=tuple(losses),
        steps=steps,
        samples=samples,
        train_seconds=tuple(train_seconds),
        step_seconds=statistics.median(step_seconds) if step_seconds else None,
        resumed_at=resumed_at,
    )


def _run_steps(loop: Loop, steps: int, checkpoints: Checkpoints | None, announce: bool) -> list[float]:
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
        if announce and ranks.leads():
            metric = loop.evaluate()
            samples = loop.samples_done - samples_before
            print(
                f"epoch {epoch}/{loop.training.epochs}  loss {loop.last_loss:.4g}  "
                f"{loop.training.metric.name} {metric:.4g}  {samples / math.fsum(of_epoch):,.0f} samples/s  "
                f"{format_duration(math.fsum(of_epoch))}",
                flush=True,
            )
        samples_before = loop.samples_done
    return seconds
