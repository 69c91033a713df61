"""Planted: evaluation records a graph for each batch, with much memory that is touched for nothing."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel


class Deep(nn.Module):
    """Many cheap layers: their outputs are what a graph keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 256)
        self.last = nn.Linear(256, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)  # (B, 256)
        for _ in range(40):
            hidden = hidden * 0.99 + 0.01 * hidden.abs()
        return self.last(hidden)


def training(records: bool) -> autoaccel.Training:
    inputs = torch.randn(32768, 64, generator=torch.Generator().manual_seed(0))
    targets = inputs.sum(dim=1, keepdim=True)

    def error(model: nn.Module, loader) -> float:
        total = 0.0
        with torch.set_grad_enabled(records):
            for inputs, targets in loader:
                total += float((model(inputs) - targets).square().mean().detach())
        return total

    return autoaccel.Training(
        model=Deep(), train_data=TensorDataset(inputs[:2048], targets[:2048]),
        eval_data=lambda: [(inputs[start : start + 2048], targets[start : start + 2048])
                           for start in range(0, len(inputs), 2048)],
        batch_size=512, epochs=5, loss=nn.MSELoss(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-4),
        evaluate=error, direction="minimize",
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    return training(records=True)


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training(records=False)
