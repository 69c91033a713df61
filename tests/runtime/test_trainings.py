"""Random trainings, held against plain loops written by hand: samples, steps, learning rates and final weights.

What fails is printed as a Case; `check(Case(...))` is all that it takes to see it again. As a program, this file
is one rank of several: FOLDER WORLD_SIZE RANK.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as draws
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, WeightedRandomSampler

from autoaccel.records.ranks import Placement
from autoaccel.records.settings import Settings
from autoaccel.runtime import dividing, ranks
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.checkpoints import Checkpoints
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.ranks import join_others
from autoaccel.runtime.training import Training

SEED = 5
LEARNING_RATE = 0.05
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=LEARNING_RATE),
}
SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "epoch": lambda optimizer: ExponentialLR(optimizer, 0.5),
    "step": lambda optimizer: LambdaLR(optimizer, lambda step: 1 / (1 + step)),
}
OF_DATASETS = ("in order", "shuffled")


class Case(NamedTuple):
    """A training and the settings that it is trained under."""

    sampler: str
    samples: int
    batch: int
    epochs: int = 2
    drop_last: bool = False
    cut: int | None = None  # steps of an epoch, if they are fewer than its batches
    optimizer: str = "sgd"
    schedule: str | None = None
    parts: int = 1
    ranks: int = 1
    workers: int = 0
    persistent: bool = True
    cache: bool = False
    factor: float = 1.0
    lr_rule: str = "none"
    stop: int | None = None  # after how many steps it is interrupted, to go on from its checkpoint


class Result(NamedTuple):
    """What came of it: of each step the samples, sorted, and the learning rate; the weights in the end."""

    steps: list[list[int]]
    rates: list[float]
    weights: list[torch.Tensor]


@draws.composite
def cases(draw: draws.DrawFn) -> Case:
    """Draw a training that can be trained."""
    sampler = draw(draws.sampled_from([*OF_DATASETS, *READY]))
    batch = draw(draws.integers(1, 12))
    drop_last = draw(draws.booleans())
    samples = draw(draws.integers(batch * (2 if drop_last else 1), 24))
    factors = [factor for factor in (1.0, 2.0, 0.5, 3.0) if (batch * factor).is_integer() and batch * factor <= samples]
    factor = draw(draws.sampled_from(factors)) if sampler in OF_DATASETS else 1.0
    case = Case(
        sampler=sampler,
        samples=samples,
        batch=batch,
        epochs=draw(draws.sampled_from([2, 1, 3])),
        drop_last=drop_last,
        optimizer=draw(draws.sampled_from(sorted(OPTIMIZERS))),
        schedule=draw(draws.sampled_from([None, *SCHEDULES])),
        parts=draw(draws.integers(1, 4)),
        ranks=draw(draws.integers(1, 3)),
        workers=draw(draws.sampled_from([0] * 8 + [1, 2])),  # they take most of the time
        persistent=draw(draws.booleans()),
        cache=draw(draws.booleans()),
        factor=factor,
        lr_rule=draw(draws.sampled_from(["none", "linear", "sqrt"])) if factor != 1 else "none",
    )
    size = round(batch * factor)
    each_epoch = samples // size if drop_last and sampler != "whimsical" else -(-samples // size)
    if factor == 1:
        case = case._replace(cut=draw(draws.one_of(draws.none(), draws.integers(1, each_epoch))))
    planned = case.epochs * (case.cut or each_epoch)
    return case._replace(stop=draw(draws.one_of(draws.none(), draws.integers(1, planned))))


class Numbers(Dataset[Any]):
    """Samples that know their number."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(count, 3, generator=generator, dtype=torch.float64)
        self.targets = torch.randn(count, 1, generator=generator, dtype=torch.float64)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        return self.inputs[index], self.targets[index], index


class Whimsical:
    """A batch sampler of a user's own, which draws when it is asked, from every generator there is."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(len(self)):
            count = 1 + random.randrange(self.case.batch)
            first = [int(numpy.random.randint(self.case.samples)) for _ in range(count // 2)]
            yield first + torch.randint(self.case.samples, (count - count // 2,)).tolist()

    def __len__(self) -> int:
        return -(-self.case.samples // self.case.batch)


def _plain(case: Case, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(Numbers(case.samples), batch_size=case.batch, drop_last=case.drop_last, **arguments)


READY: dict[str, Callable[[Case], DataLoader[Any]]] = {
    "loader": lambda case: _plain(case, shuffle=True),
    "its own generator": lambda case: _plain(case, shuffle=True, generator=torch.Generator().manual_seed(7)),
    "weighted": lambda case: _plain(case, sampler=WeightedRandomSampler([*range(1, case.samples + 1)], case.samples)),
    "with replacement": lambda case: _plain(case, sampler=RandomSampler(range(case.samples), replacement=True)),
    "batch sampler": lambda case: DataLoader(
        Numbers(case.samples),
        batch_sampler=BatchSampler(RandomSampler(range(case.samples)), case.batch, case.drop_last),
    ),
    "whimsical": lambda case: DataLoader(Numbers(case.samples), batch_sampler=Whimsical(case)),
}


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    inputs, targets, _ = batch
    return (model(inputs) - targets).square().mean()


def orders(case: Case) -> list[list[list[int]]]:
    """Return for each epoch its batches, as a plain loop over the loader draws them."""
    random.seed(SEED), numpy.random.seed(SEED), torch.manual_seed(SEED)
    if case.sampler in READY:
        loader = READY[case.sampler](case)
        batches = (
            [ids.tolist() for _, _, ids in itertools.islice(loader, case.cut)] for _ in range(case.epochs)
        )  # fmt: skip
        return list(batches)
    shuffled = RandomSampler(range(case.samples), generator=torch.Generator().manual_seed(SEED))
    own = BatchSampler(
        shuffled if case.sampler == "shuffled" else range(case.samples), round(case.batch * case.factor), case.drop_last
    )
    return [list(itertools.islice(own, case.cut)) for _ in range(case.epochs)]


def by_hand(case: Case) -> Result:
    """Train in a plain loop."""
    data, model = Numbers(case.samples), network()
    optimizer = OPTIMIZERS[case.optimizer](model.parameters())
    for group in optimizer.param_groups:
        group["lr"] *= {"none": 1, "linear": case.factor, "sqrt": case.factor**0.5}[case.lr_rule]
    schedule = SCHEDULES[case.schedule](optimizer) if case.schedule else None
    result = Result([], [], list(model.parameters()))
    for epoch in orders(case):
        for ids in epoch:
            loss = loss_of(model, (data.inputs[ids], data.targets[ids], ids))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            result.rates.append(optimizer.param_groups[0]["lr"])
            result.steps.append(sorted(ids))
            optimizer.step()
            if schedule and case.schedule == "step":
                schedule.step()
        if schedule and case.schedule == "epoch":
            schedule.step()
    return result


def start(case: Case, made: Training, checkpoints: Checkpoints | None = None, **more: Any) -> tuple[Loop, Result]:
    """Return a loop of autoaccel's, and what it will note in its steps: of samples those of this rank."""
    chosen: Settings = {
        "optimizer.accumulation": case.parts,
        "optimizer.batch_factor": case.factor,
        "optimizer.lr_rule": case.lr_rule,
        "loader.workers": case.workers,
        "loader.persistent": case.persistent,
        "loader.cache": case.cache,
        **more,
    }
    random.seed(SEED + 1), numpy.random.seed(SEED + 1), torch.manual_seed(SEED + 1)  # others than in the plain loop
    loop = Loop(made, Applied(chosen), SEED, checkpoints.load() if checkpoints else None)
    result = Result([], [], list(loop.plain_model.parameters()))
    step, step_on = loop.step, loop.step_on

    def noting(batch: Any, piece: Any) -> bool:
        if piece.weight:
            result.steps[-1].extend(batch[2].tolist())
        torch.rand(1), random.random(), numpy.random.rand()  # as dropout and augmentation would
        return step_on(batch, piece)

    def beginning() -> Any:
        result.steps.append([])
        return step()

    loop.step_on, loop.step = noting, beginning  # type: ignore[method-assign]  # notes its calls
    loop.optimizer.register_step_pre_hook(lambda *_: result.rates.append(loop.optimizer.param_groups[0]["lr"]))
    return loop, result


def training(case: Case) -> Training:
    data = Numbers(case.samples)
    of_dataset = case.sampler in OF_DATASETS
    return Training(
        model=network(),
        train_data=data if of_dataset else lambda: READY[case.sampler](case),
        eval_data=lambda: iter(()),
        optimizer=OPTIMIZERS[case.optimizer],
        evaluate=lambda model, loader: 0.0,
        epochs=case.epochs,
        batch_size=case.batch if of_dataset else None,
        step=loss_of,
        scheduler=SCHEDULES[case.schedule] if case.schedule else None,
        scheduler_interval=case.schedule or "epoch",  # type: ignore[arg-type]  # one of its literals
        shuffle=case.sampler == "shuffled",
        drop_last=case.drop_last,
        steps_per_epoch=case.cut,
    )


class Here:
    """Ranks that take turns in this process: they share a model, into whose gradients each adds its own."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rank = 0
        self.digests: list[int] = []
        self.shared: Any = None

    def all_equal(self, digest: int) -> bool:
        self.digests.append(digest)
        return True

    def broadcast(self, thing: Any) -> Any:
        if self.rank == 0:
            self.shared = thing
        return self.shared

    def __enter__(self) -> Here:
        self._patched = contextlib.ExitStack()
        place = mock.patch.multiple(ranks, _place=lambda: (self.rank, self.case.ranks), _broadcast=self.broadcast)
        self._patched.enter_context(place)
        self._patched.enter_context(mock.patch.object(dividing, "all_equal", self.all_equal))
        return self

    def __exit__(self, *_: object) -> None:
        self._patched.close()

    def started(self, checkpoints: Checkpoints | None) -> list[tuple[Loop, Result]]:
        made, found = training(self.case), []
        for rank in range(self.case.ranks):
            self.rank = rank
            found.append(start(self.case, made, checkpoints))
            applied, last = found[-1][0].applied, rank == self.case.ranks - 1
            applied.backward = self._sharing(applied.backward)  # type: ignore[method-assign]  # breaks what is to be seen broken
            if not last:
                applied.update = _without_gradients(applied.update)  # type: ignore[method-assign]  # breaks what is to be seen broken
                applied.zero_grad = lambda optimizer: None  # type: ignore[method-assign]  # breaks what is to be seen broken
        return found

    def _sharing(self, backward: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], None]:
        return lambda loss: backward(loss / self.case.ranks)

    def step(self, loops: list[tuple[Loop, Result]]) -> None:
        self.digests.clear()
        for self.rank, (loop, _) in enumerate(loops):
            loop.step()
        assert len(set(self.digests)) <= 1 and len(self.digests) in (0, self.case.ranks)


def _without_gradients(update: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def updating(optimizer: torch.optim.Optimizer) -> bool:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        stepped = update(optimizer)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        return stepped

    return updating


def by_autoaccel(case: Case, folder: Path) -> Result:
    """Train with autoaccel, its ranks one after the other in this process."""
    result = Result([], [], [])
    checkpoints = Checkpoints(folder / "checkpoint", 0.0, SEED)
    with Here(case) as here:
        loops = here.started(None)
        while (loop := loops[-1][0]).steps_done < loop.planned_steps:
            if loop.steps_done == case.stop and not result.steps:
                here.rank = 0
                checkpoints.keep(loop)
                result = joined(result, [found for _, found in loops])
                loops = here.started(checkpoints)
                continue
            here.step(loops)
        assert loop.samples_done == sum(len(step) for step in joined(result, [found for _, found in loops]).steps)
    return joined(result, [found for _, found in loops])


def joined(before: Result, of_ranks: list[Result]) -> Result:
    """Return what ranks have noted together, after what was noted before."""
    steps = [sorted(itertools.chain(*step)) for step in zip(*(found.steps for found in of_ranks), strict=True)]
    return Result(before.steps + steps, before.rates + of_ranks[-1].rates, of_ranks[-1].weights)


def compare(case: Case, found: Result) -> None:
    """Hold a result against the plain loop's."""
    expected = by_hand(case)
    assert found.steps == expected.steps, f"other samples in {case}"
    assert found.rates == pytest.approx(expected.rates, rel=1e-12), f"other learning rates in {case}"
    for one, other in zip(found.weights, expected.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9, msg=lambda text: f"{case}: {text}")


def check(case: Case, folder: Path | None = None) -> None:
    """Train by hand and with autoaccel, and compare."""
    with tempfile.TemporaryDirectory() as temporary:
        compare(case, by_autoaccel(case, folder or Path(temporary)))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Several that wait for one another take a hundred times as long on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


drawn = settings(
    max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)


@drawn
@given(cases())
def test_a_random_training_is_that_of_a_plain_loop(case: Case) -> None:
    """Counting, dividing, ordering or resuming that is not the user's training differs from it in one of these."""
    check(case)


@pytest.mark.long
@settings(drawn, max_examples=500, derandomize=False)
@given(cases())
def test_many_random_trainings_are_those_of_plain_loops(case: Case) -> None:
    check(case)


@pytest.mark.long
@pytest.mark.end_to_end
@settings(drawn, max_examples=1)
@given(draws.lists(cases(), min_size=4, max_size=4))
def test_real_ranks_train_as_a_plain_loop_does(drawn: list[Case]) -> None:
    """Whatever of it gloo, DDP or processes of their own change."""
    check_with_real_ranks(drawn, 2)


@pytest.mark.long
@pytest.mark.parametrize("world_size", [2, 3])
@settings(drawn, max_examples=3, derandomize=False)
@given(draws.lists(cases(), min_size=10, max_size=10))
def test_many_real_ranks_train_as_plain_loops_do(world_size: int, drawn: list[Case]) -> None:
    check_with_real_ranks(drawn, world_size)


def check_with_real_ranks(drawn: list[Case], world_size: int) -> None:
    """Train all of them with the same processes, one after the other."""
    drawn = [case._replace(ranks=world_size, stop=None) for case in drawn]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases").write_bytes(pickle.dumps([tuple(case) for case in drawn]))
        command = [sys.executable, __file__, folder, str(world_size)]
        started = [subprocess.Popen([*command, str(rank)]) for rank in range(world_size)]
        try:
            assert [process.wait(timeout=300) for process in started] == [0] * world_size, drawn
        finally:
            for process in started:
                process.kill()
        found = [torch.load(Path(folder) / f"rank {rank}", weights_only=True) for rank in range(world_size)]
    for case, *of_ranks in zip(drawn, *found, strict=True):
        compare(case, joined(Result([], [], []), [Result(*each) for each in of_ranks]))


def main(folder: Path, world_size: int, rank: int) -> None:
    """Be one of several ranks that train one case after the other."""
    torch.set_num_threads(1)
    join_others(Placement(rank, world_size, rank, str(folder / "rendezvous")), "gloo")
    results = []
    for fields in pickle.loads((folder / "cases").read_bytes()):
        case = Case(*fields)
        loop, result = start(case, training(case), **{"parallel.world_size": world_size})
        while loop.steps_done < loop.planned_steps:
            loop.step()
        results.append(result._replace(weights=[parameter.detach() for parameter in result.weights]))
    torch.save([tuple(result) for result in results], folder / f"rank {rank}")
    torch.distributed.barrier()
    sys.stderr.flush()
    os._exit(0)  # gloo may abort when a process ends as usual


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
