"""Standard metrics, by name. Each takes (model, loader) like a metric of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Metric(NamedTuple):
    """A number that says how good a model is, and which way is better."""

    name: str
    direction: Literal["maximize", "minimize"]
    compute: Callable[[nn.Module, Any], float]


def _mean_over_samples(
    score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[nn.Module, Any], float]:
    """Return a metric that averages a per-sample score over all (inputs..., target) batches of a loader."""

    def compute(model: nn.Module, loader: Any) -> float:
        total, count = 0.0, 0
        for *inputs, target in loader:
            scores = score(model(*inputs), target)
            total += float(scores.double().sum())
            count += scores.numel()
        return total / max(count, 1)

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
