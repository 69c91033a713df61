"""A training that build() returns, trained to its end in this process under the user's own settings."""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.records.messages import Failure, Train, TrainResult
from autoaccel.records.workload import TrainingFunction
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loading import build_training, load_build
from autoaccel.runtime.loop import Loop, device_of
from autoaccel.runtime.progress import Progress
from autoaccel.runtime.trainings import train


def train_whole(workload: TrainingFunction, seed: int, made: Callable[[Loop], None]) -> TrainResult | Failure:
    """Train the planned run, with a line per epoch; return what came of it.

    Args:
        workload: What is trained.
        seed: Of build(), and of the order of its samples.
        made: Told of what trains, before its first step.

    Raises:
        AutoaccelError: If build() returns anything but a Training.
        BaseException: Whatever the user's code raises.
    """
    build = load_build(workload)

    def start(seed: int, resumed: Progress | None) -> Loop:
        training = build_training(build, workload, seed)
        loop = Loop(training, Applied(training.settings, device_of(training)), seed, resumed)
        made(loop)
        return loop

    return train(Train(seeds=(seed,), announce=True), start)
