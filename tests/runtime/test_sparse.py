"""Trainings with sparse buffers, sparse gradients or complex weights: looked at as any, and never made dense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.records.rounding import UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.conditions import gather_conditions
from autoaccel.runtime.knobs.forms import has_form
from autoaccel.runtime.loading import describe
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.rounding import compare_updates, record_updates
from autoaccel.runtime.sparse import bytes_of_tensor, numbers_at, stored
from autoaccel.runtime.training import Training
from autoaccel.runtime.work import count_work

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # that they are in beta, and unchecked

NODES = 1_000_000
"""Of a graph whose adjacency takes terabytes as a dense matrix, which no computer of a test has."""

PAIRS = torch.randint(0, 40, (64, 2), generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(PAIRS, (PAIRS.sum(dim=1) % 2).float())


def graph(layout: str) -> torch.Tensor:
    places = torch.randint(0, 40, (2, 200), generator=torch.Generator().manual_seed(1))
    coo = torch.sparse_coo_tensor(places, torch.full((200,), 0.1), (NODES, NODES))
    return coo.coalesce().to_sparse_csr() if layout == "csr" else coo.coalesce() if layout == "coalesced" else coo


class Graph(nn.Module):
    def __init__(self, layout: str) -> None:
        super().__init__()
        self.register_buffer("graph", graph(layout))
        self.nodes = nn.Embedding(NODES, 2)
        with torch.no_grad():
            self.nodes.weight.normal_(generator=torch.Generator().manual_seed(2))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        nodes = self.nodes.weight + torch.sparse.mm(self.graph, self.nodes.weight)
        return (nodes[pairs[:, 0]] * nodes[pairs[:, 1]]).sum(dim=1)


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.nodes = nn.Embedding(50, 4, sparse=True)
        with torch.no_grad():
            self.nodes.weight.normal_(generator=torch.Generator().manual_seed(2))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return self.nodes(pairs).prod(dim=1).sum(dim=1)  # type: ignore[no-any-return]  # torch leaves it untyped


class Waves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turns = nn.Parameter(torch.full((2, 3), 0.5 + 0.2j))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return (pairs.to(torch.complex64) @ self.turns).abs().sum(dim=1)


def training(model: nn.Module, optimizer: Any) -> Training:
    return Training(
        model=model, train_data=DATA, eval_data=DATA, batch_size=8, epochs=20, loss=nn.BCEWithLogitsLoss(),
        optimizer=optimizer, evaluate=lambda model, loader: 0.0,
    )  # fmt: skip


def adagrad(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(parameters, lr=0.1)


def sparse_adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SparseAdam(list(parameters), lr=0.1)


CASES: dict[str, Any] = {
    "coo": lambda: training(Graph("coo"), torch.optim.SGD),
    "coalesced": lambda: training(Graph("coalesced"), torch.optim.SGD),
    "csr": lambda: training(Graph("csr"), torch.optim.SGD),
    "sparse gradients": lambda: training(Pairs(), adagrad),
    "sparse adam": lambda: training(Pairs(), sparse_adam),
    "complex": lambda: training(Waves(), torch.optim.Adam),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_looked_at_as_any_training(case: str, tmp_path: Path) -> None:
    """Sparse layouts ended the conditions and the comparison of updates, or were made dense."""
    loop = Loop(CASES[case](), Applied({}), seed=0)
    loop.step()
    conditions = gather_conditions(loop)
    assert conditions.model.denormal_share == 0.0
    _, moved = count_work(loop, loop.next_batch())
    assert moved < 100 * 8 * NODES
    assert isinstance(record_updates(Loop(CASES[case](), Applied({}), seed=0), tmp_path, (2,), 2), UpdatesRecorded)
    compared = compare_updates(Loop(CASES[case](), Applied({}), seed=0), tmp_path)
    assert compared.finite and compared.errors
    assert all(error.error == 0.0 for error in compared.errors)


def test_an_update_of_a_sparse_gradient_is_not_lost(tmp_path: Path) -> None:
    """What is looked at of it are the weights' own coordinates."""
    assert isinstance(
        record_updates(Loop(CASES["sparse gradients"](), Applied({}), seed=0), tmp_path, (2,), 2), UpdatesRecorded
    )
    harmed = training(Pairs(), lambda parameters: torch.optim.Adagrad(parameters, lr=0.2))
    errors = compare_updates(Loop(harmed, Applied({}), seed=0), tmp_path).errors
    assert any(error.gradient > 0 and error.error > 0 for error in errors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_numbers_of_a_sparse_tensor_are_those_of_the_dense_one(dtype: torch.dtype) -> None:
    places = torch.tensor([[3, 1, 3, 7]])
    sparse = torch.sparse_coo_tensor(places, torch.randn(4, 2, 3, dtype=dtype), (9, 2, 3))
    dense = sparse.to_dense()
    flat = (torch.view_as_real(dense) if dtype.is_complex else dense).reshape(-1)
    index = torch.randint(len(flat), (40,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(numbers_at(sparse, index), flat[index])
    torch.testing.assert_close(stored(sparse).sum(dim=0), dense.sum(dim=0))
    assert bytes_of_tensor(sparse) == 4 * 8 + 4 * 6 * dense.element_size()


@pytest.mark.parametrize("case", ["complex", "sparse gradients", "sparse adam"])
def test_a_fused_form_is_not_offered_where_its_kernel_refuses(case: str) -> None:
    """It stayed open, was tried, and failed; with a recipe the training ended in an error."""
    assert not describe(CASES[case]()).optimizer_has_fused
    settings: Settings = {"optimizer.fused": True}
    loop = Loop(CASES[case](), Applied(settings), seed=0)
    if case == "complex":
        loop.step()
        assert loop.applied.check()[1] == {"optimizer.fused": "the optimizer has no fused form"}


def test_a_form_is_what_the_parameters_can_have() -> None:
    weight, rows = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3, 2))
    assert has_form(torch.optim.Adam([weight]), "fused")
    assert not has_form(torch.optim.Adam([weight, nn.Parameter(torch.ones(3, dtype=torch.complex64))]), "fused")
    rows.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (3, 2))
    assert not has_form(torch.optim.Adagrad([rows]), "fused")
    assert not has_form(torch.optim.Adam([weight], lr=torch.tensor(0.1)), "foreach")
    assert not has_form(torch.optim.SGD([weight], momentum=0.9, dampening=0.5), "fused")
