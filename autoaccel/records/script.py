"""What a training script is seen to have: models, optimizers, loaders, other trainings, arguments; as data."""

from __future__ import annotations

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count
from autoaccel.records.settings import Value


class SeenModel(Record, frozen=True):
    """A module that the script itself calls with gradients: no other module calls it."""

    kind: str  # its class
    parameters: int
    trained: int  # of them, those that its optimizers update
    where: str  # "train.py:31", where it was constructed
    held_as: tuple[str, ...] | None = None  # what holds it there, such as "model"; None: that function has ended


BY_HAND = "updates by hand"
"""What takes the place of an optimizer's class where a script makes its updates itself."""


class SeenOptimizer(Record, frozen=True):
    """An optimizer that made steps."""

    kind: str  # its class, or BY_HAND
    parameters: int  # 0: not known
    where: str


class LoaderKey(Record, frozen=True):
    """What tells the loaders of one script apart, in this process and in the next one."""

    dataset: str  # its class
    samples: int | None  # None: it has no length
    batch_size: int | None  # None: a batch sampler of the user's own decides, or nothing is batched
    sampler: str  # its class, or that of the batch sampler


class SeenLoader(Record, frozen=True):
    """A torch DataLoader that the script drew batches from."""

    key: LoaderKey
    where: str
    batches: Count | None  # of an epoch; None: it has no length
    feeds: bool  # whether its batches are trained on; the others are evaluated on
    workers: Count = 0
    pins_memory: bool = False
    prefetch: Count = 2
    persistent: bool = False
    context: str = ""  # how its workers are started; empty: as Python does
    fixed: str = ""  # why its arguments must stay; empty if they may change


class OtherTraining(Record, frozen=True):
    """Steps that a script makes in another training than the one that is looked at."""

    comes_first: bool  # before the one that is looked at
    optimizers: str  # their classes; empty if it was not seen
    steps: Count | None  # None: that is not known
    where: str  # "train.py:31"


NOT_GIVEN = "(not given)"
"""The value of an argument that a script is run without."""


class ScriptArgument(Record, frozen=True):
    """An argument of the script's own command line that a person wants tuned."""

    name: str  # as they have typed it, such as "batch-size"
    values: tuple[Value, ...]  # the script's own first, then the others to try; of a flag whether it is there


DOUBLE_BACKWARD = "differentiates its gradients"
"""What a script does that asks for gradients with a graph of their own, as a gradient penalty does."""
