"""What a batch consists of: every kind that a loader gives keeps its class on its way to the device."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import count_samples, map_tensors, tensors_of
from autoaccel.runtime.datasets import bytes_of

IMAGES = torch.ones(2, 3, 4, 5)
LABELS = torch.zeros(2)


class Encoding(UserDict):  # type: ignore[type-arg]  # as transformers writes it
    """As transformers' BatchEncoding: a mapping with attributes of its own, and a `.to()` that changes it in place."""

    def __init__(self, data: dict[str, Any], n_sequences: int) -> None:
        super().__init__(data)
        self.n_sequences = n_sequences

    def __getattr__(self, item: str) -> Any:
        try:
            return self.data[item]
        except KeyError:
            raise AttributeError(item) from None

    def to(self, device: torch.device) -> Encoding:
        self.data = {name: value.to(device) for name, value in self.data.items()}
        return self


class Pair(NamedTuple):
    images: torch.Tensor
    labels: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Example:
    images: torch.Tensor
    labels: torch.Tensor
    name: str = "one"
    length: int = dataclasses.field(init=False, default=2)


class Graph:
    """An object that only its own `.to()` can move."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        self.itself = self
        self.moved_to: list[Any] = []

    def to(self, device: torch.device) -> Graph:
        moved = Graph(self.images.to(device), self.labels.to(device))
        moved.moved_to = [*self.moved_to, device]
        return moved


BATCHES = [
    (IMAGES, LABELS),
    [IMAGES, LABELS],
    {"images": IMAGES, "labels": LABELS},
    OrderedDict(images=IMAGES, labels=LABELS),
    Encoding({"images": IMAGES, "labels": LABELS}, n_sequences=1),
    Pair(IMAGES, LABELS),
    Example(IMAGES, LABELS),
    Graph(IMAGES, LABELS),
    {"nested": [Example(IMAGES, LABELS)], "text": "words"},
]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
def test_what_walks_a_batch_agrees_on_what_is_in_it(batch: Any) -> None:
    """One counted dicts only, one kept no class of a mapping, one did not see a dataclass."""
    assert [tensor.shape for tensor in tensors_of(batch)] == [IMAGES.shape, LABELS.shape]
    assert count_samples(batch) == 2
    assert bytes_of(batch) >= IMAGES.nbytes + LABELS.nbytes
    placed = Applied({"layout.channels_last": True}).batch(batch)
    assert type(placed) is type(batch)
    images, labels = tensors_of(placed)
    assert torch.equal(images, IMAGES) and torch.equal(labels, LABELS)
    if not isinstance(batch, Graph):
        assert images.is_contiguous(memory_format=torch.channels_last)


def test_an_encoding_of_transformers_stays_one_and_the_loaders_batch_as_it_is() -> None:
    """It became a plain dict, so that `batch.input_ids` and `batch.n_sequences` failed."""
    batch = Encoding({"images": IMAGES, "labels": LABELS}, n_sequences=3)
    placed = Applied({"layout.channels_last": True}).batch(batch)
    assert (placed.n_sequences, placed.labels.tolist()) == (3, [0.0, 0.0])
    assert batch["images"] is IMAGES


def test_an_object_moves_as_it_knows_how() -> None:
    graph = Applied({}, "meta").batch(Graph(IMAGES, LABELS))
    assert graph.moved_to == [torch.device("meta")]
    assert graph.images.is_meta


def test_a_packed_sequence_keeps_its_lengths_on_the_cpu() -> None:
    """As a tuple all of it was moved, which packed sequences refuse."""
    placed = Applied({}, "meta").batch(pack_sequence([torch.ones(3), torch.ones(2)]))
    assert isinstance(placed, PackedSequence)
    assert placed.data.is_meta and not placed.batch_sizes.is_meta


def test_a_frozen_dataclass_keeps_what_its_constructor_does_not_take() -> None:
    doubled = map_tensors(lambda tensor: tensor * 2, Example(IMAGES, LABELS, "two"))
    assert (doubled.name, doubled.length, float(doubled.images.sum())) == ("two", 2, 240.0)


def test_what_is_no_tensor_stays() -> None:
    batch = {"a": [torch.zeros(1), "text"], "b": (torch.zeros(2), None)}
    found = map_tensors(lambda tensor: tensor + 1, batch)
    assert found["a"][0].item() == 1
    assert found["a"][1] == "text"
    assert isinstance(found["b"], tuple)
    assert found["b"][1] is None
