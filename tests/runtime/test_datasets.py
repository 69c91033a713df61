"""Whether who loads a sample decides on its numbers: found out by loading some twice, and watching the generators."""

from __future__ import annotations

import dataclasses
import io
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, default_collate

from autoaccel.records.workload import BuildFunction
from autoaccel.runtime import datasets
from autoaccel.runtime.contents import values_in
from autoaccel.runtime.datasets import look_at_samples, why_bound
from autoaccel.runtime.loading import build_training, describe, load_build

DRAWS = "loading a sample draws random numbers, and workers draw different ones"
OF_THIS_MODULE = numpy.random.default_rng(0)


class Samples(Dataset[Any]):
    """Samples of one number, to which something is done."""

    def __init__(self, change: Callable[[float], Any] = float) -> None:
        self.change = change
        self.loaded = 0

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        self.loaded += 1
        return self.change(float(index))


class Mirror:
    """A transform with a generator of its own, of which few samples show anything."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __call__(self, value: float) -> float:
        return -value if self.generator.random() < 1e-9 else value


class Seeded(Samples):
    """Random, but the same for each sample, whoever loads it."""

    def __getitem__(self, index: int) -> Any:
        return float(numpy.random.default_rng(index).random())


class Stream(IterableDataset[float]):
    def __iter__(self) -> Iterator[float]:
        return iter([1.0, 2.0])


class Named(Samples):
    """Samples that go by names."""

    def __getitem__(self, index: Any) -> Any:
        return {"a": 1.0}[index]


class Batched(Samples):
    """It loads batches, as those of Hugging Face do."""

    def __getitems__(self, indices: list[int]) -> list[float]:
        return [index + random.random() * 0 for index in indices]


def rarely(draw: Callable[[], float], value: float) -> float:
    return -value if draw() < 1e-9 else value


def mask(samples: list[float]) -> torch.Tensor:
    return default_collate(samples) * (torch.rand(()) >= 0)  # type: ignore[no-any-return]  # torch leaves it untyped


@pytest.mark.parametrize(
    ("change", "only_redraws"),
    [
        (lambda value: value + float(torch.rand(())), True),
        (lambda value: rarely(lambda: float(torch.rand(())), value), True),
        (partial(rarely, random.random), True),
        (partial(rarely, numpy.random.random), True),
        (lambda value: rarely(numpy.random.default_rng(random.getrandbits(32)).random, value), True),
        (lambda value: rarely(OF_THIS_MODULE.random, value), False),
        (Mirror(random.Random(3)), False),
        (Mirror(numpy.random.default_rng(3)), False),
        (Mirror(numpy.random.RandomState(3)), False),
        ([Mirror(random.Random(3))][0].__call__, False),
    ],
    ids=["torch", "rare", "python", "numpy", "seed", "module", "own python", "own numpy", "own old numpy", "method"],
)
def test_a_sample_that_draws_random_numbers_is_noticed(change: Callable[[float], Any], only_redraws: bool) -> None:
    """Workers were called exact where they draw other numbers; a cache was offered that would freeze what is rare."""
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()  # type: ignore[index]  # it may be a dict, too
    for data in (Samples(change), Subset(Samples(change), range(5, 15))):
        assert look_at_samples(DataLoader(data)) == (None, DRAWS, only_redraws, "")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), numpy.random.get_state()[1].tolist()) == before[1:]  # type: ignore[index]  # it may be a dict, too


def test_a_generator_of_torchs_own_kind_is_noticed() -> None:
    generator = torch.Generator()
    data = Samples(lambda value: rarely(lambda: float(torch.rand((), generator=generator)), value))
    assert look_at_samples(DataLoader(data)) == (None, DRAWS, False, "")


@pytest.mark.parametrize(
    ("loader", "why", "only_redraws"),
    [
        (DataLoader(Samples(lambda value: time.perf_counter_ns())), "samples differ each time", False),
        (DataLoader(Samples(lambda value: value + random.random() * time.time())), "samples differ each time", False),
        (DataLoader(Samples(lambda value: random.random()), worker_init_fn=print), DRAWS, False),
        (DataLoader(Samples(), collate_fn=mask), "making a batch of samples draws random numbers", True),
        (DataLoader(Batched()), "making a batch of samples draws random numbers", True),
        (DataLoader(Stream()), "its data is a stream", False),
        (DataLoader(Named(), sampler=["a"]), "its samples cannot be inspected one by one", False),
    ],
)
def test_what_else_depends_on_who_loads_it(loader: DataLoader[Any], why: str, only_redraws: bool) -> None:
    """Masks that a collate function draws, streams that workers repeat."""
    found = look_at_samples(loader)
    assert found.bytes_if_cached is None
    assert found.why_loading_matters.startswith(why)
    assert found.only_redraws == only_redraws


class Drawn(Samples):
    """Samples that are numbers of each of the three generators that a process shares."""

    def __getitem__(self, index: Any) -> list[float]:
        return [float(torch.rand((), dtype=torch.float64)), random.random(), float(numpy.random.random())]


@pytest.mark.parametrize("persistent", [False, True])
def test_what_workers_draw_from_shared_generators_is_never_drawn_twice(persistent: bool) -> None:
    """What torch promises, and what it rests on that workers keep the metric: seeds of their own, for each epoch."""
    torch.manual_seed(0)
    loader = DataLoader(Drawn(), batch_size=4, num_workers=2, persistent_workers=persistent)
    drawn = [torch.stack(batch) for _ in range(2) for batch in loader]
    for numbers in torch.cat(drawn, dim=1):
        assert len(set(numbers.tolist())) == 2 * len(Drawn())


def test_samples_that_are_the_same_whoever_loads_them() -> None:
    """Numbers drawn from a seed of the sample's own are no reason to judge the metric."""
    for data in (Samples(), Seeded()):
        assert look_at_samples(DataLoader(data, batch_size=4)).why_loading_matters == ""
        assert look_at_samples(DataLoader(data, batch_size=None)).why_loading_matters == ""


def test_looking_takes_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of seconds each were all loaded, eight of them twice, before a run began."""
    monkeypatch.setattr(datasets, "_LOOK_SECONDS", 0.0)
    data = Samples()
    assert look_at_samples(DataLoader(data)).bytes_if_cached is not None
    assert data.loaded == 4


@pytest.mark.parametrize(("name", "why"), [("image_pipeline.py", DRAWS), ("digits_cnn.py", "")])
def test_the_examples_are_told_apart(name: str, why: str) -> None:
    """The image example distorts its tiles at random."""
    path = Path(__file__).parents[2] / "examples" / name
    workload = BuildFunction(str(path), "build", "")
    facts = describe(build_training(load_build(workload), workload, seed=0))
    assert facts.loading_matters == why
    assert (facts.dataset_bytes is None) is facts.loading_redraws is bool(why)


class Pair:
    """An object without an equality of its own, as graphs and molecules are."""

    def __init__(self, value: float) -> None:
        self.value = torch.tensor([value, float("nan")])
        self.parts = {"inner": (value, float("nan"))}


@dataclasses.dataclass
class Record:
    """Its equality asks tensors, which have no single answer."""

    value: torch.Tensor


@pytest.mark.parametrize("make", [Pair, lambda value: Record(torch.tensor([value, value])), lambda value: float("nan")])
def test_objects_are_what_they_hold_and_missing_values_are_the_same(make: Callable[[float], Any]) -> None:
    """They were said to differ each time that they are loaded."""
    found = look_at_samples(DataLoader(Samples(make), collate_fn=list))
    assert (found.why_loading_matters, found.why_bound) == ("", "")


def test_objects_that_differ_are_told() -> None:
    found = look_at_samples(DataLoader(Samples(lambda value: Pair(time.perf_counter())), collate_fn=list))
    assert found.why_loading_matters == "samples differ each time they are loaded"


class ByWorker(Samples):
    """Other samples where a worker loads them."""

    def __getitem__(self, index: Any) -> Any:
        worker = torch.utils.data.get_worker_info()
        return super().__getitem__(index) + (worker.id if worker else 0)


def test_what_workers_load_is_compared_with_what_the_process_loads() -> None:
    found = look_at_samples(DataLoader(ByWorker()))
    assert found.why_bound == "workers load other samples than the training's own process does"


def test_a_handle_is_found_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"rows")
    with (tmp_path / "rows").open("rb") as rows, (tmp_path / "log").open("a") as log:
        held = Samples()
        held.files = [log, io.BytesIO()]  # type: ignore[attr-defined]
        assert why_bound(DataLoader(held)) == ""
        held.files.append(rows)  # type: ignore[attr-defined]
        words = "Samples.files[2] is an open file or connection, whose place processes would share"
        assert why_bound(DataLoader(held)) == words
        assert why_bound(DataLoader(Subset(held, [1]))) == words.replace("Samples", "Subset.dataset", 1)


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_one_number_that_changes_in_a_large_array_is_seen(kind: str) -> None:
    """A replay buffer is written to row by row; torch counts changes of a tensor, arrays up to 64 MB are read whole."""
    held: Any = torch.zeros(25_000_000) if kind == "tensor" else numpy.zeros(8_000_000)
    before = values_in([held])
    assert values_in([held]) == before
    held[4_567_891] = 1
    assert values_in([held]) != before
