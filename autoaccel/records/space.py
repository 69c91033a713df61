"""SearchSpace: the knobs still open, the values of all others, and what may not be combined."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.base import Record
from autoaccel.records.knob import Risk
from autoaccel.records.settings import Settings, Value


class Forbidden(Record, frozen=True):
    """Settings that may not be chosen together, and why."""

    settings: Settings
    reason: str

    def matches(self, settings: Mapping[str, Value]) -> bool:
        """Whether the settings contain all of the forbidden ones."""
        return all(settings.get(name) == value for name, value in self.settings.items())


class Condition(Record, frozen=True):
    """What another knob must be for a knob to do anything."""

    knob: str
    values: tuple[Value, ...]


class SearchSpace(Record, frozen=True):
    """Knobs still open, fixed values, forbidden combinations."""

    name: str
    open: dict[str, tuple[Value, ...]]
    fixed: Settings  # every other knob
    closed: dict[str, str]  # knob that the space or a person names, but is not searched -> why
    forbidden: tuple[Forbidden, ...] = ()
    conditions: dict[str, tuple[Condition, ...]] = {}  # open knob -> all that must hold for it to do anything
    resting: Settings = {}  # those knobs' values where it does not: the baseline's
    inexact: dict[str, str] = {}  # knob that is exact elsewhere -> why it changes this training's numbers
    risks: dict[str, Risk] = {}  # knob whose risk to this training is not the one that it has elsewhere
    title: str = ""  # what the file says of itself

    @property
    def size(self) -> int:
        """Number of combinations of open values, forbidden ones included."""
        size = 1
        for values in self.open.values():
            size *= len(values)
        return size

    def settle(self, settings: Mapping[str, Value]) -> Settings:
        """Return the settings with the baseline's value for every knob that would do nothing.

        Settings that differ only in such knobs are the same, and come out the same.
        """
        settled = dict(settings)
        # A knob may rest on one that rests itself.
        for _ in self.conditions:
            for name, conditions in self.conditions.items():
                if any(settled.get(condition.knob) not in condition.values for condition in conditions):
                    settled[name] = self.resting[name]
        return settled

    def allows(self, settings: Mapping[str, Value]) -> bool:
        """Whether no forbidden combination is among the settings."""
        return not any(rule.matches(settings) for rule in self.forbidden)
