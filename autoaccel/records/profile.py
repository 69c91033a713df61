"""Profile: where the time of a step goes; Finding: one cause read off it."""

from __future__ import annotations

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, NotNegative, Number, PositiveSeconds, Seconds, SignedSeconds

PHASES = ("data wait", "host to device", "forward", "loss", "backward", "all-reduce", "optimizer", "zero grad", "other")
"""Phases of a step, in the order in which they happen; their shares add up to 1. A step without a process group has no
all-reduce; profiles of earlier versions count the loss as forward and clearing gradients as optimizer."""


class OperatorShare(Record, frozen=True):
    """One operator: its own time (children excluded) as a share of all operators' own time."""

    name: str
    group: str
    share: float
    calls_per_step: float
    self_seconds: float = 0.0  # per step, traced
    shapes: str = ""  # of the inputs on which it spends the most time


class ModuleTime(Record, frozen=True):
    """One module of the model: how long its forward passes take, its children's included."""

    name: str  # dotted path; empty for the model itself
    kind: str  # name of its class
    forward_seconds: float  # per step, untraced
    own_seconds: float  # of these outside its children
    calls_per_step: float


class PythonFunction(Record, frozen=True):
    """One function of the user's own code that the step calls."""

    name: str
    where: str  # "model.py:31"
    calls_per_step: float
    total_share: float  # of the step, everything that it calls included
    line_share: float  # of the step: its own lines, and what is built in (methods of tensors, print) called from them
    built_in_calls: dict[str, float] = {}  # name -> calls per step from its own lines


class MemoryPeak(Record, frozen=True):
    """The most memory that tensors took beyond what there was when the step began, and in which phase."""

    bytes_above_start: int
    phase: str


class GpuTimes(Record, frozen=True):
    """How well a GPU is kept busy while steps are traced."""

    busy_share: float  # of the step's time with a kernel or copy running
    kernels_per_step: float
    median_kernel_seconds: float
    gap_seconds: float  # per step between kernels
    blocking_copy_share: float = 0.0  # of the step: copies from pageable memory, for which the program waits


class Profile(Record, frozen=True):
    """Share of the step per phase and per operator, under the user's own settings. Defaults mean "not measured"."""

    step_seconds: PositiveSeconds  # median, untraced
    samples_per_second: NotNegative | None
    phases: dict[str, Number]  # phase -> share of the step, untraced; see PHASES
    operators: tuple[OperatorShare, ...]  # largest first
    groups: dict[str, Number]  # group -> share of all operators' own time
    peak_bytes: Count  # resident memory of the process, or memory allocated on the accelerator
    parameters: Count
    steps: Count  # untraced steps that the phases come from
    phase_seconds: Seconds | None = None  # all phases of a typical step together: step_seconds, but for noise
    traced_step_seconds: Seconds | None = None  # median while operators are recorded
    operator_calls_per_step: float | None = None
    operator_seconds: float | None = None  # median own time of a call
    large_operator_seconds: float | None = None  # per step; see LARGE_OPERATOR_SECONDS
    operator_names: tuple[str, ...] = ()  # of all operators
    reads_per_step: float | None = None  # of a number out of a tensor, forward pass and loss
    cpu_seconds: float | None = None  # of this process per step, all its threads
    system_seconds: float | None = None  # of cpu_seconds what the system spent: page faults, copies, waits
    worker_cpus: float | None = None  # CPUs kept busy by loader workers
    minor_faults_per_step: float | None = None
    major_faults_per_step: float | None = None
    epoch_start_seconds: float | None = None  # that the first step of an epoch takes beyond others
    python: tuple[PythonFunction, ...] = ()  # most expensive lines first
    modules: tuple[ModuleTime, ...] = ()  # in the model's order
    memory: MemoryPeak | None = None
    gpu: GpuTimes | None = None
    flops: dict[str, int] = {}  # group -> floating-point operations of a step: forward and backward
    moved_bytes: int | None = None  # per step, if each operator read its inputs from memory and wrote its outputs to it
    # Per step, of parameters, gradients, the optimizer's state and the batch alone.
    min_bytes: int | None = msgspec.field(default=None, name="least_bytes")
    left_out: tuple[str, ...] = ()  # what was not measured because of the time that it takes
    failed: dict[str, str] = {}  # what could not be measured -> why: what the user's code raised

    @property
    def tracing_overhead(self) -> float | None:
        """By what share a step takes longer while operators are recorded; None if none were."""
        return self.traced_step_seconds / self.step_seconds - 1 if self.traced_step_seconds else None


LARGE_OPERATOR_SECONDS = 50e-6
"""From which mean own time of a call on an operator is no small one: ten times what launching one costs."""


class Finding(Record, frozen=True):
    """One cause read off a Profile, and the most that removing it could win."""

    code: str
    title: str
    share: Number  # of the step, that its remedies could touch
    bound_speedup: NotNegative  # if that share vanished; more where it was measured that what is left runs faster then
    knobs: tuple[str, ...] = ()
    advice: str = ""
    numbers: dict[str, float] = msgspec.field(default_factory=dict, name="evidence")  # that it rests on
    expected_speedup: NotNegative = 1.0  # what its remedies usually win; findings come in this order
    claims_half: bool = False  # that removing the cause wins at least half of what the bound says


class Demand(Record, frozen=True):
    """What one process of a training needs, under the user's own settings: of time, of memory, of its loader."""

    step_seconds: SignedSeconds  # of a step whose batch is there
    peak_bytes: Count  # see Profile
    loading_seconds: SignedSeconds | None = None  # that one process takes to make a batch ready; None: not known
    busy_seconds: SignedSeconds | None = None  # of these not asleep
    batch_bytes: Count | None = None  # of the peak, what grows with the batch, at least; None: not known
