"""Whether samples are made of what they were made of before."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from autoaccel.runtime.contents import Contents
from autoaccel.runtime.script.changing import SampleSources


class Dropped(nn.Module):
    """A transform with an attribute, as most of torchvision's are."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self._size = 3
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, row: Any) -> Any:
        """Return it."""
        return row


class Rows(Dataset[Any]):
    """Samples of rows, which a transform changes."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.named = {f"row {number}": (number, "a") for number in range(300)}
        self.transform: Callable[[Any], Any] = nn.Sequential(Dropped(0.1))
        self.text = "a" * 2000 + "b"
        self.tensors = TensorDataset(torch.zeros(20, 3), torch.zeros(20))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.rows[index]), self.tensors[index % 20], self.named


def weaker(row: Any) -> Any:
    """Another transform."""
    return row


CHANGES: dict[str, Callable[[Any], object]] = {
    "a number": lambda rows: setattr(rows, "factor", 2),
    "a tensor of a dataset, in place": lambda rows: rows.tensors.tensors[0].add_(1),
    "the last of many tuples": lambda rows: rows.rows.__setitem__(-1, ("another", 1)),
    "one of many in a table": lambda rows: rows.named.update({"row 250": (0, "b")}),
    "the function that transforms": lambda rows: setattr(rows, "transform", weaker),
    "how likely a transform is": lambda rows: setattr(rows.transform[0], "p", 0.9),
    "what it is called": lambda rows: rows.named.update({"row 7": (8, "a"), "row 8": (7, "a")}),
    "the end of a text": lambda rows: setattr(rows, "text", "a" * 2000 + "c"),
    "what a transform keeps to itself": lambda rows: setattr(rows.transform[0], "_size", 4),
    "what a transform has computed": lambda rows: rows.transform[0].mean.add_(1),
    "whether a transform is for training": lambda rows: rows.transform.eval(),
    "which samples": lambda rows: rows.rows.pop(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_is_seen(change: Callable[[Any], object]) -> None:
    rows = Rows([(f"path {number}", number % 10) for number in range(5000)])
    before = Contents([rows])
    assert before.is_whole
    assert before == Contents([rows])
    rows[0]
    assert before == Contents([rows])
    change(rows)
    assert before != Contents([rows])


def nested(depth: int) -> Any:
    """Return a list in a list, and so on."""
    return [nested(depth - 1)] if depth else [0]


HIDDEN: dict[str, Any] = {
    "many tables": [{"label": 0} for _ in range(200)],
    "many lists": [[torch.zeros(1)] for _ in range(2000)],
    "objects in an array": numpy.array([{"label": 0}], dtype=object),
    "what lies deep": nested(8),
    "bytes that can be changed": memoryview(bytearray(8)),
    "objects of C": [array.array("d", [0.0])],
}


@pytest.mark.parametrize("rows", HIDDEN.values(), ids=HIDDEN)
def test_what_is_not_seen_as_a_whole_is_not_taken_to_be_the_same(rows: Any) -> None:
    assert not Contents([Rows(rows)]).is_whole


@pytest.mark.parametrize("subset", [False, True])
def test_tensors_that_a_training_changes_in_place_bind_its_loader(subset: bool) -> None:
    tensors = TensorDataset(torch.zeros(20, 3), torch.zeros(20))
    sources = SampleSources(DataLoader(Subset(tensors, range(10)) if subset else tensors))
    sources.loaded()
    sources.loads()
    assert not sources.why
    tensors.tensors[1][3] = 1  # a label that the model has given
    sources.loads()
    assert "tensors[1] as it trains" in sources.why
