"""WorkerSpec: all that a worker is told. Messages: all that it answers."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, NotNegative, PositiveSeconds
from autoaccel.records.conditions import TrainingConditions
from autoaccel.records.machine import TorchFacts
from autoaccel.records.profile import Profile
from autoaccel.records.ranks import Placement
from autoaccel.records.rates import Rates
from autoaccel.records.rounding import CompareUpdates, RecordUpdates, UpdatesCompared, UpdatesRecorded
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Script, TrainingFacts, Workload

# --- what a worker is told ---------------------------------------------------------------------------------


class Probe(Record, frozen=True, tag="probe"):
    """Tell what torch can do here. Needs no workload."""


class Describe(Record, frozen=True, tag="describe"):
    """Build the Training and tell what it is."""

    tells_first_step: bool = False  # whether a script that has made its first step sends StepMade


class Measure(Record, frozen=True, tag="measure"):
    """Build, warm up, then measure steps whenever a turn is given; if asked to finish, train on and evaluate."""

    seed: int = 0
    steps: int | None = None  # the training ends after so many, warm-up included; None: it never ends
    settling_steps: int | None = None  # see Ready; None: the warm-up has to find out


MAX_PROFILE_SECONDS = 20.0
"""That looking at a training may take after its warm-up: eight steps of two seconds, and the machine's rates."""


class TakeProfile(Record, frozen=True, tag="profile"):
    """Profile some steps: untraced for the phases, traced for the operators."""

    seconds: float  # of untraced measuring, about
    thorough: bool = False  # also modules, floating-point operations and this machine's rates
    cores: int = 1  # that the process may keep busy
    cache_bytes: int = 0  # of the largest cache
    trace_path: str | None = None  # where a trace for Perfetto or chrome://tracing goes
    board_path: str | None = None  # folder that TensorBoard is to show
    max_seconds: float = MAX_PROFILE_SECONDS  # after the warm-up; a few steps are made in any case


class Train(Record, frozen=True, tag="train"):
    """Train from each seed in turn, on the same data order, and evaluate at the end."""

    seeds: tuple[int, ...]
    steps: int | None = None  # stop after this many optimizer steps; None: the whole planned run
    save_path: str | None = None  # where the trained weights go
    announce: bool = False  # print a line per epoch for the person who waits
    checkpoint_path: str | None = None  # resume from it if it exists, and save to it from time to time
    checkpoint_seconds: float = 0.0  # how long to train at least before it is written again


class TuneLive(Record, frozen=True, tag="tune live"):
    """Train to the end, and tune by the steps that are made."""

    space: str  # name of the search space, or path of its file
    folder: str  # where what was tried is written
    seed: int = 0  # of what build() returns; a script has its own
    training: str = ""  # its file, and what of it
    training_key: str = ""  # tells it from others in the history; empty: nothing is remembered of it


class KeepPromise(Record, frozen=True, tag="keep promise"):
    """Train with a recipe to the end, and watch what it promises."""

    recipe: str  # its file
    speedup: float  # of steps, at least


Task = Probe | Describe | Measure | TakeProfile | Train | RecordUpdates | CompareUpdates | TuneLive | KeepPromise


class WorkerSpec(Record, frozen=True):
    """All that a worker is told."""

    task: Task
    workload: Workload | None = None  # None for a probe only
    settings: Settings = {}
    # What build() makes of the process, see TrainingFacts.found; None: ask the process.
    found: Settings | None = msgspec.field(default=None, name="own")
    placement: Placement | None = None  # among several ranks; None: it trains alone
    warmup_seconds: float = 10.0  # a step time that has not settled by then is measured as it is
    script: ScriptFacts | None = None  # what a script was seen to do; None if it is no script, or to be described
    # Folder that stands for "/": in it lies a copy of a script's working folder, in which it works. None: its own.
    scratch: str | None = None
    covered: bool = False  # whether all that a script writes goes with its process

    @property
    def launcher(self) -> Script | None:
        """The launcher that a worker is to be; None if it is to be a program of ours."""
        return self.workload.launcher if self.workload is not None else None

    @property
    def served_by(self) -> str:
        """The module of ours whose main() does the task."""
        return self.workload.served_by if self.workload is not None else "runtime.worker"


LONG_STEP_SECONDS = 0.3
"""From here on a single step is a turn, and needs none before it that does not count. After a pause a process fills
again the caches that another has emptied: 32 MB at 10 GB/s take 3 ms, 1 % of such a step, and both of a pair pay it.
Larger caches belong to machines whose memory is as much faster."""


class GiveTurn(Record, frozen=True, tag="turn"):
    """Ask a measuring worker to run steps for about this long."""

    seconds: float
    min_steps: int = 3  # that count
    uncounted_steps: int = 1  # before those, for caches that another process has emptied


class WarmUp(Record, frozen=True, tag="warm-up"):
    """Ask a measuring worker that has built its training to warm up."""


class Finish(Record, frozen=True, tag="finish"):
    """Ask a measuring worker to make the steps that are left and to evaluate."""


Order = WarmUp | GiveTurn | Finish


# --- what it answers ---------------------------------------------------------------------------------------


class Built(Record, frozen=True, tag="built"):
    """Built; waiting to be warmed up: of processes that start side by side, one at a time makes steps."""


class ModelSize(Record, frozen=True):
    """How large a model was before some of it was removed, and after. FLOPs are of one forward and backward pass."""

    baseline_parameters: Count
    parameters: Count
    baseline_flops: Count
    flops: Count


class Ready(Record, frozen=True, tag="ready"):
    """Warmed up; waiting for turns. The times are of the warm-up steps, in order."""

    warmup_step_seconds: tuple[float, ...]
    settled_seconds: float  # that a step took in the end
    settling_steps: int  # after the first of the model that is measured, until the step time had settled,
    surplus_steps: int  # and after those, only to see that it had
    learned: dict[str, str] = {}  # knob -> what shows that its value took effect
    stated_in_vain: dict[str, str] = {}  # knob -> why a value that the training itself states did nothing
    batch_factor: float = 1.0  # samples of one of its steps, over those of a step of the training's own
    late_seconds: float = 0.0  # that steps before its model shrinks would take longer, beyond the warm-up's own
    model_size: ModelSize | None = None  # if its model has shrunk


class Turn(Record, frozen=True, tag="turn"):
    """Step times of one turn, in seconds, loader wait included; none once the training is over."""

    step_seconds: tuple[PositiveSeconds, ...]
    epoch_starts: tuple[Count, ...] = ()  # indices of steps that began an epoch
    step_shares: tuple[NotNegative, ...] = ()  # each step's samples, over those of a whole step; empty if all are whole
    peak_bytes: Count = 0
    diverged: bool = False  # the losses of its last steps are not finite
    steps_done: int = 0  # of the training, at its end, warm-up included; 0 in records of earlier versions
    system_seconds: NotNegative = 0.0  # CPU seconds that the operating system spent on these steps in their own thread


class Probed(Record, frozen=True, tag="probed"):
    """Answer to Probe."""

    facts: TorchFacts


class Profiled(Record, frozen=True, tag="profiled"):
    """Answer to TakeProfile."""

    profile: Profile
    conditions: TrainingConditions | None = None
    rates: Rates | None = None  # if it was to be thorough
    measuring: str = ""  # what is measured next, so that there is more to come; empty: this is all


class StepMade(Record, frozen=True, tag="step"):
    """Sent before Described: a script has made its first step, and is looked at until it has repeated one."""

    at: float  # by time.perf_counter(), a clock that all processes of a machine share


class Described(Record, frozen=True, tag="described"):
    """Answer to Describe."""

    facts: TrainingFacts
    modules: tuple[str, ...] = ()  # installed ones that the user's file imports, in order; none if that is not all


class TrainResult(Record, frozen=True, tag="trained"):
    """Answer to Train: one entry per seed."""

    metric: str  # its name
    metrics: tuple[float, ...]
    losses: tuple[float, ...]  # of the last training step
    steps: int  # optimizer steps per seed
    samples: int  # training samples seen per seed
    train_seconds: tuple[float, ...]  # evaluation excluded
    step_seconds: float | None  # median over all steps; None if none was left to make
    resumed_at: int = 0  # after how many steps a checkpoint was taken up


class Finished(Record, frozen=True, tag="finished"):
    """Answer to Finish."""

    metric: float  # mean over the points of the last part at which it was computed
    last_metric: float = 0.0  # after the last step
    points: int = 1
    loss: float | None = None  # of the training, mean over the last quarter of its steps
    first_loss: float | None = None  # of its first step
    scores: bytes = b""  # float32, of each evaluation sample, where the metric is their mean; of many, of groups


_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")

FailureKind = Literal[
    "raised", "exited", "crashed", "hung", "slow start", "memory", "busy", "invalid", "ineffective", "diverged"
]
"""Slow start: compiling took longer than it may. Busy: the GPU is for one process at a time, and has one;
or a port is that the training opens.

Records of earlier versions say "raised" where a GPU was busy.
"""


class Failure(Record, frozen=True, tag="failure"):
    """Why there is no answer. A trial may crash, hang or run out of memory: a normal result."""

    kind: FailureKind
    message: str  # one sentence for people
    traceback: str = ""  # the user's own frames
    log_tail: str = ""  # last lines that the process printed
    # Tells it from others of its kind: an error's type and text, knobs, a signal; empty if the kind says all. None in
    # records of earlier versions.
    signature: str | None = None
    lost_connection: bool = False  # to another rank, whose own failure may be the reason

    @property
    def likeness(self) -> tuple[str, str]:
        """Equal in failures that are alike."""
        return self.kind, without_numbers(self.message) if self.signature is None else self.signature


def without_numbers(text: str) -> str:
    """Return an error's text without process ids, addresses and sizes, which differ between failures that are alike."""
    return _NUMBERS.sub("#", text)


Answer = (
    Probed
    | StepMade
    | Described
    | Profiled
    | TrainResult
    | UpdatesRecorded
    | UpdatesCompared
    | Built
    | Ready
    | Turn
    | Finished
    | Failure
)
