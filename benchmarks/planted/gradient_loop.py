"""Planted: gradients are clipped one by one, with a number read for each."""

import torch
from torch import nn

import autoaccel


def clip_each(parameters: list[nn.Parameter]) -> None:
    """Scale all gradients so that their norm is at most 1."""
    total = 0.0
    for parameter in parameters:
        total += parameter.grad.norm().item() ** 2
    if total > 1:
        for parameter in parameters:
            parameter.grad.mul_(total**-0.5)


def clip_together(parameters: list[nn.Parameter]) -> None:
    """Do the same in a few operators."""
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)


def training(clip) -> autoaccel.Training:
    inputs = torch.randn(2048, 16, generator=torch.Generator().manual_seed(0))
    batches = list(zip(inputs.split(64), (inputs.sum(dim=1) > 0).long().split(64), strict=True))
    layers = [layer for _ in range(40) for layer in (nn.Linear(16, 16), nn.ReLU())]

    def optimizer(parameters) -> torch.optim.Optimizer:
        parameters = list(parameters)
        made = torch.optim.SGD(parameters, lr=0.01, fused=True)
        made.register_step_pre_hook(lambda *arguments: clip(parameters))
        return made

    return autoaccel.Training(
        model=nn.Sequential(*layers, nn.Linear(16, 2)), train_data=lambda: batches, eval_data=lambda: batches,
        epochs=5, loss=nn.CrossEntropyLoss(), optimizer=optimizer, evaluate="accuracy",
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(clip_each)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(clip_together)
