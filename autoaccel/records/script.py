"""ScriptFacts: what a training script was seen to do in its first steps, as data."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, PositiveSeconds, Seconds
from autoaccel.records.script_metric import MetricSource
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


class ScriptFacts(Record, frozen=True):
    """What a script was seen to do in its first steps, without any setting applied."""

    models: tuple[SeenModel, ...]
    optimizers: tuple[SeenOptimizer, ...]  # in the order of their first steps
    loaders: tuple[SeenLoader, ...]
    cycle: tuple[Count, ...]  # whose calls make one step, as indices of `optimizers`
    device: str  # of the parameters that are trained
    step_seconds: PositiveSeconds  # the median of those seen
    steps_seen: Count
    steps_per_epoch: Count | None  # None: no loader with a length feeds it
    planned_steps: Count | None  # None: it could not be read
    planned_from: str = ""  # what that was read from, such as "range(epochs) in train.py:48, 30 batches an epoch"
    has_loss: bool = False  # whether backward() is called on one number
    does: tuple[str, ...] = ()  # what it does already, in the user's words: "autocast to bfloat16", "seeds torch"
    backwards: Count = 1  # calls of backward() in a step
    parsed: dict[str, str] = {}  # numbers and words that its argument parser has found, by name with dashes
    arguments: tuple[ScriptArgument, ...] = ()  # that are tuned
    metric: MetricSource | None = None  # where it says how good its model is; None: its training loss does
    evaluations: Count = 0  # steps, of those seen, beside an evaluation or a checkpoint: they are not measured
    seen_seconds: Seconds = 0.0  # that the steps seen took, with what lay between them
    other_seconds: Seconds = 0.0  # of them, beside training: an evaluation, a checkpoint, a rollout
    growth: Annotated[float, Meta(ge=1, le=1e9)] = 1.0  # of the time of a step over those seen, the last over the first
    others: tuple[OtherTraining, ...] = ()
    writes: tuple[str, ...] = ()  # what it made or wrote outside of its working folder
    in_place: bool = False  # whether its trials work in its own folder instead of a copy
    updates_itself: bool = False  # whether it makes its updates by hand, without an optimizer of torch's
    ranks: Count = 1  # processes that train together, started by its launcher
    calls_models: bool = True  # whether it calls modules to train them; some call only their forward()

    @property
    def loader(self) -> SeenLoader | None:
        """The loader whose batches are trained on; None if there is none, or several."""
        feeding = [loader for loader in self.loaders if loader.feeds]
        return feeding[0] if len(feeding) == 1 else None
