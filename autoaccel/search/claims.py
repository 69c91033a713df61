"""Claim: settings that a worker of a study set out to measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from optuna.trial import FrozenTrial, TrialState

from autoaccel.records.settings import Settings, settings_key


class Claim(NamedTuple):
    """Settings that a worker set out to measure, and whether it did."""

    number: int  # in the order of the study
    worker: str
    settings: Settings
    reading: int  # how often they had been measured before
    running: bool
    finished: bool  # its record is complete
    given_up: str | None

    @property
    def key(self) -> str:
        """Equal for equal settings."""
        return settings_key(self.settings)

    @property
    def holds(self) -> bool:
        """Whether nobody else should measure the same."""
        return self.running or self.finished


def claims_among(trials: Sequence[FrozenTrial]) -> list[Claim]:
    """Return the trials of a study that are complete claims."""
    return [_claim_of(trial) for trial in trials if "settings" in trial.user_attrs]


def _claim_of(trial: FrozenTrial) -> Claim:
    attributes = trial.user_attrs
    running = trial.state == TrialState.RUNNING
    return Claim(
        number=trial.number,
        worker=attributes["worker"],
        settings=attributes["settings"],
        reading=attributes["reading"],
        running=running,
        # Whoever ended it: a complete record counts.
        finished=not running and "trial" in attributes,
        given_up=attributes.get("given up"),
    )
