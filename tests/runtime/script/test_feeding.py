"""A loader's batches are the same whoever loads them, and from whatever batch on, to the last random number."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, WeightedRandomSampler

from autoaccel.runtime.script.feeding import Feeds, LoadedHere
from autoaccel.runtime.script.lending import LoadedBy
from autoaccel.runtime.script.numbering import key_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked")


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, broken: int | None = None) -> None:
        self.broken = broken

    def __len__(self) -> int:
        return 61

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.broken:
            raise ValueError(f"sample {index} is broken")
        return torch.tensor([index, os.getpid()])


@pytest.fixture
def feeds() -> Iterator[Feeds]:
    feeds = Feeds()
    yield feeds
    feeds.end()


def draw(loader: DataLoader[Any], epochs: int, before: Callable[[int], None] = lambda batch: None) -> list[Any]:
    """Return samples of each batch, and the random number that a training draws after it; errors as their texts."""
    found: list[Any] = []
    torch.manual_seed(3)
    for _ in range(epochs):
        batches = iter(loader)
        while True:
            before(len(found))
            try:
                batch = next(batches)
            except StopIteration:
                break
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
                continue
            found.append((batch[..., 0].tolist(), torch.rand(1).item()))
    return found


MADE: dict[str, Callable[[], DataLoader[Any]]] = {
    "in order": lambda: DataLoader(Numbers(), 4),
    "shuffled": lambda: DataLoader(Numbers(), 4, shuffle=True),
    "shuffled, without the rest": lambda: DataLoader(Numbers(), 4, shuffle=True, drop_last=True),
    "a generator of its own": lambda: DataLoader(
        Numbers(), 4, shuffle=True, generator=torch.Generator().manual_seed(1)
    ),
    "weighted": lambda: DataLoader(Numbers(), 4, sampler=WeightedRandomSampler([1.0] * 61, 61)),
    "replaced": lambda: DataLoader(Numbers(), 4, sampler=RandomSampler(Numbers(), replacement=True)),
    "batches of a sampler": lambda: DataLoader(
        Numbers(), batch_sampler=BatchSampler(RandomSampler(Numbers()), 5, True)
    ),
    "single samples": lambda: DataLoader(Numbers(), batch_size=None, shuffle=True),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_batches_and_random_numbers_are_those_of_one_process(made: Callable[[], DataLoader[Any]], feeds: Feeds) -> None:
    plain = draw(made(), 4)
    loader, chance = made(), random.Random(0)
    told: list[LoadedHere] = []

    def switch(batch: int) -> None:
        if batch == 2:
            feeds.tell_next(key_of(loader), told.append)
        elif batch > 3 and chance.random() < 0.2:
            feeds.load_by(chance.choice((LoadedBy(), LoadedBy(1), LoadedBy(2), LoadedBy(2, 3))))

    assert draw(loader, 4, switch) == plain
    assert [torch.as_tensor(told[0].indices).tolist()] == [plain[2][0]]
    assert feeds.failed is None


def loaders_of(loader: DataLoader[Any], feeds: Feeds, workers: LoadedBy, batches: int) -> list[tuple[int, bool]]:
    """Return which process loaded each batch, and whether that was settled; from the third on workers may."""
    found: list[tuple[int, bool]] = []
    feeds.tell_next(key_of(loader), lambda drawn: None)
    for number, batch in enumerate(loader):
        found.append((int(batch[0, 1]), not feeds.unsettled))
        feeds.unsettled = False
        feeds.load_by(workers if 2 <= number < 2 + batches else LoadedBy())
    return found


def test_workers_load_what_comes_next_and_give_it_back(feeds: Feeds) -> None:
    found = loaders_of(DataLoader(Numbers(), 2), feeds, LoadedBy(2), 12)
    here = [process == os.getpid() for process, _ in found]
    # Four batches are ready when the script's own process is asked to load again.
    assert here == [True] * 3 + [False] * 16 + [True] * 12
    settled = [is_settled for _, is_settled in found]
    assert settled == [True] * 3 + [False] * 3 + [True] * 9 + [False] * 4 + [True] * 12
    assert len({process for process, _ in found}) == 3


def test_workers_that_nobody_asks_end(feeds: Feeds) -> None:
    before = len(torch.multiprocessing.active_children())
    loader = DataLoader(Numbers(), 1)
    feeds.tell_next(key_of(loader), lambda drawn: None)
    seen = []
    kept = iter(loader)
    next(kept)
    feeds.load_by(LoadedBy(2))
    next(kept)
    seen.append(len(torch.multiprocessing.active_children()) - before)
    feeds.end()
    seen.append(len(torch.multiprocessing.active_children()) - before)
    rest = [int(sample[0, 0]) for sample in kept]
    assert (seen, rest) == ([2, 0], list(range(2, 61)))


def test_a_sample_that_cannot_be_loaded_fails_in_the_scripts_own_process(feeds: Feeds) -> None:
    plain = draw(DataLoader(Numbers(broken=30), 4), 2)
    loader = DataLoader(Numbers(broken=30), 4)

    def switch(batch: int) -> None:
        if batch == 1:
            feeds.tell_next(key_of(loader), lambda drawn: None)
        feeds.load_by(LoadedBy(2) if batch > 2 else LoadedBy())

    assert draw(loader, 2, switch) == plain
    assert "ValueError: sample 30 is broken" in plain
    assert isinstance(feeds.failed, ValueError)


def test_a_sampler_that_fails_does_so_when_the_script_has_come_to_it(feeds: Feeds) -> None:
    class Ending(RandomSampler):
        def __iter__(self) -> Iterator[int]:
            yield from range(20)
            raise KeyError("no more")

    plain = draw(DataLoader(Numbers(), 4, sampler=Ending(Numbers())), 2)
    loader = DataLoader(Numbers(), 4, sampler=Ending(Numbers()))

    def switch(batch: int) -> None:
        if batch == 1:
            feeds.tell_next(key_of(loader), lambda drawn: None)
        feeds.load_by(LoadedBy(2) if batch > 2 else LoadedBy())

    assert draw(loader, 2, switch) == plain
    assert sum(isinstance(one, str) for one in plain) == 2
    assert feeds.failed is None


def test_a_worker_that_is_killed_costs_no_batch(feeds: Feeds) -> None:
    loader = DataLoader(Numbers(), 2)
    feeds.tell_next(key_of(loader), lambda drawn: None)
    found = []
    for number, batch in enumerate(loader):
        found += batch[:, 0].tolist()
        feeds.load_by(LoadedBy(2) if number else LoadedBy())
        if number == 6:
            os.kill(int(batch[0, 1]), signal.SIGKILL)
    assert found == list(range(61))
    assert feeds.failed is not None


def test_loaders_that_do_not_feed_the_training_are_left_alone(feeds: Feeds) -> None:
    fed = DataLoader(Numbers(), 4)
    feeds.tell_next(key_of(fed), lambda drawn: None)
    next(iter(fed))
    feeds.load_by(LoadedBy(2))
    assert {int(batch[0, 1]) for batch in DataLoader(Numbers(), 5)} == {os.getpid()}
    # Its samples were not looked at, though it seems to be the same.
    assert {int(batch[0, 1]) for batch in DataLoader(Numbers(), 4)} == {os.getpid()}
    assert os.getpid() not in {int(batch[0, 1]) for batch in fed}


def test_what_loading_takes_is_known(feeds: Feeds) -> None:
    class Busy(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            torch.randn(100_000).sort()
            return super().__getitem__(index)

    class Asleep(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            signal.sigtimedwait([], 0.002)
            return super().__getitem__(index)

    for kind in (Busy, Asleep):
        for _ in DataLoader(kind(), 4):
            pass
    busy, asleep = (feeds.loading(key_of(DataLoader(kind(), 4))) for kind in (Busy, Asleep))
    assert busy is not None
    assert asleep is not None
    assert asleep.seconds > 0.0075
    assert asleep.busy_seconds < 0.5 * asleep.seconds
    assert busy.busy_seconds > 4 * asleep.busy_seconds


class Scaled(Numbers):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def __getitem__(self, index: int) -> torch.Tensor:
        return super().__getitem__(index) * torch.tensor([self.factor, 1])


def test_workers_stay_from_epoch_to_epoch_until_what_they_load_changes(feeds: Feeds) -> None:
    dataset = Scaled(1)
    loader = DataLoader(dataset, 4, shuffle=True)
    feeds.tell_next(key_of(loader), lambda drawn: None)
    next(iter(loader))
    feeds.load_by(LoadedBy(2))
    processes, sums = [], []
    for epoch in range(4):
        dataset.factor = 3 if epoch == 2 else dataset.factor
        batches = list(loader)
        processes.append({int(batch[0, 1]) for batch in batches})
        sums.append(sum(int(batch[:, 0].sum()) for batch in batches))
    assert processes[0] == processes[1] != processes[2] == processes[3]
    assert sums == [1830, 1830, 5490, 5490]
    assert os.getpid() not in set().union(*processes)
    # Also where the script's own process loads the first batches of an epoch.
    dataset.factor = 5
    feeds.load_by(LoadedBy())
    rest = iter(loader)
    assert int(next(rest)[0, 1]) == os.getpid()
    feeds.load_by(LoadedBy(2))
    found = list(rest)
    assert {int(batch[0, 1]) for batch in found}.isdisjoint({os.getpid(), *processes[3]})
    assert all(int(number) % 5 == 0 for batch in found for number in batch[:, 0])
    feeds.end()
    assert not torch.multiprocessing.active_children()
