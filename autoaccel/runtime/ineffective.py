"""The Failure of a training whose settings did nothing, or no longer have their effect."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.messages import Failure
from autoaccel.runtime.paced import Paced


def failure_of(paced: Paced, ineffective: Mapping[str, str], what: str) -> Failure | None:
    """Return the Failure for settings without an effect; None if the training itself states all of them.

    A value that the user states without effect must not end the measurement of their own settings.

    Args:
        paced: The training under the settings.
        ineffective: Knob -> why its value has no effect.
        what: What is wrong with each, as in "did nothing".
    """
    tried = {
        name: reason for name, reason in ineffective.items() if paced.stated.get(name) != paced.applied.settings[name]
    }
    said = "; ".join(f"{name} {what}: {reason}" for name, reason in tried.items())
    return Failure(kind="ineffective", message=said, signature=", ".join(sorted(tried))) if tried else None


def did_nothing(paced: Paced) -> Failure | None:
    """Return the Failure if a setting took no effect in the first steps; None if all did."""
    return failure_of(paced, paced.applied.check()[1], "did nothing")


def no_longer_works(paced: Paced) -> Failure | None:
    """Return the Failure if a setting that took effect no longer does; None if all still do."""
    return failure_of(paced, paced.applied.check()[1], f"took effect, but no longer after {paced.steps_done:,} steps")
