"""Workload: the user's file by reference; TrainingFacts: what its build() returned, as data."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record
from autoaccel.records.settings import Settings

DEFAULT_ENTRY = "build"
"""What the function that returns a Training is called unless the user names another."""

Direction = Literal["maximize", "minimize"]


class Workload(Record, frozen=True):
    """Where the user's training is found. A reference; it never holds torch objects."""

    path: str  # absolute
    entry: str  # name of the function that returns a Training
    sha256: str
    arguments: tuple[str, ...] = ()  # what the file sees in sys.argv[1:]
    pickled: bool = False  # the file is a function pickled by value, from a notebook or a program


class TrainingFacts(Record, frozen=True):
    """What a Training is, told by a child process that built it."""

    metric: str
    direction: Direction
    epochs: int
    steps_per_epoch: int
    batch_size: int | None
    parameters: int
    device: str
    settings: Settings  # those the user declared as their own
    optimizer: str
    optimizer_has_fused: bool
    has_image_convolutions: bool  # some parameter is a 4-d convolution weight
    loader_adjustable: bool  # batches come from a DataLoader that can be rebuilt with other workers
    loader_workers: int
    loader_pins_memory: bool
    loader_fixed: str = ""  # why a DataLoader cannot be rebuilt; empty if it can, or there is none
    has_convolutions: bool = False  # of any number of dimensions
    loader_prefetch: int = 2
    loader_persistent: bool = False
    loader_context: str = ""  # how its workers are started; empty: as Python does
    batch_adjustable: bool = False  # train_data is a dataset, so that its batches can have another size
    batches_divisible: bool = False  # every batch is a list of samples of a dataset, which ranks can share out
    dataset_bytes: int | None = None  # if all samples were kept in memory; None if they are not the same each time
    loading_matters: str = ""  # why who loads a sample, and when, decides on its numbers; empty if it does not
    optimizer_has_foreach: bool = False
    repeated_blocks: int = 0  # modules of one class beside each other: what may be treated one by one
    blocks_normalise_batches: bool = False
    has_batch_statistics: bool = False  # some module normalises by the mean and deviation of its batch
    biases: int = 0  # of convolutions and linear layers
    biases_before_norm: int = 0  # of those that batch normalisation subtracts again
    prunable_layers: int = 0  # convolutions and linear layers
    found: Settings = {}  # what the process has after build() and a first step, by knob, where that can be read off it
    own_autocast: str = ""  # the type, where the user's own code runs under autocast
    dtype: str = "float32"  # of most parameters
    shapes_change: bool = False  # batches differ in the shapes of their tensors, and not only the last of an epoch
    eval_samples: int | None = None  # that the metric is computed from; None where that is not known

    @property
    def planned_steps(self) -> int:
        """Optimizer steps of the whole planned run."""
        return self.epochs * self.steps_per_epoch
