"""TrainingConditions: under what a training runs, besides settings. MachineConditions: what else the computer does."""

from __future__ import annotations

import msgspec

from autoaccel.records.base import Record


class Part(Record, frozen=True):
    """Something that loading a sample consists of, and its share of the time that takes."""

    name: str
    share: float


class Samples(Record, frozen=True):
    """What it costs to load one sample in this process."""

    seconds: float  # mean
    busy_seconds: float  # of these not asleep: computing, or waiting for a core that others use
    bytes: int
    collate_seconds: float | None  # to make a batch of samples that are loaded; None if the loader makes none
    handover_seconds: float | None  # to hand a batch from one process to another
    parts: tuple[Part, ...]  # slowest first


class Evaluation(Record, frozen=True):
    """What evaluating costs, from its first batches."""

    seconds: float  # projected for all batches
    batches: int  # measured
    has_gradients: bool  # the model was called with gradients enabled
    seconds_without_gradients: float | None = None  # projected; None if it had none or fails without


class Switched(Record, frozen=True):
    """Step times as they are and with something switched off, measured in turns."""

    step_seconds: float  # median
    min_step_seconds: float = msgspec.field(name="least_step_seconds")  # lower quartile
    without_seconds: float  # median
    min_without_seconds: float = msgspec.field(name="least_without_seconds")  # lower quartile

    @property
    def bound_speedup(self) -> float:
        """What switching it off could win at most: a step without may always be one of the quicker ones."""
        return self.step_seconds / self.min_without_seconds

    @property
    def wins_half(self) -> bool:
        """Whether at least half of the bound is won, even if a step as it is were always one of the quicker ones."""
        return self.min_step_seconds / self.without_seconds - 1 >= (self.bound_speedup - 1) / 2


class Alone(Record, frozen=True):
    """What a step on a batch that is there takes while loader workers are stopped."""

    step_seconds: float  # median
    min_seconds: float = msgspec.field(name="least_seconds")  # lower quartile


class LargerBatch(Record, frozen=True):
    """What a step takes on one batch and on a larger one made of several, without loading them."""

    step_seconds: float
    larger_seconds: float
    factor: float  # samples of the larger batch over those of the usual one


class Loader(Record, frozen=True):
    """The loader of training batches, where it is a DataLoader."""

    workers: int
    pins_memory: bool
    persistent: bool
    prefetch: int


class Model(Record, frozen=True):
    """What the model is made of, as far as speed depends on it."""

    dtypes: dict[str, float]  # dtype -> share of the parameters
    has_data_parallel: bool
    channels_last: bool  # some convolution's weights are
    convolution_share: float  # of the parameters
    odd_share: float  # of the parameters of linear layers and convolutions: a size is no multiple of 8
    denormal_share: float  # of parameters and gradients
    parameter_tensors: int
    graph_breaks: int = 0
    graphs: int = 0


class Optimizer(Record, frozen=True):
    """How the optimizer goes over its parameters."""

    kind: str  # name of its class
    fused: bool
    foreach: bool


class TrainingConditions(Record, frozen=True):
    """Facts gathered in the process that makes the steps, after some of them."""

    date: str  # today, ISO 8601
    environment: dict[str, str]  # of those variables that slow a training down; see runtime/conditions.py
    batch_samples: float
    batch_bytes: int
    batch_dtypes: tuple[str, ...]
    device: str
    threads: int  # intra-op
    torch_version: str
    anomaly_mode: bool
    deterministic: bool
    fills_memory: bool  # uninitialised memory is filled, as deterministic algorithms do by default
    profilers: tuple[str, ...]  # that were on before any of ours
    autocast: bool  # the model is called under it
    flushes_denormals: bool
    gradients: bool  # recorded while the model is trained
    float32_matmul: str  # precision: "highest", "high" or "medium"
    cuda_available: bool
    model: Model
    optimizer: Optimizer
    loader: Loader | None = None
    samples: Samples | None = None
    evaluation: Evaluation | None = None
    larger_batch: LargerBatch | None = msgspec.field(name="scaling", default=None)
    switched: dict[str, Switched] = {}  # "anomaly", "deterministic", "profilers", "threads": steps with and without
    alone: Alone | None = None


class MachineConditions(Record, frozen=True):
    """What the computer does besides, and how it is set."""

    governor: str | None  # of the clock; None where the kernel does not tell
    clock_driver: str | None
    clock_share: float | None  # of the highest clock, under load
    turbo: bool | None
    swap_used_bytes: int
    swapped_bytes_per_second: float
    available_bytes: int
    busy_share: float  # of the cores, before anything was started here
    stolen_share: float
    throttled_periods: int  # in which a quota stopped this container, so far
    gpu_throttling: tuple[str, ...]  # one sentence each
