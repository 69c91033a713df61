"""Planted: deterministic algorithms, which also fill all memory before it is used."""

import torch
from torch import nn

import autoaccel

ROOM, FEATURES = 2048, 1024


class Padded(nn.Module):
    """Puts sequences of features into a buffer with room for the longest, and uses what is filled of it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, 64)
        self.head = nn.Linear(64, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        buffer = rows.new_empty(ROOM, FEATURES)
        buffer[: len(rows)] = rows
        return self.head(torch.tanh(self.inner(buffer[: len(rows)])))


def training() -> autoaccel.Training:
    rows = torch.randn(64, FEATURES, generator=torch.Generator().manual_seed(0))
    batches = [(rows, rows.sum(dim=1, keepdim=True))] * 50
    return autoaccel.Training(
        model=Padded(), train_data=lambda: batches, eval_data=lambda: batches[:1], epochs=5, loss=nn.MSELoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-4), direction="minimize",
        evaluate=lambda model, loader: sum(float((model(x) - y).square().mean()) for x, y in loader),
        # Small tensors: several threads would only wait for each other.
        settings={"threads.intra_op": 1},
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    torch.use_deterministic_algorithms(True)
    return training()


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training()
