"""Arguments of the DataLoader."""

from __future__ import annotations

from typing import Any

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect


class Workers(Effect):
    """Processes that prepare batches; they stay for all epochs, since starting them anew costs each epoch."""

    def __init__(self, value: Value) -> None:
        self.count = int(value)

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "num_workers": self.count, "persistent_workers": self.count > 0}


class PinMemory(Effect):
    """Batches in page-locked memory."""

    def __init__(self, value: Value) -> None:
        self.pinned = bool(value)

    def loader_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "pin_memory": self.pinned}
