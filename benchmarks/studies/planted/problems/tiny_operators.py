"""Planted: 64 small experts, called one after the other."""

import torch
from torch import nn

import autoaccel

EXPERTS, FEATURES = 64, 16


class Loop(nn.Module):
    """Each expert is a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(FEATURES, FEATURES) for _ in range(EXPERTS))
        self.head = nn.Linear(FEATURES, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.zeros_like(inputs)  # (B, F)
        for expert in self.experts:
            hidden = hidden + torch.tanh(expert(inputs)) / EXPERTS
        return self.head(hidden)


class Stacked(nn.Module):
    """All experts are one product."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.Linear(FEATURES, EXPERTS * FEATURES)
        self.head = nn.Linear(FEATURES, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.experts(inputs)).view(-1, EXPERTS, FEATURES)  # (B, E, F)
        return self.head(hidden.mean(dim=1))


def training(model: nn.Module) -> autoaccel.Training:
    inputs = torch.randn(2048, FEATURES, generator=torch.Generator().manual_seed(0))
    batches = list(zip(inputs.split(32), (inputs.sum(dim=1) > 0).long().split(32), strict=True))
    return autoaccel.Training(
        model=model, train_data=lambda: batches, eval_data=lambda: batches, epochs=5, loss=nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01), evaluate="accuracy",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(Loop())


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(Stacked())
