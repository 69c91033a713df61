"""Workload: the user's file by reference, of whichever kind; TrainingFacts: what its training is, as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, ClassVar, Literal, NoReturn

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.base import Record
from autoaccel.records.bounds import Count
from autoaccel.records.seen import ScriptFacts, Seen, seen_of
from autoaccel.records.settings import Settings, Value

DEFAULT_ENTRY = "build"
"""What the function that returns a Training is called unless the user names another."""

Direction = Literal["maximize", "minimize"]


class CalledFunction(Record, frozen=True):
    """A function that returns a Training, which workers of ours call: what any has."""

    stdin: ClassVar[str] = ""
    """The file that its standard input is: it has none."""
    folder: ClassVar[str] = ""
    """The folder that it is run in: that of whoever calls it."""
    launcher: ClassVar[None] = None
    """What starts the processes that train: nothing but workers of ours."""
    served_by: ClassVar[str] = "runtime.worker"
    """The module whose main() does the tasks of a worker."""
    can_be_typed: ClassVar[bool] = True
    """Whether a command line can name it."""

    @property
    def part(self) -> str:
        """What of the file is trained: the function's name."""
        return DEFAULT_ENTRY

    @property
    def start(self) -> str:
        """What happens when it is started, as a clause in the past tense."""
        return f"{self.part}() was called"

    @property
    def however_typed(self) -> CalledFunction:
        """The same, whatever a person has typed to name it."""
        return self

    def target(self, file: str) -> list[str]:
        """Return how a command names it, given how it names the file."""
        return [file if self.part == DEFAULT_ENTRY else f"{file}:{self.part}"]

    def settable(self, arguments: Mapping[str, Value]) -> dict[str, Value]:
        """Return those of some arguments that a recipe may set: none, because what is in its sys.argv is no setting."""
        return {}

    def must_be_script(self, refusal: str) -> NoReturn:
        """Refuse it where something is for scripts only.

        Raises:
            BadRequestError: With these words.
        """
        raise BadRequestError(refusal)

    def must_be_function(self, refusal: str) -> None:
        """Accept it where something is for functions only."""


class BuildFunction(CalledFunction, frozen=True, tag="build"):
    """A function in a Python file that returns a Training."""

    path: str  # absolute
    entry: str  # its name
    sha256: str
    arguments: tuple[str, ...] = ()  # what the file sees in sys.argv[1:]

    @property
    def part(self) -> str:
        """What of the file is trained: the function's name."""
        return self.entry


class PickledFunction(CalledFunction, frozen=True, tag="pickled"):
    """A function that returns a Training, pickled by value, from a notebook or a program."""

    path: str  # absolute
    sha256: str
    arguments: tuple[str, ...] = ()  # what the function sees in sys.argv[1:]

    can_be_typed: ClassVar[bool] = False
    """Whether a command line can name it: only the program that holds the function can."""


_LAUNCHERS = frozenset({"torchrun", "accelerate"})
_LAUNCHER_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"})


class Script(Record, frozen=True, tag="script"):
    """A program that trains, as `python train.py ARGUMENT...` would run it. It need not know of autoaccel."""

    path: str  # absolute
    program: str  # its sys.argv[0]: the file as a person typed it; of a module its path
    folder: str  # that it is run in
    sha256: str
    arguments: tuple[str, ...] = ()  # its sys.argv[1:]
    module: str = ""  # as `python -m` names it; empty: a file is run
    forced: bool = False  # the file defines build(), and is to be run all the same
    stdin: str = ""  # absolute path of the file that its standard input is; empty: it has none while it is measured

    served_by: ClassVar[str] = "runtime.script.serving"
    """The module whose main() does the tasks of a worker."""
    can_be_typed: ClassVar[bool] = True
    """Whether a command line can name it."""

    @property
    def is_launcher(self) -> bool:
        """Whether it trains nothing itself, but starts processes that do."""
        return self.module in _LAUNCHER_MODULES or PurePath(self.program).name in _LAUNCHERS

    @property
    def launcher(self) -> Script | None:
        """What starts the processes that train: itself; None if it trains."""
        return self if self.is_launcher else None

    @property
    def however_typed(self) -> Script:
        """The same, whatever a person has typed to name it."""
        return msgspec.structs.replace(self, program=self.path)

    @property
    def part(self) -> str:
        """What of the file is trained: all that it does."""
        return "__main__"

    @property
    def start(self) -> str:
        """What happens when it is started, as a clause in the past tense."""
        return "it was run"

    @property
    def imports_from(self) -> str:
        """The folder in which its imports look first: that of the file, of a module the one that it is run in."""
        return self.folder if self.module else str(PurePath(self.path).parent)

    def target(self, file: str) -> list[str]:
        """Return how a command names it, given how it names the file."""
        if self.module:
            return ["-m", self.module]
        return ["--script", file] if self.forced else [file]

    def settable(self, arguments: Mapping[str, Value]) -> dict[str, Value]:
        """Return those of some arguments that a recipe may set: all, for they are those of its command line."""
        return dict(arguments)

    def must_be_script(self, refusal: str) -> Script:
        """Return it where something is for scripts only."""
        return self

    def must_be_function(self, refusal: str) -> NoReturn:
        """Refuse it where something is for functions only.

        Raises:
            BadRequestError: With these words.
        """
        raise BadRequestError(refusal)


TrainingFunction = BuildFunction | PickledFunction
"""Where a function is found that returns a Training."""

Workload = TrainingFunction | Script
"""Where the user's training is found. A reference; it never holds torch objects."""


NOT_WRITTEN = ("...",)
"""What stands in place of a training's arguments in whatever is written down: they may be tokens or passwords."""


def without_arguments(workload: Workload) -> Workload:
    """Return the workload as it is written down and shown: whether it has arguments, but not which."""
    return msgspec.structs.replace(workload, arguments=NOT_WRITTEN if workload.arguments else ())


def identity_of(workload: Workload) -> tuple[str, str, tuple[str, ...]]:
    """Return what two workloads share if they are the same training, wherever their files lie."""
    return workload.sha256, workload.part, workload.arguments


class UntypedWorkload(Record, frozen=True):
    """A workload as earlier versions wrote it: of one kind, which `pickled` told from the other."""

    path: str
    entry: str
    sha256: str
    arguments: tuple[str, ...] = ()
    pickled: bool = False

    def upgraded(self) -> Workload:
        """Return it as a workload of today."""
        if self.pickled:
            return PickledFunction(self.path, self.sha256, self.arguments)
        return BuildFunction(self.path, self.entry, self.sha256, self.arguments)


def with_workload_type(stored: Any) -> Any:
    """Return the JSON of a record that has a workload, with the workload's type if an earlier version left it out."""
    if not (isinstance(stored, dict) and isinstance(stored.get("workload"), dict) and "type" not in stored["workload"]):
        return stored
    return {**stored, "workload": msgspec.to_builtins(msgspec.convert(stored["workload"], UntypedWorkload).upgraded())}


class TrainingFacts(Record, frozen=True):
    """What a Training is, told by a child process that built it."""

    metric: str
    direction: Direction
    epochs: Count
    steps_per_epoch: Count
    batch_size: Count | None
    parameters: Count
    device: str
    settings: Settings  # those the user declared as their own
    optimizer: str
    optimizer_has_fused: bool
    has_image_convolutions: bool  # some parameter is a 4-d convolution weight
    loader_adjustable: bool  # batches come from a DataLoader that can be rebuilt with other workers
    loader_workers: Count
    loader_pins_memory: bool
    loader_fixed: str = ""  # why a DataLoader cannot be rebuilt; empty if it can, or there is none
    has_convolutions: bool = False  # of any number of dimensions
    loader_prefetch: Count = 2
    loader_persistent: bool = False
    loader_context: str = ""  # how its workers are started; empty: as Python does
    batch_adjustable: bool = False  # train_data is a dataset, so that its batches can have another size
    batches_divisible: bool = False  # every batch is a list of samples of a dataset, which ranks can share out
    dataset_bytes: Count | None = None  # if all samples were kept in memory; None if they are not the same each time
    loading_matters: str = ""  # why who loads a sample, and when, decides on its numbers; empty if it does not
    loading_redraws: bool = False
    """Whether it does so only by drawing from the generators that a process shares, which every worker seeds anew."""
    loading_bound: str = ""
    """Why samples must be loaded where and when the user's own loader does it; empty if they may be elsewhere."""
    optimizer_has_foreach: bool = False
    repeated_blocks: Count = 0  # modules of one class beside each other: what may be treated one by one
    blocks_normalise_batches: bool = False
    has_batch_statistics: bool = False  # some module normalises by the mean and deviation of its batch
    biases: Count = 0  # of convolutions and linear layers
    biases_before_norm: Count = 0  # of those that batch normalisation subtracts again
    prunable_layers: Count = 0  # convolutions and linear layers
    parameter_tensors: Count = 0  # that the parameters are in; 0: not known
    found: Settings = {}  # what the process has after build() and a first step, by knob, where that can be read off it
    own_autocast: str = ""  # the type, where the user's own code runs under autocast
    dtype: str = "float32"  # of most parameters
    shapes_change: bool = False  # batches differ in the shapes of their tensors, and not only the last of an epoch
    eval_samples: Count | None = None  # that the metric is computed from; None where that is not known
    script: ScriptFacts | None = None  # what it was seen to do, if it is a script, whose parts are not at hand

    @property
    def planned_steps(self) -> int:
        """Optimizer steps of the whole planned run."""
        return self.epochs * self.steps_per_epoch

    @property
    def most_steps(self) -> float:
        """How many steps can be made of one training, those of a measurement included."""
        return self.seen.most_steps(self.planned_steps)

    @property
    def seen(self) -> Seen:
        """What answers whatever differs between a script and what build() returns."""
        return seen_of(self.script)
