"""Where the time of a step goes: phases from untraced steps, operators from a few traced ones."""

from __future__ import annotations

import re
import statistics
import time
from collections import defaultdict

from torch import profiler

from autoaccel.records.profile import PHASES, OperatorShare, Profile
from autoaccel.runtime import ranks
from autoaccel.runtime.loop import Loop, peak_bytes

_TRACED_STEPS = 3
_SHOWN_OPERATORS = 20

_MEMORY = (
    r"copy|(::|_)to$|empty|clone|contiguous|zero|fill|cat$|stack$|resize|detach|view|shape|transpose|pad"
    r"|permute|expand|slice|select|split|squeeze|as_strided|reorder"
)
# First match wins. Names are those of torch.profiler: ATen operators, oneDNN's, cuDNN's and autograd's nodes.
_GROUPS = tuple(
    (group, re.compile(pattern))
    for group, pattern in (
        ("attention", r"attention|flash|sdp"),
        ("convolution", r"conv"),
        ("matmul", r"(^|::|_)(addmm|addbmm|baddbmm|bmm|mm|matmul|linear|mkldnn_linear|einsum|dot|mv|gemm)\w*$|sgemm"),
        ("normalisation", r"norm"),
        ("pooling", r"pool"),
        ("softmax and loss", r"softmax|nll_loss|cross_entropy|mse_loss|l1_loss|smooth_l1|binary_cross"),
        ("embedding", r"embedding|index|gather|scatter"),
        ("optimizer", r"adam|sgd|rmsprop|adagrad|foreach|lerp|addcdiv|addcmul"),
        ("random", r"dropout|bernoulli|rand|normal_|uniform_"),
        ("memory", _MEMORY),
        ("elementwise", r"aten::"),
    )
)


def group_of(operator: str) -> str:
    """Return the group of an operator by its name; "other" for what is no ATen operator."""
    name = operator.lower()
    return next((group for group, pattern in _GROUPS if pattern.search(name)), "other")


class _PhaseClock:
    """Adds up the seconds between the ends of phases."""

    def __init__(self) -> None:
        self.step_phases: list[dict[str, float]] = []
        self._last = 0.0

    def start_step(self) -> None:
        self.step_phases.append(dict.fromkeys(PHASES, 0.0))
        self._last = time.perf_counter()

    def phase_ended(self, phase: str) -> None:
        now = time.perf_counter()
        self.step_phases[-1][phase] += now - self._last
        self._last = now


def take_profile(loop: Loop, seconds: float) -> Profile:
    """Return the profile of a loop that has warmed up, from about this many seconds of untraced steps."""
    clock = _PhaseClock()
    loop.phase_ended = clock.phase_ended
    step_seconds: list[float] = []
    samples_before, start = loop.samples_done, time.perf_counter()
    while ranks.follow(time.perf_counter() - start < seconds or len(step_seconds) < _TRACED_STEPS):
        clock.start_step()
        step_seconds.append(loop.step().seconds)
    samples = (loop.samples_done - samples_before) / len(step_seconds)
    typical = {phase: statistics.median(step[phase] for step in clock.step_phases) for phase in PHASES}
    if loop.applied.settings.get("loader.workers"):
        # Workers deliver in bursts: most steps wait for nothing, one waits for all. Only the mean tells.
        typical["data wait"] = statistics.fmean(step["data wait"] for step in clock.step_phases)
    whole = sum(typical.values())
    operators, groups = _trace_operators(loop)
    return Profile(
        step_seconds=statistics.median(step_seconds),
        samples_per_second=samples / statistics.median(step_seconds),
        phases={phase: seconds / whole for phase, seconds in typical.items()},
        operators=operators,
        groups=groups,
        peak_bytes=peak_bytes(loop.device),
        parameters=sum(parameter.numel() for parameter in loop.plain_model.parameters()),
        steps=len(step_seconds),
    )


def _trace_operators(loop: Loop) -> tuple[tuple[OperatorShare, ...], dict[str, float]]:
    """Return the operators of a few traced steps and their groups, by share of the operators' own time."""
    activities = [profiler.ProfilerActivity.CPU]
    on_accelerator = loop.device.type == "cuda"
    if on_accelerator:
        activities.append(profiler.ProfilerActivity.CUDA)
    with profiler.profile(activities=activities) as trace:
        for _ in range(_TRACED_STEPS):
            loop.step()
    own: dict[str, float] = {}
    calls: dict[str, int] = {}
    for event in trace.key_averages():
        # Ranges that torch puts around its optimizers and loaders hold operators; they are none themselves.
        if "#" not in event.key and "ProfilerStep" not in event.key:
            own[event.key] = event.self_device_time_total if on_accelerator else event.self_cpu_time_total
            calls[event.key] = event.count
    whole = sum(own.values()) or 1.0
    groups: defaultdict[str, float] = defaultdict(float)
    for name, own_time in own.items():
        groups[group_of(name)] += own_time / whole
    largest = sorted(own, key=own.__getitem__, reverse=True)[:_SHOWN_OPERATORS]
    operators = tuple(
        OperatorShare(
            name=name, group=group_of(name), share=own[name] / whole, calls_per_step=calls[name] / _TRACED_STEPS
        )
        for name in largest
    )
    return operators, dict(sorted(groups.items(), key=lambda item: -item[1]))
