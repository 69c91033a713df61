"""What trainings that were tuned while they ran have found: kept in the user's cache folder, for the next of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.machine.user_folders import user_cache
from autoaccel.records.base import read_json, write_json
from autoaccel.records.live import HISTORY_SCHEMA, Remembered
from autoaccel.records.machine import Machine
from autoaccel.records.workload import Workload

_MAX_ENTRIES = 500  # the oldest go first


def training_key(workload: Workload) -> str:
    """Return a digest of what is trained: file, entry or module, working folder and arguments."""
    told = [workload.path, workload.part, getattr(workload, "folder", ""), *workload.arguments]
    return _digest(told)


def entry_name(training: str, machine: Machine, torch: str) -> str:
    """Return the name of the entry of a training on a machine.

    Args:
        training: Its `training_key`.
        machine: That it trains on.
        torch: Its version.
    """
    cpu, gpus = machine.cpu, (gpu.name for gpu in machine.gpus)
    return _digest([training, torch, cpu.model, *cpu.features, str(machine.usable_cores), *gpus])


def _digest(parts: list[str]) -> str:
    """Return a short text that differs where any of these do."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]


class History:
    """The user's folder of what was found, one file for each training and machine."""

    def __init__(self, folder: Path | None = None) -> None:
        """Look at a folder; it need not exist.

        Args:
            folder: None for the user's own.

        Raises:
            OSError: If the user has no home.
        """
        self.folder = folder or user_cache() / "autoaccel" / "history"

    def read(self, name: str) -> Remembered | None:
        """Return an entry; None if there is none.

        Raises:
            BadRequestError: If it cannot be read, is no entry, or is not the user's own.
        """
        path = self._path(name)
        if not path.exists():
            return None
        owner = path.stat().st_uid
        if owner != os.geteuid():
            raise BadRequestError(f"{path}: belongs to another user.")
        return read_json(path, Remembered, f"an entry of the history (schema {HISTORY_SCHEMA})")

    def write(self, name: str, entry: Remembered) -> None:
        """Write an entry in the place of the one before it.

        Raises:
            OSError: If it cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(name)
        write_json(path, entry)
        path.chmod(0o600)
        for old in self._paths()[:-_MAX_ENTRIES]:
            old.unlink(missing_ok=True)

    def forget(self, name: str) -> None:
        """Remove an entry, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def entries(self) -> Iterator[tuple[str, Remembered | BadRequestError]]:
        """Yield the names of all entries, the latest first, each with its entry or with what is wrong with it."""
        for path in reversed(self._paths()):
            try:
                entry = self.read(path.stem)
            except BadRequestError as error:
                yield path.stem, error
            else:
                if entry is not None:
                    yield path.stem, entry

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9a-f]*.json"), key=lambda path: path.stat().st_mtime)
