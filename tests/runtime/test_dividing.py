"""Batches divided among ranks and parts: each sample once, by weights that make up for unequal pieces."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings
from autoaccel.runtime import dividing, ranks
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.data import train_loader
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.training import Training

NUMBERS = torch.arange(50.0).reshape(50, 1)
DATA = TensorDataset(NUMBERS, torch.zeros(50, 1))


def training(**changes: object) -> Training:
    return Training(**{
        "model": nn.Linear(1, 1), "train_data": DATA, "eval_data": DATA, "batch_size": 16, "epochs": 3,
        "loss": nn.MSELoss(), "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=1e-6), "evaluate": "mse",
        **changes,
    })  # fmt: skip


class Whimsical:
    """A sampler of a user's own: each batch is drawn when it is asked for, from all the generators there are."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(4):
            yield [random.randrange(50), int(numpy.random.randint(50)), int(torch.randint(50, ()))]

    def __len__(self) -> int:
        return 4


def sharing_its_generator() -> DataLoader[Any]:
    return DataLoader(DATA, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(7))


def weighted() -> DataLoader[Any]:
    return DataLoader(DATA, batch_size=16, sampler=WeightedRandomSampler([1.0] * 50, 40))


def in_a_batch_sampler() -> DataLoader[Any]:
    return DataLoader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 16, drop_last=False))


def whimsical() -> DataLoader[Any]:
    return DataLoader(DATA, batch_sampler=Whimsical())


LOADERS = [sharing_its_generator, weighted, in_a_batch_sampler, whimsical]


def batches(
    monkeypatch: pytest.MonkeyPatch, made: Training, settings: Settings, rank: int = 0, world_size: int = 1
) -> list[list[float]]:
    """Return the samples of all steps of two epochs, sorted in each; other numbers are drawn between steps."""
    monkeypatch.setattr(ranks, "_place", lambda: (rank, world_size))
    torch.manual_seed(rank)
    loader = train_loader(made, Applied(settings), seed=5)
    parts = int(settings.get("optimizer.accumulation", 1))
    found = []
    for _ in range(2):
        for batch in loader:
            found.append([float(number) for number in batch[0]])
            torch.rand(1 + rank), random.random(), numpy.random.rand()
    return [sorted(number for part in found[at : at + parts] for number in part) for at in range(0, len(found), parts)]


@pytest.mark.parametrize("make", LOADERS)
@pytest.mark.parametrize("settings", [{}, {"loader.workers": 1}])
def test_ranks_together_see_what_one_process_does_whatever_the_sampler(
    make: Callable[[], DataLoader[Any]], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samplers that draw from the loader's or the process's generator, seeded by rank, repeated and dropped samples."""
    alone = batches(monkeypatch, training(train_data=make), {})
    together = [batches(monkeypatch, training(train_data=make), settings, rank, 2) for rank in range(2)]
    assert [sorted(one + other) for one, other in zip(*together, strict=True)] == alone


@pytest.mark.parametrize("make", LOADERS)
def test_the_order_is_that_of_a_plain_loop(
    make: Callable[[], DataLoader[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what is measured is the user's training, and not one in another order."""
    torch.manual_seed(5), random.seed(5), numpy.random.seed(5)
    loader = make()
    expected = [sorted(batch[0].flatten().tolist()) for _ in range(2) for batch in loader]
    assert batches(monkeypatch, training(train_data=make), {}) == expected


@pytest.mark.parametrize(("size", "parts", "steps"), [(50, 4, 1), (10, 4, 5), (16, 3, 4)])
def test_parts_of_a_step_train_on_all_its_samples(size: int, parts: int, steps: int) -> None:
    """Batch 50 in 4 parts trained 48 samples and counted 50, 10 in 4 trained 8; what was left of an epoch was lost."""
    found = []
    for settings in ({}, {"optimizer.accumulation": parts}):
        torch.manual_seed(1)
        loop = Loop(training(batch_size=size), Applied(settings), seed=3)
        assert (loop.steps_per_epoch, loop.planned_steps) == (steps, 3 * steps)
        while loop.steps_done < loop.planned_steps:
            loop.step()
        found.append((loop.samples_done, loop.last_loss, *loop.plain_model.parameters()))
    assert found[0][0] == found[1][0] == 150
    torch.testing.assert_close(found[0][1:], found[1][1:])


@pytest.mark.parametrize(("samples", "world_size", "parts"), [(3, 2, 1), (5, 2, 2), (1, 2, 1), (5, 4, 1)])
def test_no_piece_has_a_single_sample_where_batch_normalisation_would_refuse_it(
    samples: int, world_size: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last batch of an epoch, divided, raised "Expected more than 1 value per channel" on some ranks."""
    data = TensorDataset(NUMBERS[:samples], NUMBERS[:samples])
    weights = 0.0
    for rank in range(world_size):
        model = nn.BatchNorm1d(1)
        monkeypatch.setattr(ranks, "_place", lambda rank=rank: (rank, world_size))
        made = training(train_data=data, model=model, batch_size=8)
        loader: Any = train_loader(made, Applied({"optimizer.accumulation": parts}), seed=0)
        for batch in loader:
            weights += len(batch[0]) * bool(loader.batch_sampler.pieces[0].weight)
            loader.batch_sampler.pieces.popleft()
            assert len(batch[0]) >= min(2, samples)
    assert weights == samples


def test_a_rank_that_draws_other_batches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that depends on anything else than random numbers trained on other samples, silently."""
    monkeypatch.setattr(ranks, "_place", lambda: (0, 2))
    digests: list[list[int]] = [[], []]
    for told, order in zip(digests, ([[0, 1], [2, 3], [4, 5]], [[0, 1], [2, 3], [4, 6]]), strict=True):
        loader = DataLoader(DATA, batch_sampler=order)
        monkeypatch.setattr(dividing, "all_equal", lambda digest, told=told: not told.append(digest))
        loop = Loop(training(train_data=lambda loader=loader: loader), Applied({}), seed=0)
        for _ in range(4):
            loop.step()
    assert [len(told) for told in digests] == [3, 3]  # after 1, 2 and 4 steps; the third step's batch counts, too
    assert digests[0][:2] == digests[1][:2] and digests[0][2] != digests[1][2]
    monkeypatch.setattr(dividing, "all_equal", lambda digest: False)
    with pytest.raises(BadRequestError, match="every rank must draw the same batches, but they differ"):
        Loop(training(), Applied({}), seed=0).step()


def test_a_weight_stays_with_its_batch_where_batches_are_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next epoch's weights took the place of those of batches that a side stream had fetched before."""

    def one_ahead(self: Applied, drawn: Any) -> Iterator[Any]:
        following = next(drawn)
        for after in drawn:
            yield following
            following = after

    monkeypatch.setattr(Applied, "prefetch", one_ahead)
    monkeypatch.setattr(ranks, "_place", lambda: (0, 3))
    monkeypatch.setattr(dividing, "all_equal", lambda digest: True)
    loop = Loop(training(), Applied({}), seed=0)
    seen: list[tuple[int, float]] = []
    monkeypatch.setattr(loop.applied, "backward", lambda loss: None)
    monkeypatch.setattr(loop.applied, "update", lambda optimizer: True)
    step_on = loop.step_on
    monkeypatch.setattr(
        loop, "step_on", lambda batch, piece: (seen.append((len(batch[0]), piece.weight)), step_on(batch, piece))[1]
    )
    for _ in range(8):
        loop.step()
    assert seen == [(6, 6 * 3 / 16)] * 3 + [(1, 1 * 3 / 2)] + [(6, 6 * 3 / 16)] * 3 + [(1, 1 * 3 / 2)]


def test_what_cannot_be_divided_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of a ready iterable made one step that was counted as one of the user's own."""
    ready = training(train_data=lambda: [(NUMBERS[:2], NUMBERS[:2])] * 4)
    with pytest.raises(BadRequestError, match="nothing else can be divided"):
        Loop(ready, Applied({"optimizer.accumulation": 2}), seed=0)
    with pytest.raises(BadRequestError, match="train_data must be a dataset"):
        Loop(training(train_data=weighted), Applied({"optimizer.batch_factor": 2.0}), seed=0)
    with pytest.raises(BadRequestError, match=r"a whole number of samples, got 4\.5"):
        Loop(training(batch_size=9), Applied({"optimizer.batch_factor": 0.5}), seed=0)
    with pytest.raises(BadRequestError, match="must divide the 50 samples of a step, got 4"):
        Applied({"optimizer.accumulation": 4}).batch_size(50)


def test_a_factor_is_that_of_real_batches() -> None:
    """Four times a batch of 40 out of 50 samples counted as 160: speed that nobody has."""
    assert Loop(training(batch_size=40), Applied({"optimizer.batch_factor": 4.0}), seed=0).batch_factor == 50 / 40
    assert Loop(training(batch_size=10), Applied({"optimizer.batch_factor": 2.0}), seed=0).batch_factor == 2
    assert Loop(training(train_data=weighted), Applied({}), seed=0).batch_factor == 1


def test_an_incomplete_step_counts_as_the_samples_that_it_has() -> None:
    loop = Loop(training(), Applied({}), seed=0)
    assert [loop.step().share for _ in range(5)] == [1, 1, 1, 2 / 16, 1]


def test_a_schedule_of_epochs_goes_on_after_an_incomplete_step_in_the_warm_up() -> None:
    """One part of the last batch, warmed up on, shifted all steps by it: no step began an epoch any more."""
    made = training(scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
    loop = Loop(made, Applied({"optimizer.accumulation": 2}), seed=0)
    loop.step()
    for batch, piece in loop.last_step():
        loop.step_on(batch, piece)
    starts = [loop.step().begins_epoch for _ in range(8)]
    assert starts == [False, False, False, True, False, False, False, True]
    assert loop.optimizer.param_groups[0]["lr"] == 1e-6 * 0.5**2
