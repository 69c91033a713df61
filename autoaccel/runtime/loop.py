"""The built-in training loop: one step at a time, so that the code that measures decides when."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import IterableDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import ModelSize
from autoaccel.runtime.accelerator import default_device, mark
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import count_samples
from autoaccel.runtime.data import (
    Drawn,
    OnDevice,
    batches_of,
    count_steps,
    epochs_of,
    eval_loader,
    last_step,
    train_loader,
)
from autoaccel.runtime.dividing import Agreement, Piece
from autoaccel.runtime.losses import StepLosses
from autoaccel.runtime.metrics import Evaluated, read_metric
from autoaccel.runtime.progress import Progress
from autoaccel.runtime.randomness import random_states, restore_random_states, same_random_numbers_after, seed_all
from autoaccel.runtime.ranks import leads, mean_of_all, own_device, own_seed, world_size
from autoaccel.runtime.reached import reached_modules
from autoaccel.runtime.steps import Ahead, Step
from autoaccel.runtime.training import Training, is_dataset


def _ignore_phase(phase: str) -> None:
    """Note nothing: outside profiling, nobody asks when a phase ends."""


def device_of(training: Training) -> torch.device:
    """Return where the training runs: where it says, else on the accelerator if there is one, else on the CPU.

    One of several processes runs on the GPU that it was given, whichever the training names.
    """
    return own_device(torch.device(training.device) if training.device else default_device())


class Loop:
    """A Training under settings, ready to make steps. Epoch follows epoch without end."""

    def __init__(self, training: Training, applied: Applied, seed: int, resumed: Progress | None = None) -> None:
        """Build all that a step needs.

        Args:
            training: What is trained.
            applied: Under which settings.
            seed: Of the order of its samples.
            resumed: Where to resume; None to begin.
        """
        self.training = training
        self.loss_is_apart = training.loss is not None
        self.applied = applied
        self.device = applied.device
        self.stated = training.settings
        self.plain_model = self._place_modules(resumed)
        self._equip()
        self.model_size: ModelSize | None = None
        self.loader = train_loader(training, applied, seed)
        self.steps_per_epoch = count_steps(training, self.loader)
        self.whole_samples = self._samples_of(applied.step_samples)
        """How many samples a whole step has, on all ranks; None where batches are the user's own, of any size."""
        own_samples = self._samples_of(lambda own: own)
        self.batch_factor = self.whole_samples / own_samples if self.whole_samples and own_samples else 1.0
        """Samples of a whole step, over those of a whole step of the training's own."""
        shrinks_after = applied.shrinks_after
        self.shrinks_at: float = math.inf if shrinks_after is None else shrinks_after * self.steps_per_epoch
        """Before this step, counted from 0, the model is made smaller."""
        self.planned_steps = training.epochs * self.steps_per_epoch
        self.steps_done = resumed.steps_done if resumed else 0
        self.samples_done = resumed.samples_done if resumed else 0
        """By all ranks together."""
        self.losses = StepLosses(torch.mean, resumed.last_loss if resumed else math.nan)
        """Of this rank's pieces of the steps."""
        self._ahead = Ahead()
        self.phase_ended: Callable[[str], None] = _ignore_phase
        self._epochs_begun, self._epoch_steps, self._epoch_samples = 0, 0, 0
        if resumed is not None:
            self._find_place(resumed)
        self._batches: Iterator[Drawn] = applied.prefetch(
            epochs_of(self.loader, self.steps_per_epoch, self._epoch_steps, is_resumed=self._epoch_samples > 0)
        )
        self._agreement = Agreement()
        self._seed_apart(seed)
        if resumed is not None:
            self._resume(resumed)

    def _place_modules(self, resumed: Progress | None) -> nn.Module:
        """Move all modules to the device; return the one that is trained, with the weights that it has come to."""
        training = self.training
        model = training.model.to(self.device).train()
        for module in reached_modules([training.loss, training.step, training.evaluate]):
            module.to(self.device)
        return model if resumed is None else self.applied.restore(model, resumed.model)

    def _seed_apart(self, seed: int) -> None:
        if not leads():
            # Dropout and the like: other numbers for other samples.
            seed_all(own_seed(seed) + self.steps_done)

    def _equip(self) -> None:
        """Make what belongs to the plain model: the module to call, its optimizer, its schedule."""
        self.model = self.applied.model(self.plain_model)
        self.optimizer = self.applied.optimizer(self.training.make_optimizer(self.plain_model))
        self.scheduler = self.training.scheduler(self.optimizer) if self.training.scheduler else None

    def _resume(self, resumed: Progress) -> None:
        if resumed.has_shrunk:
            self.shrinks_at = math.inf
        self.applied.load_optimizer_state_dict(self.optimizer, resumed.optimizer)
        self.applied.load_state_dict(resumed.applied)
        # At the beginning of an epoch the schedule advances before the new optimizer object's first step.
        warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler.step\(\)` before", UserWarning)
        if self.scheduler is not None and resumed.scheduler is not None:
            self.scheduler.load_state_dict(resumed.scheduler)
        if leads():
            restore_random_states(resumed.random_states, self.device)

    @property
    def last_loss(self) -> float:
        """The loss of the last step, of this rank's pieces of it; the program waits for it."""
        return self.losses.last

    @property
    def has_diverged(self) -> bool:
        """Whether none of the last steps had a finite loss, of this rank's pieces; the program waits for them."""
        return self.losses.have_diverged

    def progress(self) -> Progress:
        """Return how far the training has come."""
        return Progress(
            steps_done=self.steps_done,
            samples_done=self.samples_done,
            place=self._place(),
            whole_samples=self.whole_samples,
            last_loss=self.last_loss,
            has_shrunk=self.applied.shrinks_after is not None and math.isinf(self.shrinks_at),
            model=self.plain_model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            scheduler=self.scheduler.state_dict() if self.scheduler else None,
            applied=self.applied.state_dict(),
            random_states=random_states(self.device),
            settings=self.applied.settings,
        )

    def _find_place(self, resumed: Progress) -> None:
        """Skip the samples that were trained on before."""
        self._epochs_begun, self._epoch_steps, self._epoch_samples = resumed.place
        if (divided := batches_of(self.loader)) is not None:
            self._epoch_steps = divided.resume_after(self._epochs_begun, self._epoch_samples)
            if resumed.whole_samples != self.whole_samples:
                if self.scheduler is not None and self.training.scheduler_interval == "step":
                    raise BadRequestError(
                        f"the checkpoint: its schedule counts steps of {resumed.whole_samples} samples, but steps "
                        f"now have {self.whole_samples}. Resume with the same batch size, or start over."
                    )
                self.steps_done = self._epochs_begun * self.steps_per_epoch + self._epoch_steps
        self._epochs_begun += self._epoch_samples > 0

    def _place(self) -> tuple[int, int, int]:
        """Return how many epochs are over, and how many steps and samples of the next one."""
        if self._epoch_steps >= self.steps_per_epoch:
            return self._epochs_begun, 0, 0
        return max(0, self._epochs_begun - 1), self._epoch_steps, self._epoch_samples

    def next_step(self) -> list[Drawn]:
        """Return the batches of the next step, without a step on them."""
        drawn = [next(self._batches)]
        while not drawn[-1].piece.ends_step:
            drawn.append(next(self._batches))
        return drawn

    def next_batch(self) -> Any:
        """Return the next batch without a step on it; if that is only a part of its step's, the others are left out."""
        return self.next_step()[0].batch

    def step(self) -> Step:
        """Make one optimizer step on the next batch, or on as many as make one.

        An accelerator may not have ended it yet: the program runs ahead, as it does in a loop of the user's own.
        """
        begin = mark(self.device)
        first = drawn = next(self._batches)
        self.phase_ended("data wait")
        if drawn.begins_epoch:
            self._epochs_begun += 1
            self._epoch_steps = self._epoch_samples = 0
            if self.steps_done:
                self._advance_schedule("epoch")
        self._agreement.check(drawn.piece.digest)
        if self.steps_done >= self.shrinks_at:
            self.shrink(drawn.batch)
        while not self.step_on(drawn.batch, drawn.piece):
            drawn = next(self._batches)
            self.phase_ended("data wait")
        self._epoch_steps += 1
        self._epoch_samples += drawn.piece.step_samples
        share = 1.0 if self.whole_samples is None else drawn.piece.step_samples / self.whole_samples
        step = Step(begin, mark(self.device), first.begins_epoch, share)
        self._ahead.add(step)
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

    def step_on(self, batch: Any, piece: Piece | None = None) -> bool:
        """Make one optimizer step on this batch; return False if it is only a part of the step's.

        Args:
            batch: As the loader gave it.
            piece: What is known of it; None if it stands for one like it on every rank.
        """
        weight = 1.0 if piece is None else piece.weight
        if piece is None:
            self.samples_done += count_samples(batch) * world_size()
        elif piece.ends_step:
            self.samples_done += piece.step_samples
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
            self.applied.zero_grad(self.optimizer)
        self.phase_ended("zero grad")
        self.losses.add(loss)
        if stepped:
            self.steps_done += 1
            self.losses.end_step(self.steps_done)
            self._advance_schedule("step")
        self.phase_ended("other")
        return stepped

    def _samples_of(self, step: Callable[[int], int]) -> int | None:
        """Return the samples of a whole step that differs so from the training's own; None if that has no one size."""
        data, own = self.training.train_data, self.training.batch_size
        if own is None or not is_dataset(data) or isinstance(data, IterableDataset):
            return None
        return min(step(own), len(data))  # type: ignore[arg-type]  # it is no function, and no stream

    def own_steps(self, steps: int) -> int:
        """Return how many of its steps see as many samples as this many of the training's own."""
        return max(1, round(steps / self.batch_factor))

    def last_step(self) -> list[tuple[Any, Piece]]:
        """Return an incomplete step's batches, such as end each epoch; none if all steps are alike."""
        return last_step(self.loader)

    def evaluate(self) -> float:
        """Return the metric of the model as it is, in evaluation mode, without gradients, under plain settings.

        Only the leader of several ranks evaluates; on the others the metric is 0.
        """
        return evaluate(self.training, self.plain_model, self.device) if leads() else 0.0

    def evaluate_samples(self) -> Evaluated:
        """Return the same with the scores of the samples, where it is their mean."""
        return evaluate_samples(self.training, self.plain_model, self.device) if leads() else Evaluated(0.0, None)

    def mean_last_loss(self) -> float:
        """Return the loss of the last step over the samples of all ranks; every rank must ask for it."""
        return mean_of_all(self.last_loss)

    def kept_losses(self) -> tuple[float, float]:
        """Return the loss of the first step and the mean of those kept, of all ranks; every rank must ask for it."""
        first, later = (mean_of_all(loss) for loss in self.losses.kept())
        return first, later

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the loss of a model on a batch that is on the device.

        Raises:
            BadRequestError: If `loss=` was given, and the batch is not (inputs..., target).
        """
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
        # Measuring may continue past the planned run, where schedules such as OneCycleLR raise an error.
        if self.scheduler and self.training.scheduler_interval == interval and self.steps_done < self.planned_steps:
            self.scheduler.step()


def evaluate(training: Training, model: nn.Module, device: torch.device) -> float:
    """Return the metric of a model that is on the device; see `evaluate_samples`."""
    return evaluate_samples(training, model, device).metric


def evaluate_samples(training: Training, model: nn.Module, device: torch.device) -> Evaluated:
    """Return the metric of a model that is on the device, with the scores of the samples where it is their mean.

    It leaves the model in training mode and the random numbers as they were: how often one looks at the metric
    must not change the training.
    """
    model.eval()
    try:
        with torch.no_grad(), same_random_numbers_after(device):
            return read_metric(training.metric.compute(model, OnDevice(eval_loader(training), device)))
    finally:
        model.train()
