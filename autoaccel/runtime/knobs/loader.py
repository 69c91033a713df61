"""What a DataLoader is told, what it loads from, and how its batches reach the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import Dataset

from autoaccel.runtime.batches import tensors_of
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError, Item
from autoaccel.space.knobs import is_on


class Workers(Effect):
    """Processes that prepare batches."""

    switches = True  # from the next batch on; see `autoaccel.runtime.script.feeding`
    most = 0

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        arguments = {**arguments, "num_workers": int(self.value)}
        # They stay for all epochs unless `loader.persistent` says otherwise: starting them anew is never faster.
        return arguments if self.is_off else {**arguments, "persistent_workers": True}

    def check(self) -> str:
        if self.is_off:
            return ""
        # At the end of an epoch they may be gone already.
        self.most = max(self.most, len(torch.multiprocessing.active_children()))
        if self.most < int(self.value):
            raise IneffectiveError(
                f"{self.most} worker processes are there; batches may not come from a torch DataLoader"
            )
        return f"{self.most} worker processes"


class _OfWorkers(Effect):
    """An argument that a loader without workers must not be given."""

    argument = ""

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not is_on("loader.workers", self.settings):
            return arguments
        return {**arguments, self.argument: self.value}


class Prefetch(_OfWorkers):
    """Batches that each worker prepares ahead."""

    switches = True
    argument = "prefetch_factor"


class Persistent(_OfWorkers):
    """Workers stay for all epochs."""

    argument = "persistent_workers"


class Context(_OfWorkers):
    """How workers are started."""

    argument = "multiprocessing_context"


class PinMemory(Effect):
    """Batches in page-locked memory."""

    pinned = False

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "pin_memory": bool(self.value)}

    def prefetch(self, batches: Iterator[Item], place: Callable[[Item], Item]) -> Iterator[Item]:
        for batch in batches:
            if not self.is_off and not self.pinned:
                self.pinned = any(tensor.is_pinned() for tensor in tensors_of(batch))
            yield batch

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.pinned:
            raise IneffectiveError("batches are not in pinned memory")
        return "batches are in pinned memory"


class NonBlocking(Effect):
    """Copies to the device do not hold up the program."""

    def non_blocking(self) -> bool:
        return not self.is_off


class SideStream(Effect):
    """The next batch is copied on a stream of its own while this one computes."""

    copied = 0

    def copies_ahead(self) -> bool:
        return not self.is_off

    def prefetch(self, batches: Iterator[Item], place: Callable[[Item], Item]) -> Iterator[Item]:
        if self.is_off:
            yield from batches
            return
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]  # torch leaves it untyped

        def copied() -> Item | None:
            with torch.cuda.stream(side):
                batch = next(batches, None)
                return None if batch is None else place(batch)

        following = copied()
        while following is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(side)
            for tensor in tensors_of(following):
                # Its memory belongs to the side stream; it must not be handed out again while this one reads it.
                tensor.record_stream(current)
            batch, following = following, copied()
            self.copied += 1
            yield batch

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.copied:
            raise IneffectiveError("no batch was copied on the side stream")
        return f"{self.copied} batches copied on a side stream"


class CacheSamples(Effect):
    """Each sample is kept in memory once it was loaded."""

    cached = False

    def dataset(self, dataset: Any) -> Any:
        if self.is_off or not hasattr(dataset, "__getitem__"):
            return dataset
        self.cached = True
        return CachedDataset(dataset)

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.cached:
            raise IneffectiveError("the data is not a dataset with indexed samples")
        if is_on("loader.workers", self.settings) and not self.settings.get("loader.persistent", True):
            raise IneffectiveError("workers that are restarted for each epoch lose their samples")
        return "samples are kept in memory"


class CachedDataset(Dataset[Any]):
    """A dataset that remembers its samples; each worker process remembers those that it has loaded."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._samples: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        if index not in self._samples:
            self._samples[index] = self._dataset[index]
        return self._samples[index]
