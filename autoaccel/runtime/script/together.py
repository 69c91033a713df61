"""The processes of a script that train together: one of them says under which settings all make which step."""

from __future__ import annotations

import itertools
import os

from torch import distributed
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # not listed as public

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.settings import Settings

_trainings = itertools.count()  # of this process that were tuned: each has keys of its own
_FAILED = "failed"


class SwitchAt(Record, frozen=True):
    """What all processes change at the same step."""

    step: int  # the first that is made so, counted from 1 by every process for itself
    settings: Settings
    is_last: bool = False  # whether nothing changes any more


NOTHING_MORE = SwitchAt(step=0, settings={}, is_last=True)
"""Nothing changes: what decides has failed before it began."""


class Together:
    """Reaches the other processes by the store in which they have met: no step waits for it, and no collective is made.

    Gradients meet in every step, so that no process is ahead of another by a whole one. What is told between two steps
    is therefore there for all of them before the step after the next begins.
    """

    def __init__(self) -> None:
        """Begin to talk; all processes of a training must."""
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # a launcher may keep its store for the next one
        whole = distributed.distributed_c10d._get_default_store()
        self._store = PrefixStore(f"autoaccel-{attempt}-{next(_trainings)}", whole)
        self._others = [f"heard-{rank}" for rank in range(1, distributed.get_world_size())]
        self._rank = distributed.get_rank()
        self._told = 0  # switches, by the one that decides
        self._heard = 0  # of them, by another

    @property
    def leads(self) -> bool:
        """Whether this process decides."""
        return self._rank == 0

    def begin(self) -> None:
        """Tell the one that decides that this process hears."""
        self._store.set(f"heard-{self._rank}", "")

    def fail(self) -> None:
        """Tell the one that decides that this process hears no more."""
        self._store.set(_FAILED, "")

    def all_hear(self) -> bool:
        """Whether all others do."""
        return bool(self._store.check(self._others))

    def tell(self, switch: SwitchAt) -> None:
        """Tell all others what changes when.

        Raises:
            RuntimeError: If one of them hears no more.
        """
        self._store.set(f"switch-{self._told}", encode(switch).decode())
        self._told += 1
        if self._store.check([_FAILED]):
            raise RuntimeError("another of the processes that train together cannot be tuned")

    def hear(self) -> SwitchAt | None:
        """Return what the one that decides has told last, unless it was returned before."""
        key = f"switch-{self._heard}"
        if not self._store.check([key]):
            return None
        self._heard += 1
        return decode(self._store.get(key), SwitchAt)


def met() -> Together | None:
    """Return how this process reaches those that it trains with; None if it trains alone."""
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    return Together()
