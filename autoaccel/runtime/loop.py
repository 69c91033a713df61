"""The built-in training loop: one step at a time, so that whoever measures decides when."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from autoaccel.errors import BadRequestError
from autoaccel.records.trial import ModelSize
from autoaccel.runtime import ranks
from autoaccel.runtime.accelerator import Mark, default_device, mark, same_random_numbers_after, seconds_between
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import count_samples
from autoaccel.runtime.data import count_steps, epochs_of, eval_loader, last_batch, train_loader, without_done
from autoaccel.runtime.sharding import ShardedBatches
from autoaccel.runtime.training import Training

_MOST_AHEAD = 4
"""Steps that the program may be ahead of an accelerator: enough for it never to wait for the program between steps. A
program that nothing holds back queues a thousand operators, and a turn would last as long as these take."""


class Step:
    """One optimizer step: how long it took, loader wait included, and whether it began an epoch."""

    def __init__(self, begin: Mark, end: Mark, begins_epoch: bool) -> None:
        self.begins_epoch = begins_epoch
        self._marks: tuple[Mark, Mark] | None = (begin, end)
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """How long it took; on an accelerator the program waits for its end, so ask after as many steps as possible."""
        if self._marks is not None:
            self._seconds = seconds_between(*self._marks)
            self._marks = None
        return self._seconds


class Progress(NamedTuple):
    """How far a training has come: all that is needed to go on with it."""

    steps_done: int
    samples_done: int
    last_loss: float
    has_shrunk: bool
    model: dict[str, Any]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] | None
    random_state: torch.Tensor  # of torch's generator


def _ignore_phase(phase: str) -> None:
    """Note nothing: outside profiling, nobody asks when a phase ends."""


def device_of(training: Training) -> torch.device:
    """Return where the training runs: where it says, else on the accelerator if there is one, else on the CPU.

    Of several ranks each runs on the GPU that it was given, whichever of them the training names.
    """
    device = torch.device(training.device) if training.device else default_device()
    return torch.device(device.type) if ranks.is_joined() else device


class Loop:
    """A Training under settings, ready to make steps. Epoch follows epoch without end."""

    def __init__(self, training: Training, applied: Applied, seed: int, resumed: Progress | None = None) -> None:
        """Build all that a step needs.

        Args:
            training: What is trained.
            applied: Under which settings.
            seed: Of the order of its samples.
            resumed: Where to go on; None to begin.
        """
        self.training = training
        self.applied = applied
        self.device = applied.device
        self.plain_model = training.model.to(self.device).train()
        if resumed is not None:
            self.plain_model = applied.restore(self.plain_model, resumed.model)
        self._equip()
        self.model_size: ModelSize | None = None
        self.loader = train_loader(training, applied, seed)
        self.steps_per_epoch = max(1, count_steps(training, self.loader) // applied.parts)
        each_epoch = self.steps_per_epoch * applied.parts
        done = resumed.steps_done * applied.parts if resumed else 0
        self.loader = without_done(self.loader, each_epoch, done) if done else self.loader
        batches = getattr(self.loader, "batch_sampler", None)
        self._weights: deque[float] = batches.weights if isinstance(batches, ShardedBatches) else deque()
        shrinks_after = applied.shrinks_after
        self.shrinks_at: float = math.inf if shrinks_after is None else shrinks_after * self.steps_per_epoch
        """Before this step, counted from 0, the model is made smaller."""
        self.planned_steps = training.epochs * self.steps_per_epoch
        self.steps_done = resumed.steps_done if resumed else 0
        self.samples_done = resumed.samples_done if resumed else 0
        self._last_loss: float | torch.Tensor = resumed.last_loss if resumed else math.nan
        self._ahead: deque[Step] = deque()  # that the accelerator may not have ended
        self.phase_ended: Callable[[str], None] = _ignore_phase
        self._batches: Iterator[tuple[bool, Any]] = applied.ahead(epochs_of(self.loader, each_epoch, done % each_epoch))
        if not ranks.leads():
            # Dropout and the like: other numbers for other samples.
            torch.manual_seed(seed + ranks.SEEDS_APART * ranks.rank() + self.steps_done)
        if resumed is not None:
            self._resume(resumed)

    def _equip(self) -> None:
        """Make what belongs to the plain model: the module to call, its optimizer, its schedule."""
        self.model = self.applied.model(self.plain_model)
        self.optimizer = self.applied.optimizer(self.training.make_optimizer(self.plain_model))
        self.scheduler = self.training.scheduler(self.optimizer) if self.training.scheduler else None

    def _resume(self, resumed: Progress) -> None:
        if resumed.has_shrunk:
            self.shrinks_at = math.inf
        self.optimizer.load_state_dict(resumed.optimizer)
        # At the beginning of an epoch the schedule advances before the new optimizer object's first step.
        warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler.step\(\)` before", UserWarning)
        if self.scheduler is not None and resumed.scheduler is not None:
            self.scheduler.load_state_dict(resumed.scheduler)
        if ranks.leads():
            torch.set_rng_state(resumed.random_state)

    @property
    def last_loss(self) -> float:
        """The loss of the last batch; the program waits for it."""
        return float(self._last_loss)

    def progress(self) -> Progress:
        """Return how far the training has come."""
        return Progress(
            steps_done=self.steps_done,
            samples_done=self.samples_done,
            last_loss=self.last_loss,
            has_shrunk=self.applied.shrinks_after is not None and math.isinf(self.shrinks_at),
            model=self.plain_model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            scheduler=self.scheduler.state_dict() if self.scheduler else None,
            random_state=torch.get_rng_state(),
        )

    def next_batch(self) -> Any:
        """Return the next batch without a step on it."""
        return next(self._batches)[1]

    def step(self) -> Step:
        """Make one optimizer step on the next batch, or on as many as make one.

        An accelerator may not have ended it yet: the program runs ahead, as it does in a loop of the user's own.
        """
        begin = mark(self.device)
        begins_epoch, batch = next(self._batches)
        self.phase_ended("data wait")
        if begins_epoch and self.steps_done:
            self._advance_schedule("epoch")
        if self.steps_done >= self.shrinks_at:
            self.shrink(batch)
        while not self.step_on(batch, self._next_weight()):
            _, batch = next(self._batches)
            self.phase_ended("data wait")
        step = Step(begin, mark(self.device), begins_epoch)
        self._ahead.append(step)
        if len(self._ahead) > _MOST_AHEAD:
            _ = self._ahead.popleft().seconds
        return step

    def shrink(self, batch: Any) -> None:
        """Make the model smaller as the settings say, and begin with a new optimizer where the schedule stands."""
        self.shrinks_at = math.inf
        batch = Applied({}, self.device).batch(batch)

        def loss_of(model: nn.Module) -> torch.Tensor:
            return self.loss(model, batch)

        self.plain_model, self.model_size = self.applied.shrink(self.plain_model, loss_of)
        self._equip()
        if self.scheduler is not None:
            by_step = self.training.scheduler_interval == "step"
            done = self.steps_done if by_step else self.steps_done // self.steps_per_epoch
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that no step of the new optimizer came first
                for _ in range(done):
                    self.scheduler.step()

    def _next_weight(self) -> float:
        return self._weights.popleft() if self._weights else 1.0

    def step_on(self, batch: Any, weight: float = 1.0) -> bool:
        """Make one optimizer step on this batch; return False if it is only a part of the step's.

        Args:
            batch: As the loader gave it.
            weight: Of its loss; see `ShardedBatches`.
        """
        self.samples_done += count_samples(batch)
        batch = self.applied.batch(batch)
        self.phase_ended("host to device")
        with self.applied.forward():
            loss = self.loss(self.model, batch)
            if weight != 1.0:
                loss = loss * weight
        self.phase_ended("loss")
        self.applied.backward(loss)
        self.phase_ended("backward")
        if self.training.clip is not None and self.applied.unscale(self.optimizer):
            self.training.clip.apply(self.plain_model.parameters())
        stepped = self.applied.update(self.optimizer)
        self.phase_ended("optimizer")
        if stepped:
            self.applied.clear(self.optimizer)
        self.phase_ended("zero grad")
        # Not its number, for which the program would wait; a copy, because a CUDA graph writes over its outputs.
        self._last_loss = loss.detach().clone()
        if stepped:
            self.steps_done += 1
            self._advance_schedule("step")
        self.phase_ended("other")
        return stepped

    def own_steps(self, steps: int | None) -> int | None:
        """Return how many of its steps see as many samples as this many of the training's own; None for None."""
        return None if steps is None else max(1, round(steps / self.applied.batch_factor))

    def last_batch(self) -> Any | None:
        """Return an incomplete batch such as the one that ends each epoch, or None if all batches are alike."""
        return last_batch(self.loader)

    def evaluate(self) -> float:
        """Return the metric of the model as it is, in evaluation mode, without gradients, under plain settings.

        Only the leader of several ranks evaluates; on the others the metric is 0.
        """
        return evaluate(self.training, self.plain_model, self.device) if ranks.leads() else 0.0

    def mean_last_loss(self) -> float:
        """Return the loss of the last step over the samples of all ranks; every rank must ask for it."""
        return ranks.total(self.last_loss) / ranks.world_size()

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the loss of a model on a batch that is on the device."""
        if self.training.step is not None:
            return self.training.step(model, batch)
        assert self.training.loss is not None  # Training holds exactly one of the two
        if not (isinstance(batch, (tuple, list)) and len(batch) >= 2):
            raise BadRequestError(
                f"Training: with loss=, a batch must be (inputs, target), got {type(batch).__name__}. "
                "Give step=callable(model, batch) -> loss instead."
            )
        *inputs, target = batch
        outputs = model(*inputs)
        self.phase_ended("forward")
        return self.training.loss(outputs, target)

    def _advance_schedule(self, interval: str) -> None:
        # Measuring may go on past the planned run, where schedules such as OneCycleLR refuse to go.
        if self.scheduler and self.training.scheduler_interval == interval and self.steps_done < self.planned_steps:
            self.scheduler.step()


class OnDevice:
    """A loader whose batches arrive on a device."""

    def __init__(self, loader: Iterable[Any], device: torch.device) -> None:
        self.loader = loader
        self.place = Applied({}, device).batch

    def __iter__(self) -> Iterator[Any]:
        return (self.place(batch) for batch in self.loader)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]  # asked only of what has a length


def evaluate(training: Training, model: nn.Module, device: torch.device) -> float:
    """Return the metric of a model that is on the device.

    It leaves the model in training mode and the random numbers as they were: how often one looks at the metric
    must not change the training.
    """
    model.eval()
    try:
        with torch.no_grad(), same_random_numbers_after(device):
            return float(training.metric.compute(model, OnDevice(eval_loader(training), device)))
    finally:
        model.train()
