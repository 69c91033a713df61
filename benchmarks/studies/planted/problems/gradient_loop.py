"""Planted: gradients are clipped one by one, with a number read for each."""

import torch
from torch import nn

import autoaccel


def clip_each(parameters: list[nn.Parameter]) -> None:
    """Scale all gradients so that their norm is at most 0.001."""
    total = 0.0
    for parameter in parameters:
        total += parameter.grad.norm().item() ** 2
    if total > 1e-6:
        for parameter in parameters:
            parameter.grad.mul_(1e-3 * total**-0.5)


def clip_together(parameters: list[nn.Parameter]) -> None:
    """Do the same in a few operators."""
    torch.nn.utils.clip_grad_norm_(parameters, 1e-3, foreach=True)


class Mixture(nn.Module):
    """A product with the mean of many small matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(torch.eye(16) * scale for scale in torch.rand(200))
        self.head = nn.Linear(16, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(inputs @ torch.stack(list(self.matrices)).mean(dim=0))


def training(clip) -> autoaccel.Training:
    inputs = torch.randn(2048, 16, generator=torch.Generator().manual_seed(0))
    batches = list(zip(inputs.split(64), (inputs.sum(dim=1) > 0).long().split(64), strict=True))

    def optimizer(parameters) -> torch.optim.Optimizer:
        parameters = list(parameters)
        made = torch.optim.SGD(parameters, lr=0.01, fused=True)
        made.register_step_pre_hook(lambda *arguments: clip(parameters))
        return made

    return autoaccel.Training(
        model=Mixture(), train_data=lambda: batches, eval_data=lambda: batches,
        epochs=5, loss=nn.CrossEntropyLoss(), optimizer=optimizer, evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(clip_each)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(clip_together)
