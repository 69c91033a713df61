"""Scripts whose tensors are sparse or complex, or whose blocks normalise: seen as what they are, and their updates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.rounding import UpdatesCompared
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KNOBS, KnobContext
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import describe
from tests.runtime.script.test_updates import compared

SOURCE = """
import torch
from torch import nn

NODES = 1_000_000  # as a dense matrix its graph takes terabytes
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def forward(self, x):
        return x + self.inner(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        places = torch.randint(0, 30, (2, 90))
        graph = torch.sparse_coo_tensor(places, torch.full((90,), 0.1), (NODES, NODES))
        self.register_buffer("graph", graph.coalesce())
        self.nodes = nn.Embedding(40, 4, sparse={sparse})
        self.turns = nn.Parameter(torch.ones(4, dtype={dtype}))
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x):
        assert self.graph.is_sparse
        return (self.blocks(self.nodes(x)) * self.turns).abs().sum(1)


net = Net()
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.1)
for step in range(500):
    loss = net(torch.randint(0, 40, (16,))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("sparse", "dtype", "has_fused"),
    [
        (True, "torch.float32", False),
        pytest.param(False, "torch.complex64", False, marks=pytest.mark.long),
        pytest.param(False, "torch.float32", True, marks=pytest.mark.long),
    ],
)
def test_it_is_seen_and_its_updates_are_compared(
    sparse: bool,
    dtype: str,
    has_fused: bool,
    script: Callable[..., Script],
    forking_starter_of: Callable[[Script], WorkerStarter],
    machine: Machine,
    tmp_path: Path,
) -> None:
    starter = forking_starter_of(script(SOURCE.replace("{sparse}", str(sparse)).replace("{dtype}", dtype)))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    assert facts.optimizer_has_fused is has_fused
    # Computed twice, its blocks would count each batch twice; scripts were asked to.
    assert "normalise over the batch" in KNOBS["memory.checkpointing"].why_closed(KnobContext(machine, facts))
    found = compared(starter, machine, {}, tmp_path / "run" / "kept")
    assert isinstance(found, UpdatesCompared), found
    assert {error.name for error in found.errors} >= {"nodes.weight", "turns"}
    assert all(error.error == 0.0 for error in found.errors)
