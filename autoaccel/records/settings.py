"""Settings: one value per knob, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec import Meta

from autoaccel.records.bounds import Number

Text: TypeAlias = Annotated[str, Meta(max_length=16_384)]
"""Of a value: longer than any path or list of CPUs."""

Whole: TypeAlias = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]

Value: TypeAlias = bool | Whole | Number | Text
Settings: TypeAlias = Annotated[dict[Annotated[str, Meta(max_length=256)], Value], Meta(max_length=1024)]
"""There are about sixty knobs, besides those of other packages and of a script's arguments."""


def settings_key(settings: Mapping[str, Value]) -> str:
    """Return a text that is equal for equal settings, whatever their order: `a=1 b=off`."""
    return " ".join(f"{name}={format_value(value)}" for name, value in sorted(settings.items()))


def format_value(value: Value) -> str:
    """Return a value as people type it: booleans as `on` and `off`."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def changed(settings: Mapping[str, Value], baseline: Mapping[str, Value]) -> Settings:
    """Return the settings whose value is not the baseline's."""
    return {
        name: value
        for name, value in settings.items()
        if name not in baseline or (type(baseline[name]), baseline[name]) != (type(value), value)
    }


def describe_change(settings: Mapping[str, Value], baseline: Mapping[str, Value]) -> str:
    """Return what differs from the baseline in one line, or `your own settings`."""
    difference = changed(settings, baseline)
    if not difference:
        return "your own settings"
    return ", ".join(f"{name}={format_value(value)}" for name, value in difference.items())
