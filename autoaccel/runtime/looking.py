"""Look at a training: its profile first, then what else tells what would help, the most valuable first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec
import torch

from autoaccel.records.conditions import Switched, TrainingConditions
from autoaccel.records.messages import Profiled, TakeProfile
from autoaccel.records.profile import Profile
from autoaccel.runtime.boards import write_board
from autoaccel.runtime.conditions import gather_conditions
from autoaccel.runtime.evaluating import evaluation_steps, measure_evaluation
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.profiling import take_profile, users_functions, with_work
from autoaccel.runtime.ranks import agreed
from autoaccel.runtime.rates import measure_rates
from autoaccel.runtime.samples import measure_samples
from autoaccel.runtime.spending import Spending
from autoaccel.runtime.switching import (
    ALONE_STEPS,
    ROUNDS_OF_STEPS,
    larger_batch_factors,
    measure_alone,
    measure_larger_batch,
    measure_without,
    measure_without_anomaly_mode,
    with_threads,
    without_anomaly_mode,
    without_deterministic_algorithms,
    without_profilers,
)
from autoaccel.runtime.work import time_modules

_SHARE_FOR_EACH = 0.5  # of the time for untraced steps: for each other measurement beside a profile
_WAITS = 0.02  # share of the step: waiting for data, from which on it matters what a step on a batch at hand takes
_COUNTED_STEPS = 1.3  # a step whose operators pass through Python one by one
_RATES_SECONDS = 3.5
"""What measuring the machine's rates takes: on two shared cores 2.5 to 3.4 s, whatever the training."""

Measure = Callable[[Profiled, float], Profiled]
"""Returns what was found with one thing more, given what was found so far and how many steps may be made."""


class Looking:
    """Makes measurements as long as there is time; one that fails is left out, whatever it raises.

    What was found so far is told before each, so that it is not lost if one crashes or hangs.
    """

    def __init__(self, found: Profiled, spending: Spending, tell: Callable[[Profiled], None]) -> None:
        """Begin with what was found already."""
        self._found = found
        self._spending = spending
        self._tell = tell

    @property
    def found(self) -> Profiled:
        """What was found so far."""
        profile = msgspec.structs.replace(self._found.profile, left_out=tuple(self._spending.left_out))
        return msgspec.structs.replace(self._found, profile=profile)

    def measure(self, what: str, measure: Measure, steps: tuple[float, ...] = (0.0,), seconds: float = 0.0) -> None:
        """Find out one thing more, unless there is no time for it.

        Args:
            what: Names it.
            measure: Finds it out.
            steps: Numbers of steps with which it can be done, the best first; the first for which there is time counts.
            seconds: That it takes beside them.
        """
        number = self._spending.choose(what, steps, seconds)
        if number is None:
            return
        self._tell(msgspec.structs.replace(self.found, measuring=what))
        try:
            self._found = measure(self._found, number)
        except Exception as error:  # whatever the user's model raises in steps of a kind that it never makes
            reason = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
            self._found = with_profile(self._found, failed={**self._found.profile.failed, what: reason})


def take_and_gather(
    loop: Inspectable, task: TakeProfile, step_seconds: float, tell: Callable[[Profiled], None]
) -> Profiled:
    """Return the profile, its conditions and the machine's rates, as far as there is time for them.

    Args:
        loop: It has warmed up.
        task: What to look at, and for how long.
        step_seconds: What a step takes, about.
        tell: Told, before each measurement, what was found so far.
    """
    spending = Spending(step_seconds, task.max_seconds)
    profile, steps = take_profile(loop, task.seconds, task.trace_path, spending)
    spending.step_seconds = profile.step_seconds
    if task.board_path is not None:
        write_board(task.board_path, profile, steps)
    looking = Looking(Profiled(profile=profile), spending, tell)
    look_at_conditions(looking, lambda: gather_conditions(loop))
    _look_at_steps(looking, loop, task)
    _look_closer(looking, loop, task)
    return looking.found


def look_at_conditions(looking: Looking, gather: Callable[[], TrainingConditions]) -> None:
    """Find out under what a training runs, in any case: without that hardly any finding is sure."""
    looking.measure("training conditions", lambda found, _: _replace(found, conditions=gather()))


def look_at_machine(looking: Looking, device: torch.device, cache_bytes: int) -> None:
    """Find out what the machine does at most."""
    looking.measure(
        "the machine's rates",
        lambda found, _: _replace(found, rates=measure_rates(device, cache_bytes)),
        seconds=_RATES_SECONDS,
    )


def _look_at_steps(looking: Looking, loop: Inspectable, task: TakeProfile) -> None:
    """Find out what steps take without what costs time and could be switched off, and what loading takes."""
    seconds = _SHARE_FOR_EACH * task.seconds
    for name, switch in _switches(looking.found, loop, task.cores).items():
        switched = partial(measure_without, loop, switch, seconds)
        if name == "anomaly":
            switched = partial(measure_without_anomaly_mode, loop, seconds)
        looking.measure(f"steps with other {name}", partial(_with_switched, name, switched), tuple(ROUNDS_OF_STEPS))
    if looking.found.conditions is None:
        return
    waits = looking.found.profile.phases["data wait"] >= _WAITS or bool(getattr(loop.loader, "num_workers", 0))
    if agreed(waits):
        looking.measure(
            "steps on a batch at hand",
            lambda found, _: _with_conditions(found, alone=measure_alone(loop, loop.next_batch(), seconds)),
            (ALONE_STEPS,),
        )
    looking.measure(
        "loading samples",
        lambda found, _: _with_conditions(found, samples=measure_samples(loop.loader, seconds)),
        seconds=seconds,
    )


def _look_closer(looking: Looking, loop: Inspectable, task: TakeProfile) -> None:
    """Find out what explains rather than decides."""
    seconds, step_seconds = _SHARE_FOR_EACH * task.seconds, looking.found.profile.step_seconds
    if task.thorough:
        look_at_machine(looking, loop.device, task.cache_bytes)
        looking.measure(
            "floating-point operations, and thus the roofline",
            lambda found, _: _replace(found, profile=with_work(found.profile, loop)),
            (_COUNTED_STEPS,),
        )
    looking.measure(
        "lines of Python", lambda found, _: with_profile(found, python=users_functions(loop, step_seconds)), (1.0,)
    )
    if (conditions := looking.found.conditions) is not None:
        in_turns, once = evaluation_steps(loop, conditions.batch_samples)

        def with_evaluation(found: Profiled, steps: float) -> Profiled:
            return _with_conditions(found, evaluation=measure_evaluation(loop, seconds, in_turns=steps == in_turns))

        looking.measure("evaluation", with_evaluation, (in_turns, once))
        if factors := larger_batch_factors(round(conditions.batch_samples)):

            def with_larger_batch(found: Profiled, steps: float) -> Profiled:
                return _with_conditions(found, larger_batch=measure_larger_batch(loop, factors[steps], seconds))

            looking.measure("steps on larger batches", with_larger_batch, tuple(factors))
    if task.thorough:
        looking.measure(
            "times of modules", lambda found, _: with_profile(found, modules=time_modules(loop, step_seconds)), (1.0,)
        )


Switch = Callable[[], AbstractContextManager[Any]]


def _switches(found: Profiled, loop: Inspectable, usable_cores: int) -> dict[str, Switch]:
    """Return what costs time here, or may, and how to switch it off."""
    seen = found.conditions
    if seen is None:
        return {}
    switches: dict[str, Switch] = {}
    if seen.anomaly_mode:
        switches["anomaly"] = without_anomaly_mode
    if seen.deterministic or torch.backends.cudnn.deterministic:
        switches["deterministic"] = without_deterministic_algorithms
    if any(name != "torch.profiler" for name in seen.profilers):
        switches["profilers"] = without_profilers
    if loop.device.type == "cpu" and torch.get_num_threads() != usable_cores:
        switches["threads"] = with_threads(usable_cores)
    return switches


def _with_switched(name: str, measure: Callable[[int], Switched], found: Profiled, steps: float) -> Profiled:
    assert found.conditions is not None  # they tell what there is to switch off
    switched = measure(ROUNDS_OF_STEPS[steps])
    return _with_conditions(found, switched={**found.conditions.switched, name: switched})


def _replace(found: Profiled, **changes: Any) -> Profiled:
    return msgspec.structs.replace(found, **changes)


def with_profile(found: Profiled, **changes: Any) -> Profiled:
    """Return what was found, with more in its profile."""
    profile: Profile = msgspec.structs.replace(found.profile, **changes)
    return _replace(found, profile=profile)


def _with_conditions(found: Profiled, **changes: Any) -> Profiled:
    assert found.conditions is not None  # what belongs to them is measured after them
    return _replace(found, conditions=msgspec.structs.replace(found.conditions, **changes))
