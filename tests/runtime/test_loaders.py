"""Loaders made like the user's own: what their class and their arguments do, they still do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.data import divides_batches, train_loader
from autoaccel.runtime.loaders import why_not_rebuildable, with_arguments, with_batches
from autoaccel.runtime.loading import describe
from autoaccel.runtime.training import Training

DATA = TensorDataset(torch.arange(12.0).reshape(12, 1), torch.zeros(12).long())


def seed_worker(number: int) -> None:
    """What a user seeds in each worker."""


class Doubling(DataLoader[Any]):
    """A constructor of its own kind, an attribute, and batches that it changes."""

    def __init__(self, factor: float) -> None:
        super().__init__(DATA, batch_size=4)
        self.factor = factor

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # as users write it
        for inputs, targets in super().__iter__():
            yield inputs * self.factor, targets


class Endless(DataLoader[Any]):
    """Holds on to the iterator that its constructor makes, as loaders do that spare workers a new start."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(DATA, batch_size=4, **arguments)
        self.iterator = super().__iter__()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # as users write it
        for _ in range(len(self)):
            yield next(self.iterator)


def training(loader: DataLoader[Any]) -> Training:
    return Training(
        model=torch.nn.Linear(1, 2),
        train_data=lambda: loader,
        eval_data=DATA,
        batch_size=4,
        epochs=1,
        loss=torch.nn.CrossEntropyLoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        evaluate="accuracy",
    )


def firsts(loader: Any) -> list[float]:
    return [float(inputs[0]) for inputs, _ in loader]


def test_a_rebuilt_loader_keeps_every_argument() -> None:
    """Rebuilt from a list of names, it lost in_order, pin_memory_device and whatever else the list lacked."""
    own: dict[str, Any] = {
        "num_workers": 1, "worker_init_fn": seed_worker, "multiprocessing_context": "fork", "prefetch_factor": 5,
        "timeout": 30, "pin_memory_device": "cuda", "in_order": False, "persistent_workers": True,
    }  # fmt: skip
    loader = DataLoader(DATA, batch_size=4, **own)
    for made in (with_batches(loader, [[0]]), with_arguments(loader, {"num_workers": 2}, DATA)):
        kept = {**own, "num_workers": made.num_workers, "multiprocessing_context": loader.multiprocessing_context}
        assert {name: getattr(made, name) for name in own} == kept
    assert list(with_batches(loader, [[0], [1]]).batch_sampler) == [[0], [1]]  # type: ignore[arg-type]  # a list is no Sampler, but works as one
    assert loader.num_workers == 1


def test_without_workers_what_only_workers_have_is_dropped() -> None:
    """torch refuses a timeout where no worker is waited for: taking the workers away failed at the first batch."""
    loader = DataLoader(DATA, batch_size=4, num_workers=2, timeout=30, persistent_workers=True, prefetch_factor=4)
    alone = with_arguments(loader, {"num_workers": 0}, DATA)
    assert firsts(alone) == [0, 4, 8]
    assert with_arguments(alone, {"num_workers": 1}, DATA).prefetch_factor == 2


def test_a_subclass_stays_what_it_is() -> None:
    """A plain DataLoader in its place gave batches that were not doubled."""
    for changes in ({"num_workers": 1, "persistent_workers": True}, {"pin_memory": False, "prefetch_factor": 3}):
        made = with_arguments(Doubling(2.0), {"num_workers": 1, **changes}, DATA)
        assert type(made) is Doubling
        assert firsts(made) == [0, 8, 16]
    assert firsts(with_batches(Doubling(3.0), [[1], [2]])) == [3, 6]
    facts = describe(training(Doubling(2.0)))
    assert facts.loader_adjustable and facts.batches_divisible and facts.batch_size == 4


def test_a_subclass_that_cannot_be_made_anew_is_left_as_it_is() -> None:
    """Its copy would go on drawing from the old iterator, under settings that do nothing."""
    loader = Endless()
    facts = describe(training(loader))
    assert not facts.loader_adjustable
    assert not facts.batches_divisible
    assert facts.loader_fixed.startswith("Endless does not draw batches the way its attributes say")
    assert train_loader(training(loader), Applied({"loader.workers": 0}), seed=0) is loader
    with pytest.raises(BadRequestError, match=r"Endless .* leave all loader\.\* settings as they are"):
        train_loader(training(loader), Applied({"loader.workers": 1}), seed=0)


def test_asking_a_loader_draws_nothing() -> None:
    """Whether it can be rebuilt is found out without a sample or a random number."""
    loader = Doubling(1.0)
    state = torch.get_rng_state()
    assert why_not_rebuildable(loader) == ""
    assert divides_batches(loader)
    assert torch.equal(torch.get_rng_state(), state)


DRAWS = """
import itertools, sys
import torch
from torch.utils.data import DataLoader, TensorDataset
from autoaccel.runtime.loaders import draw_as, draw_seeds_as_told

KINDS = ({}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True})

def drawn(arguments, kept, generator):
    torch.manual_seed(0)
    if generator:
        arguments = {**arguments, "generator": torch.Generator().manual_seed(1)}
    loader = DataLoader(TensorDataset(torch.arange(12)), batch_size=4, shuffle=True, **arguments)
    if kept is not None:
        draw_as(loader, kept)
    return [(batch.tolist(), torch.rand(()).item()) for _ in range(3) for batch, in loader]

def kept(arguments):
    return bool(arguments.get("num_workers") and arguments.get("persistent_workers"))

for generator in (False, True):
    for own, other in itertools.permutations(KINDS, 2):
        is_told = kept(own) != kept(other)
        assert (drawn(own, None, generator) == drawn(other, None, generator)) is not is_told, (own, other)
draw_seeds_as_told()
for generator in (False, True):
    for own, other in itertools.product(KINDS, repeat=2):
        assert drawn(own, None, generator) == drawn(other, kept(own), generator), (own, other, generator)
"""


def test_a_loader_draws_as_the_users_own_whether_workers_stay_or_not() -> None:
    """The order of a shuffled loader, and every other number, was another from the second epoch on."""
    subprocess.run([sys.executable, "-c", DRAWS], check=True, timeout=300)
