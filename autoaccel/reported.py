"""report(): a training script says what it has reached. Nothing comes of it unless the script is being tuned.

Imports nothing: a script may call this in its loop, in processes in which nobody listens.
"""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str, float], None]] = []


def report(name: str, value: float) -> None:
    """Say what a metric of this training is now, for `autoaccel tune train.py --metric NAME`.

    Does nothing in any other process: it can stay in the script.

    Args:
        name: Of the metric.
        value: A number, or what float() makes one, such as a tensor with one element.
    """
    for hear in _listeners:
        hear(name, float(value))


def hear_reports(hear: Callable[[str, float], None]) -> None:
    """Call a function with each name and value that is reported in this process from now on."""
    _listeners.append(hear)
