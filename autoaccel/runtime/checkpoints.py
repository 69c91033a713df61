"""Checkpoints: a training that was killed goes on from where it was last written down.

What goes on exactly: weights, optimizer, schedule, the order of samples and, in a process alone without loader
workers, every random number. What begins anew: the random numbers of loader workers and of other ranks, and the
gradient scaler of float16, which finds its scale again within a few steps.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from autoaccel.errors import BadRequestError
from autoaccel.runtime import ranks
from autoaccel.runtime.loop import Loop, Progress

_FORM = "autoaccel/checkpoint/2"


class Checkpoints:
    """The file in which a training is written down, now and then."""

    def __init__(self, path: Path, every_seconds: float, seed: int) -> None:
        """Keep a file.

        Args:
            path: Where it is, or will be.
            every_seconds: How long to train at least before it is written again.
            seed: Of the training.
        """
        self._path = path
        self._every_seconds = every_seconds
        self._seed = seed
        self._written_at = time.monotonic()

    def load(self) -> Progress | None:
        """Return how far the training has come; None if it has not begun. Only the leader of several ranks reads it.

        Raises:
            BadRequestError: If the file is no checkpoint, or that of another training.
        """
        found: Progress | str | None = ranks.share(self._read() if ranks.leads() else None)
        if isinstance(found, str):
            raise BadRequestError(found)
        return found

    def _read(self) -> Progress | str | None:
        """Return the progress in the file, or what is wrong with it: told rather than raised, for all ranks to hear."""
        if not self._path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(self._path, map_location="cpu", weights_only=True)
            form, seed = state.pop("form"), state.pop("seed")
        except Exception as error:  # whatever torch raises for a file that is none of its own
            reason = str(error).splitlines()[0]
            return f"{self._path}: must be a checkpoint that autoaccel has written ({reason}). Name another file."
        if form != _FORM:
            return f"{self._path}: must be of the form {_FORM}, got {form}. Name another file."
        if seed != self._seed:
            return f"{self._path}: is of a training from seed {seed}, not {self._seed}. Name another file or seed."
        return Progress(**state)

    def keep(self, loop: Loop) -> None:
        """Write the training down if it is time, or over. Only the leader of several ranks does."""
        over = loop.steps_done >= loop.planned_steps
        if not ranks.leads() or not (over or time.monotonic() - self._written_at >= self._every_seconds):
            return
        aside = self._path.with_name(f"{self._path.name}.partial")
        torch.save({"form": _FORM, "seed": self._seed, **loop.progress()._asdict()}, aside)
        aside.replace(self._path)
        self._written_at = time.monotonic()
