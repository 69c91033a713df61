"""Claim: settings that a worker of a study set out to measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from optuna.trial import FrozenTrial, TrialState

from autoaccel.records.base import MAX_REASON
from autoaccel.records.bounds import Count
from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.trial import Trial
from autoaccel.search.attributes import written_by_others
from autoaccel.space.domains import check_settings
from autoaccel.space.knobs import KnobContext
from autoaccel.units import excerpt


class _Attributes(msgspec.Struct):
    """What a claim says of itself, among other attributes."""

    worker: str
    settings: Settings
    reading: Count
    given_up: str | None = msgspec.field(default=None, name="given up")


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
    try:
        attributes = msgspec.convert(trial.user_attrs, _Attributes)
    except msgspec.ValidationError as error:
        raise written_by_others(trial.number, excerpt(str(error), MAX_REASON)) from error
    running = trial.state == TrialState.RUNNING
    return Claim(
        number=trial.number,
        worker=attributes.worker,
        settings=attributes.settings,
        reading=attributes.reading,
        running=running,
        # Whoever ended it: a complete record counts.
        finished=not running and "trial" in trial.user_attrs,
        given_up=attributes.given_up,
    )


def refuse_impossible(claims: Sequence[Claim], baseline: Settings, context: KnobContext) -> None:
    """Refuse claims of others on settings that nobody could have here: they may be measured again, or proven.

    Args:
        claims: Of others.
        baseline: The user's own settings.
        context: Where theirs must be possible.

    Raises:
        BadRequestError: Naming the trial, what must hold and what was found.
    """
    for claim in claims:
        check_settings((claim.settings,), baseline, [context], f"trial {claim.number} of the study")


def refuse_other_settings(claim: Claim, trial: Trial) -> None:
    """Refuse the record of a trial whose settings are not those that were claimed, and judged.

    Raises:
        BadRequestError: Naming the trial.
    """
    if trial.settings != claim.settings:
        raise written_by_others(claim.number, "its record is of other settings than it claims")
