"""What earlier runs of the same training have found, and what this one leaves for the next."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from autoaccel.errors import BadRequestError
from autoaccel.machine.torch_version import read_torch_version
from autoaccel.records.live import HISTORY_SCHEMA, Remembered
from autoaccel.records.machine import Machine
from autoaccel.records.messages import TuneLive
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.runs.history import History, entry_name


class Memory:
    """The entry of one training on this machine. What goes wrong with it is said, and stops nothing."""

    def __init__(self, task: TuneLive, machine: Machine, say: Callable[[str], None]) -> None:
        """Look whether there is one.

        Args:
            task: Names the training; or says that nothing is to be remembered.
            machine: That it trains on.
            say: Told what is wrong with what is kept.
        """
        self._task = task
        self._machine = machine
        self._say = say
        self._torch = read_torch_version()
        self._name = entry_name(task.training_key, machine, self._torch)
        self._history: History | None = None
        self.entry: Remembered | None = None
        """Of earlier runs."""
        if not task.training_key:
            return
        try:
            self._history = History()
            self.entry = self._history.read(self._name)
        except (BadRequestError, OSError) as error:
            self._say(f"what earlier runs have found is left aside: {error}")

    def keep(self, settings: Settings, found: Comparison | None, searched: bool) -> None:
        """Remember what this run goes on with.

        Args:
            settings: That are not the user's own; none: nothing is remembered.
            found: What they are worth.
            searched: Whether all was tried that may be faster.
        """
        if self._history is None:
            return
        before = self.entry if self.entry is not None and self.entry.settings == settings else None
        # One that was too short to measure anything leaves what was known.
        known = found or before
        entry = Remembered(
            schema=HISTORY_SCHEMA,
            training=self._task.training,
            machine=self._machine.cpu.model,
            torch=self._torch,
            ended=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            runs=1 + (before.runs if before is not None else 0),
            settings=settings,
            speedup=known.speedup if known is not None else None,
            low=known.low if known is not None else None,
            high=known.high if known is not None else None,
            searched=searched or (before is not None and before.searched),
        )
        try:
            if settings:
                self._history.write(self._name, entry)
            else:
                self._history.forget(self._name)
        except OSError as error:
            self._say(f"what it has found is not kept for the next run: {error}")
            self._history = None
