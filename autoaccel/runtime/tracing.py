"""What a few steps consist of, as torch.profiler records them: operators, memory, kernels."""

from __future__ import annotations

import gc
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from torch import profiler
from torch._C._autograd import DeviceType

from autoaccel.records.profile import LARGE_OPERATOR_SECONDS, GpuTimes, MemoryPeak, OperatorShare
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.paced import Phased
from autoaccel.runtime.ranks import agreed
from autoaccel.runtime.steps import Step, Stretch

MAX_STEPS = 3
_MAX_SECONDS = 2.0  # of all recorded steps, and of making the list of their operators
SHOWN_OPERATORS = 20
_PHASE_END = "phase end: "

# As Gloo and MPI name it on a CPU, and NCCL's kernels on a GPU.
_ALL_REDUCE = re.compile(r"(gloo|mpi|ucc):all_?reduce|nccl\w*AllReduce", re.IGNORECASE)

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


class Trace(NamedTuple):
    """What a few recorded steps show; see Profile for the meaning of each."""

    step_seconds: float
    operators: tuple[OperatorShare, ...]
    groups: dict[str, float]
    calls_per_step: float
    operator_seconds: float
    large_operator_seconds: float
    names: tuple[str, ...]
    reads_per_step: float
    memory: MemoryPeak | None
    gpu: GpuTimes | None
    all_reduce_seconds: float  # per step in which processes add up gradients


def tracing(phased: Phased, step_seconds: float, path: str | None = None) -> Stretch[Trace]:
    """Take a few steps; return what they show.

    A first one is recorded alone. It is all that is recorded if steps are long, or if it has so many operators that
    reading more of them would take too long; else it is not counted.

    Args:
        phased: Warmed up.
        step_seconds: About how long a step takes: fewer are recorded if they are long.
        path: Where the trace goes, for Perfetto or chrome://tracing; None for nowhere.
    """
    steps = min(MAX_STEPS, max(1, int(_MAX_SECONDS / step_seconds)))
    record = yield from _recording(phased, 1)
    if agreed(steps > 1 and steps * record.reading_seconds <= _MAX_SECONDS):
        _let_go(record.profiler)
        record = yield from _recording(phased, steps, skipped=1)
    if path is not None:
        record.profiler.export_chrome_trace(path)
    made = record.steps
    with _without_garbage_collection():
        trace = read_trace(record.profiler, statistics.median(step.seconds for step in made), len(made), record.on_gpu)
        _let_go(record.profiler)
    return trace


class _Record(NamedTuple):
    """What the profiler has recorded of some steps."""

    profiler: Any
    steps: list[Step]
    reading_seconds: float  # that making the list of operators took
    on_gpu: bool


def _recording(phased: Phased, steps: int, skipped: int = 0) -> Stretch[_Record]:
    """Take so many steps, after some that are not counted, and record them."""
    # Of Apple's devices the profiler records nothing.
    activity = {"cuda": profiler.ProfilerActivity.CUDA, "xpu": profiler.ProfilerActivity.XPU}.get(phased.device.type)
    on_gpu = activity is not None
    activities = [profiler.ProfilerActivity.CPU, *([activity] if activity is not None else [])]
    made: list[Step] = []

    def mark(phase: str) -> None:
        with profiler.record_function(_PHASE_END + phase):
            pass

    previous, phased.phase_ended = phased.phase_ended, mark
    try:
        with (
            ExitStack() as reading,
            profiler.profile(
                activities=activities,
                schedule=profiler.schedule(wait=0, warmup=skipped, active=steps, repeat=1) if skipped else None,
                record_shapes=True,
                profile_memory=True,
                acc_events=True,  # nothing is lost of one cycle, but without it torch 2.10 warns whoever profiles
            ) as recorded,
        ):
            for _ in range(skipped + steps):
                made.append((yield))
                if len(made) == skipped:
                    synchronize(phased.device)  # what it still did would be recorded as the next step's
                if len(made) < skipped + steps:
                    recorded.step()
            began = time.perf_counter()
            reading.enter_context(_without_garbage_collection())
            recorded.step()  # with a schedule it lists the operators, else leaving the profiler does
    finally:
        phased.phase_ended = previous
    return _Record(recorded, made[skipped:], time.perf_counter() - began, on_gpu)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Do not look for garbage: among the objects of 50,000 operators that takes as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _let_go(recorded: Any) -> None:
    """Empty the list of operators, which hold one another.

    Else Python would find them when it next looks for garbage: in a step that is measured, which 50,000 of them
    lengthen by about 2 s.
    """
    events = recorded.events()
    for event in events:
        event.cpu_parent = None
    events.clear()


def _is_operator(name: str) -> bool:
    # Ranges that torch puts around its optimizers and loaders hold operators; they are none themselves, nor are ours.
    return "#" not in name and not name.startswith((_PHASE_END, "ProfilerStep", "[memory]"))


def read_trace(recorded: Any, step_seconds: float, steps: int, on_gpu: bool) -> Trace:
    """Return what the recorded steps show, given how long one took and how many there were."""
    events = recorded.events()
    averages = recorded.key_averages(group_by_input_shape=True)
    own, calls = _kernels_by_operator(events) if on_gpu else _own_seconds(averages)
    whole = sum(own.values()) or 1.0
    groups: defaultdict[str, float] = defaultdict(float)
    for name, own_seconds in own.items():
        groups[group_of(name)] += own_seconds / whole
    largest = sorted(own, key=own.__getitem__, reverse=True)[:SHOWN_OPERATORS]
    shapes = _shapes_of(averages, set(largest), on_gpu)
    operators = tuple(
        OperatorShare(name, group_of(name), own[name] / whole, calls[name] / steps, own[name] / steps, shapes[name])
        for name in largest
    )
    # Median over calls: what a call of an operator costs itself, where most of them are small.
    of_calls = [event.self_cpu_time_total / 1e6 for event in events if event.name.startswith("aten::")]
    large = [seconds for name, seconds in own.items() if calls[name] and seconds / calls[name] > LARGE_OPERATOR_SECONDS]
    return Trace(
        step_seconds=step_seconds,
        operators=operators,
        groups=dict(sorted(groups.items(), key=lambda item: -item[1])),
        calls_per_step=len(of_calls) / steps,
        operator_seconds=statistics.median(of_calls) if of_calls else 0.0,
        large_operator_seconds=sum(large) / steps,
        names=tuple(sorted(own)),
        reads_per_step=_count_reads(events) / steps,
        memory=_memory_peak(recorded),
        gpu=_gpu_times(events, steps) if on_gpu else None,
        all_reduce_seconds=sum(
            (event.time_range.end - event.time_range.start) / 1e6
            for event in events
            if _ALL_REDUCE.search(event.name) and (event.device_type != DeviceType.CPU) == on_gpu
        )
        / steps,
    )


def _own_seconds(averages: Sequence[Any]) -> tuple[dict[str, float], Counter[str]]:
    """Return for each operator the CPU's seconds, without those of operators that it called, and its calls."""
    own: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for event in averages:
        if _is_operator(event.key):
            own[event.key] += event.self_cpu_time_total / 1e6
            calls[event.key] += event.count
    return own, calls


def _kernels_by_operator(events: Sequence[Any]) -> tuple[dict[str, float], Counter[str]]:
    """Return for each operator the seconds of the kernels that it launched, and its calls; each kernel counts once.

    The profiler lists a kernel twice, as an event of its own and as its operator's. Kernels of no operator, such as
    those of a CUDA graph, stand for themselves.
    """
    own: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    apart: defaultdict[str, float] = defaultdict(float)  # seconds of kernels, less those of operators
    launches: Counter[str] = Counter()
    for event in events:
        if not _is_operator(event.name) or event.is_user_annotation:
            continue
        if _is_kernel(event):
            apart[event.name] += event.time_range.elapsed_us() / 1e6
            launches[event.name] += 1
            continue
        own[event.name] += sum(kernel.duration for kernel in event.kernels) / 1e6
        calls[event.name] += 1
        for kernel in event.kernels:
            apart[kernel.name] -= kernel.duration / 1e6
            launches[kernel.name] -= 1
    for name, count in launches.items():
        if count > 0:
            own[name] += apart[name]
            calls[name] += count
    return own, calls


def _is_kernel(event: Any) -> bool:
    """Whether this is work of a device, a kernel or a copy, rather than a range that somebody has named."""
    return event.device_type != DeviceType.CPU and _is_operator(event.name) and not event.is_user_annotation


def _shapes_of(averages: Sequence[Any], names: set[str], on_gpu: bool) -> dict[str, str]:
    """Return for each operator the shapes of the inputs on which it spends the most time."""
    most: dict[str, tuple[float, str]] = dict.fromkeys(names, (-1.0, ""))
    for event in averages:
        seconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        if event.key in names and seconds > most[event.key][0]:
            shapes = [shape for shape in event.input_shapes or () if shape]
            text = ", ".join("x".join(map(str, shape)) for shape in shapes if not isinstance(shape[0], list))
            most[event.key] = (seconds, text)
    return {name: text for name, (_, text) in most.items()}


def _ends(events: Sequence[Any], phase: str) -> list[float]:
    """Return when a phase ended, in the trace's microseconds."""
    return [event.time_range.start for event in events if event.name == _PHASE_END + phase]


def _count_reads(events: Sequence[Any]) -> int:
    """Return how often a number is read out of a tensor in the forward pass and the loss."""
    spans = list(zip(_ends(events, "host to device"), _ends(events, "loss"), strict=False))
    reads = [event.time_range.start for event in events if event.name == "aten::_local_scalar_dense"]
    return sum(any(start <= read <= end for start, end in spans) for read in reads)


def _memory_peak(recorded: Any) -> MemoryPeak | None:
    """Return the most memory that tensors took in a step beyond its start, and the phase; None if not recorded."""
    raw = recorded.profiler.kineto_results.events()
    # Freed memory counts below zero.
    changes = sorted((event.start_ns(), event.nbytes()) for event in raw if event.name() == "[memory]")
    ends = [event for event in raw if event.name().startswith(_PHASE_END)]
    marks = sorted((event.start_ns(), event.name().removeprefix(_PHASE_END)) for event in ends)
    if not changes or not marks:
        return None
    held = peak = 0
    peak_phase, next_mark = marks[0][1], 0
    for when, change in changes:
        while next_mark < len(marks) and marks[next_mark][0] < when:
            if marks[next_mark][1] == "other":
                held = 0  # the next step begins with what this one leaves
            next_mark += 1
        held += change
        if held > peak and next_mark < len(marks):
            peak, peak_phase = held, marks[next_mark][1]
    return MemoryPeak(peak, peak_phase)


def _gpu_times(events: Sequence[Any], steps: int) -> GpuTimes | None:
    """Return how busy the GPU was from the first to the last kernel of these steps; None without two kernels."""
    on_device = [event for event in events if _is_kernel(event)]
    spans = sorted((event.time_range.start / 1e6, event.time_range.end / 1e6) for event in on_device)
    if len(spans) < 2:
        return None
    busy, until = 0.0, spans[0][0]
    for start, end in spans:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    whole = until - spans[0][0]
    pageable = [event.time_range for event in on_device if "Pageable -> Device" in event.name]
    return GpuTimes(
        busy_share=busy / whole,
        kernels_per_step=len(spans) / steps,
        median_kernel_seconds=statistics.median(end - start for start, end in spans),
        gap_seconds=(whole - busy) / steps,
        blocking_copy_share=sum(span.end - span.start for span in pageable) / 1e6 / whole,
    )
