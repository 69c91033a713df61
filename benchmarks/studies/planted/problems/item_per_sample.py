"""Planted: a running mean of the loss is kept by reading one number per sample out of a tensor."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import autoaccel

SEEN = {"loss": 0.0, "samples": 0}


def read_each(losses: torch.Tensor) -> None:
    for loss in losses.detach():
        SEEN["loss"] += loss.item()
        SEEN["samples"] += 1


def read_once(losses: torch.Tensor) -> None:
    SEEN["loss"] += losses.detach().sum().item()
    SEEN["samples"] += len(losses)


def training(note) -> autoaccel.Training:
    inputs = torch.randn(16384, 16, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())

    def batches():
        return [tuple(tensor[start : start + 1024] for tensor in data.tensors) for start in range(0, 16384, 1024)]

    def step(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        losses = functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
        note(losses)
        return losses.mean()

    return autoaccel.Training(
        model=nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)), train_data=batches, eval_data=batches,
        epochs=5, step=step, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01), evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(read_each)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(read_once)
