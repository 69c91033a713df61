"""Planted: deterministic algorithms, which also fill all memory before it is used."""

import torch
from torch import nn

import autoaccel


class Scattered(nn.Module):
    """Sums the features of nodes into their neighbours, as graph networks do, over large buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.head = nn.Linear(32, 1)
        self.register_buffer("neighbours", torch.randint(4096, (32768,), generator=torch.Generator().manual_seed(0)))

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(nodes)  # (N, 32)
        for _ in range(4):
            messages = hidden[self.neighbours]  # (E, 32)
            hidden = hidden + 0.01 * torch.zeros_like(hidden).index_add(0, self.neighbours.flip(0), messages)
        return self.head(hidden)


def training() -> autoaccel.Training:
    nodes = torch.randn(4096, 32, generator=torch.Generator().manual_seed(0))
    batches = [(nodes, nodes.sum(dim=1, keepdim=True))] * 20
    return autoaccel.Training(
        model=Scattered(), train_data=lambda: batches, eval_data=lambda: batches[:1], epochs=5, loss=nn.MSELoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-4), direction="minimize",
        evaluate=lambda model, loader: sum(float((model(x) - y).square().mean()) for x, y in loader),
    )  # fmt: skip


def build() -> autoaccel.Training:
    """Return the training with the problem."""
    torch.use_deterministic_algorithms(True)
    return training()


def fixed() -> autoaccel.Training:
    """Return it without."""
    return training()
