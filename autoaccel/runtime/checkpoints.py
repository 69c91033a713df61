"""Checkpoints: a training that was killed resumes from the last one.

Restored exactly: weights, optimizer, schedule, gradient scaler, the order of samples and, in a process alone
without loader workers, every random number. `begins_anew` tells what does not.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Value, format_value
from autoaccel.runtime.data import batches_of
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.progress import Progress
from autoaccel.runtime.ranks import is_alone, leads, read_once

_FORM = "autoaccel/checkpoint/2"


class Checkpoints:
    """The file to which the progress of a training is saved from time to time."""

    def __init__(self, path: Path, every_seconds: float, seed: int) -> None:
        """Name the file; nothing is read or written yet.

        Args:
            path: Where it is, or will be.
            every_seconds: Least time between two checkpoints.
            seed: Of the training.
        """
        self._path = path
        self._every_seconds = every_seconds
        self._seed = seed
        self._written_at = time.monotonic()

    def load(self) -> Progress | None:
        """Return the progress of the training; None if none exists. Only the leader of several ranks reads it.

        Raises:
            BadRequestError: If the file is not a checkpoint, or belongs to another training.
        """
        found: Progress | str | None = read_once(self._read)
        if isinstance(found, str):
            raise BadRequestError(found)
        return found

    def _read(self) -> Progress | str | None:
        """Return the progress in the file, or what is wrong with it, for all ranks to hear; None if it is missing."""
        if not self._path.exists():
            return None
        if not self._path.is_file():
            return f"{self._path}: must be a checkpoint written by autoaccel, in a regular file. Name another file."
        try:
            state: dict[str, Any] = torch.load(self._path, map_location="cpu", weights_only=True)
            form, seed = state.pop("form"), state.pop("seed")
            found = Progress(**state) if form == _FORM else None
        except Exception as error:  # whatever torch raises for a file that is none of its own
            reason = str(error).splitlines()[0]
            return f"{self._path}: must be a checkpoint written by autoaccel ({reason}). Name another file."
        if form != _FORM:
            return f"{self._path}: must be a checkpoint of format {_FORM}, got {form}. Name another file."
        if seed != self._seed:
            return f"{self._path}: belongs to a training with seed {seed}, not {self._seed}. Name another file or seed."
        return found

    def keep(self, loop: Loop) -> None:
        """Save the progress if it is time or the training is over. Of several ranks, only the leader does."""
        over = loop.steps_done >= loop.planned_steps
        if not leads() or not (over or time.monotonic() - self._written_at >= self._every_seconds):
            return
        aside = self._path.with_name(f"{self._path.name}.partial")
        torch.save({"form": _FORM, "seed": self._seed, **loop.progress()._asdict()}, aside)
        aside.replace(self._path)
        self._written_at = time.monotonic()


def begins_anew(loop: Loop, resumed: Progress) -> list[str]:
    """Return, as sentences, what differs from a training that was not interrupted; empty if nothing does."""
    settings, found = loop.applied.settings, []
    names = sorted({*settings, *resumed.settings})
    changed = [
        f"{name} {_shown(resumed.settings.get(name))} -> {_shown(settings.get(name))}"
        for name in names
        if settings.get(name) != resumed.settings.get(name)
    ]
    if changed:
        found.append(f"it ran with other settings ({', '.join(changed)})")
    if loop.whole_samples != resumed.whole_samples:
        found.append(
            f"steps have {loop.whole_samples} samples instead of {resumed.whole_samples}: it resumes at the same "
            "sample, with the same learning rate"
        )
    if batches_of(loop.loader) is None and resumed.place[2]:
        found.append("the data is a stream, which starts over")
    if getattr(loop.loader, "num_workers", 0):
        found.append("loader workers draw different random numbers, if samples depend on any")
    if loop.applied.copies_ahead:
        found.append("the prefetched batch is loaded again, with different random numbers if it depends on any")
    if not is_alone():
        found.append("ranks other than the first draw different random numbers, such as those of dropout")
    return found


def _shown(value: Value | None) -> str:
    return "nothing" if value is None else format_value(value)
