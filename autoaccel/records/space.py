"""SearchSpace: the knobs still open, the values of all others, and what may not be combined."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.base import Record
from autoaccel.records.settings import Settings, Value


class Forbidden(Record, frozen=True):
    """Settings that may not be chosen together, and why."""

    settings: Settings
    reason: str

    def matches(self, settings: Mapping[str, Value]) -> bool:
        """Whether the settings contain all of the forbidden ones."""
        return all(settings.get(name) == value for name, value in self.settings.items())


class SearchSpace(Record, frozen=True):
    """Knobs still open, fixed values, forbidden combinations."""

    name: str
    open: dict[str, tuple[Value, ...]]
    fixed: Settings  # every other knob
    closed: dict[str, str]  # knob that is not searched -> why
    forbidden: tuple[Forbidden, ...] = ()

    @property
    def size(self) -> int:
        """Number of combinations of open values, forbidden ones included."""
        size = 1
        for values in self.open.values():
            size *= len(values)
        return size

    def allows(self, settings: Mapping[str, Value]) -> bool:
        """Whether no forbidden combination is among the settings."""
        return not any(rule.matches(settings) for rule in self.forbidden)
