"""Training: what the user's build() returns. It says what is trained; how fast is autoaccel's business."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings, Value
from autoaccel.runtime.clipping import Clip
from autoaccel.runtime.metrics import METRICS, Metric
from autoaccel.units import excerpt

_LOSSES = {"cer", "entropy", "err", "error", "fid", "loss", "mae", "mse", "nll", "perplexity", "ppl", "rmse", "wer"}
"""Words in the names of numbers that are better when smaller."""

_MOST = 1 << 40  # epochs, or samples of a batch

LoaderFactory = Callable[[], Iterable[Any]]


@dataclass(frozen=True)
class Training:
    """A model and how it is trained.

    What is moved to the device: the model; each batch; and every module that `loss`, `step` or `evaluate` is, holds (as
    a partial, or as an attribute of a method's object) or names, such as a loss with class weights or a teacher.
    Tensors that your functions hold besides stay where they are.

    Attributes:
        model: The module to train.
        train_data: A dataset, an iterable dataset, or a function without arguments that returns a ready loader.
        eval_data: The same, for the metric.
        optimizer: Given the model's parameters, returns a torch optimizer. If its argument is called
            `named_parameters`, it is given pairs of name and parameter instead; if it is called `model`, the model.
        evaluate: `callable(model, loader) -> float`, called in evaluation mode without gradients; or the name of
            a standard metric: "accuracy", "cross_entropy", "mse", "mae". Where the metric is the mean of a score of
            each sample, return these as a one-dimensional tensor instead: fewer runs then tell whether it drops.
        epochs: Passes over the training data in the planned run, at least 1.
        batch_size: Samples per step. Not needed where `train_data` returns ready loaders.
        loss: `callable(output, target) -> scalar tensor`, for batches that are (inputs, target) pairs, or
            (several inputs, target) tuples.
        step: Instead of `loss`: `callable(model, batch) -> scalar loss tensor`, for any other batch or objective.
        clip: The limit of the gradients of each step, such as `Clip(norm=1.0)`.
        scheduler: Given the optimizer, returns a learning-rate scheduler.
        scheduler_interval: Whether the scheduler advances after each "epoch" or each "step".
        direction: Whether `evaluate`'s number is better when larger ("maximize") or smaller ("minimize"). Known for
            standard metrics, "maximize" for a callable unless stated; it must be stated for one whose name is that of
            a loss or an error, such as `val_loss`.
        shuffle: Whether the training data is drawn in a new random order each epoch (map-style datasets).
        drop_last: Whether an incomplete last batch is left out.
        collate_fn: How samples become a batch; torch's default if None.
        steps_per_epoch: Steps of one epoch, needed where the data has no length.
        settings: Knobs that your own runs already use, such as {"loader.workers": 4}: the baseline, together with all
            that your file itself sets in its process (thread counts, flags of torch).
        device: Where to train, such as "cuda:1"; the accelerator if there is one, else the CPU.
    """

    model: nn.Module
    train_data: Dataset[Any] | LoaderFactory
    eval_data: Dataset[Any] | LoaderFactory
    optimizer: Callable[[Any], torch.optim.Optimizer]
    evaluate: Callable[[nn.Module, Any], float | torch.Tensor] | str
    epochs: int
    batch_size: int | None = None
    loss: Callable[[Any, Any], torch.Tensor] | None = None
    step: Callable[[nn.Module, Any], torch.Tensor] | None = None
    clip: Clip | None = None
    scheduler: Callable[[torch.optim.Optimizer], LRScheduler] | None = None
    scheduler_interval: Literal["epoch", "step"] = "epoch"
    direction: Literal["maximize", "minimize"] | None = None
    shuffle: bool = True
    drop_last: bool = False
    collate_fn: Callable[[list[Any]], Any] | None = None
    steps_per_epoch: int | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)
    device: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be trained.

        Raises:
            BadRequestError: Naming the argument, what must hold and what was found.
        """
        _require(isinstance(self.model, nn.Module), "model must be a torch.nn.Module", self.model)
        _require(callable(self.optimizer), "optimizer must be a function of the parameters, such as "
                 "lambda params: torch.optim.Adam(params, lr=1e-3)", self.optimizer)  # fmt: skip
        _optimizer_input(self.optimizer)
        _require(self.clip is None or isinstance(self.clip, Clip), "clip must be an autoaccel.Clip, such as "
                 "Clip(norm=1.0)", self.clip)  # fmt: skip
        whole = isinstance(self.epochs, int) and not isinstance(self.epochs, bool)
        _require(whole and 1 <= self.epochs <= _MOST, "epochs must be a whole number, at least 1", self.epochs)
        if (self.loss is None) == (self.step is None):
            given = "neither" if self.loss is None else "both"
            raise BadRequestError(
                f"Training: exactly one of loss(output, target) and step(model, batch) must be given, got {given}."
            )
        if isinstance(self.evaluate, str):
            _require(self.evaluate in METRICS, f"evaluate must be a callable(model, loader) or one of "
                     f"{', '.join(METRICS)}", self.evaluate)  # fmt: skip
            known = METRICS[self.evaluate].direction
            _require(
                self.direction in (None, known),
                f"direction of {self.evaluate!r} is {known!r}",
                self.direction,
            )
        else:
            _require(callable(self.evaluate), "evaluate must be a callable(model, loader) -> float", self.evaluate)
            _require(self.direction in (None, "maximize", "minimize"), "direction must be 'maximize' or 'minimize'",
                     self.direction)  # fmt: skip
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", self._evaluate_name)}
            if self.direction is None and words & _LOSSES:
                raise BadRequestError(
                    f"Training: evaluate is {self._evaluate_name}, which reads like a number that is better when "
                    'smaller; give direction="minimize", or direction="maximize" if larger is better.'
                )
        for name in ("train_data", "eval_data"):
            data = getattr(self, name)
            if isinstance(data, DataLoader):
                raise BadRequestError(
                    f"Training: {name} is a loader; give its dataset, or a function that returns the loader "
                    f"({name}=lambda: loader), because each trial needs a fresh one."
                )
            _require(is_dataset(data) or callable(data), f"{name} must be a dataset or a function that returns a "
                     "loader", data)  # fmt: skip
            if is_dataset(data) and self.batch_size is None:
                raise BadRequestError(f"Training: batch_size must be given, because {name} is a dataset.")
        _require(self.batch_size is None or (isinstance(self.batch_size, int) and 1 <= self.batch_size <= _MOST),
                 "batch_size must be a whole number, at least 1", self.batch_size)  # fmt: skip
        _require(isinstance(self.settings, Mapping), "settings must be a mapping of knob to value", self.settings)
        try:
            msgspec.convert(dict(self.settings), Settings)
        except msgspec.ValidationError as error:
            raise BadRequestError(
                f"Training: settings must name knobs, each with a number, a word or a switch: {error}."
            ) from error

    @property
    def metric(self) -> Metric:
        """The metric: its name, its direction and the function that computes it."""
        if isinstance(self.evaluate, str):
            return METRICS[self.evaluate]
        name = self._evaluate_name
        said = "metric" if name in ("<lambda>", "evaluate") else name  # which do not say what is measured
        return Metric(said, self.direction or "maximize", self.evaluate)

    @property
    def _evaluate_name(self) -> str:
        function = self.evaluate
        while isinstance(function, functools.partial):
            function = function.func
        return str(getattr(function, "__name__", type(function).__name__))

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer of a model, which is this training's own or one made from it."""
        # Lists: who makes two groups of them goes through them twice.
        inputs = {"model": model, "named_parameters": list(model.named_parameters())}
        return self.optimizer(inputs.get(_optimizer_input(self.optimizer), list(model.parameters())))


def _optimizer_input(optimizer: Callable[[Any], torch.optim.Optimizer]) -> str:
    """Return what the function calls its argument; empty if that is not known.

    Raises:
        BadRequestError: If it needs several.
    """
    try:
        known = inspect.signature(optimizer).parameters.values()
    except (TypeError, ValueError):  # not written in Python
        return ""
    needed = [
        one.name for one in known if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if len(needed) > 1:
        raise BadRequestError(
            "Training: optimizer must be a function of one argument: the parameters, `named_parameters` or `model`; "
            f"got one of {', '.join(needed)}. Give the others in a lambda: lambda params: make(params, ...)."
        )
    return needed[0] if needed else next((one.name for one in known), "")


def is_dataset(data: object) -> bool:
    """Whether this is a dataset, map-style or iterable, rather than a function that returns a loader."""
    if isinstance(data, type):  # such as `list`, which has these methods for its objects
        return False
    return isinstance(data, Dataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__"))


def _require(holds: bool, rule: str, found: object) -> None:
    if not holds:
        shown = found if isinstance(found, (int, float, str, type(None))) else type(found).__name__
        raise BadRequestError(f"Training: {rule}, got {excerpt(repr(shown))}.")


def check_training(found: object, entry: str) -> Training:
    """Return what a function returned, if it is a Training.

    Args:
        found: What it returned.
        entry: The function's name.

    Raises:
        BadRequestError: If it is anything else.
    """
    if isinstance(found, Training):
        return found
    kind = "a class, not an instance" if inspect.isclass(found) else type(found).__name__
    raise BadRequestError(
        f"{entry}() must return an autoaccel.Training, got {kind}. "
        "Return autoaccel.Training(model=..., train_data=..., ...); see the examples."
    )
