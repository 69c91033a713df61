"""Standard metrics, by name, and what any metric finds. Each takes (model, loader) like one of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from autoaccel.errors import BadRequestError


class Metric(NamedTuple):
    """A number that says how good a model is, and which way is better.

    `compute` returns it, or a one-dimensional tensor with a score for each sample, whose mean it is.
    """

    name: str
    direction: Literal["maximize", "minimize"]
    compute: Callable[[nn.Module, Any], float | torch.Tensor]


class Evaluated(NamedTuple):
    """A metric, and the scores of the samples whose mean it is; None where it is not known to be a mean."""

    metric: float
    scores: torch.Tensor | None  # (N,), float64, on the CPU


def read_metric(found: float | torch.Tensor) -> Evaluated:
    """Return what a metric's `compute` has found.

    Raises:
        BadRequestError: If it is neither a number nor a score for each sample.
    """
    if not isinstance(found, torch.Tensor) or found.numel() == 1:
        return Evaluated(float(found), None)
    if found.dim() != 1 or not len(found):
        raise BadRequestError(
            "Training: evaluate must return a number, or a one-dimensional tensor with a score for each sample, got a "
            f"tensor of shape {tuple(found.shape)}."
        )
    scores = found.detach().double().cpu()
    return Evaluated(float(scores.mean()), scores)


def _mean_over_samples(
    score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[nn.Module, Any], float | torch.Tensor]:
    """Return a metric that averages a score over all (inputs..., target) batches of a loader."""

    def compute(model: nn.Module, loader: Any) -> float | torch.Tensor:
        found: list[torch.Tensor] = []  # of each batch its samples' means
        lengths: list[int] = []  # numbers of each of them
        for *inputs, target in loader:
            scores = score(model(*inputs), target).detach()
            rows = scores.reshape(len(scores) if scores.dim() else 1, -1).float()
            found.append(rows.mean(dim=1).cpu().double())
            lengths.append(rows.shape[1])
        if not found:
            return 0.0
        if len(set(lengths)) == 1:
            return torch.cat(found)
        # Samples of several lengths: their numbers count alike, so that the metric is no mean over samples.
        total = math.fsum(length * float(rows.sum()) for rows, length in zip(found, lengths, strict=True))
        return total / sum(length * len(rows) for rows, length in zip(found, lengths, strict=True))

    return compute


def _hits(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return output.argmax(dim=1) == target


def _squared(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target.reshape(output.shape)) ** 2


def _absolute(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target.reshape(output.shape)).abs()


def _cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(output, target, reduction="none")


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", "maximize", _mean_over_samples(_hits)),
    "cross_entropy": Metric("cross_entropy", "minimize", _mean_over_samples(_cross_entropy)),
    "mse": Metric("mse", "minimize", _mean_over_samples(_squared)),
    "mae": Metric("mae", "minimize", _mean_over_samples(_absolute)),
}
"""Standard metrics by the name that `Training(evaluate=...)` takes. Outputs are (N, classes) or (N, ...)."""
