"""What a training that is tuned while it runs has tried: the lines of live.jsonl."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, Seconds
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison

Became = Literal["kept", "left", "given up"]
"""What became of settings: the training goes on with them, or it does not; given up: it had gone on with them."""


class LiveTried(Record, frozen=True):
    """Settings that were compared with those in use, by steps of the training."""

    after_seconds: Seconds  # since the process has imported torch
    after_steps: Count  # that it has made since it was known what it trains
    settings: Settings  # that are not the user's own
    against: Settings  # likewise, of those in use
    comparison: Comparison | None  # None where fewer than two blocks of each were made
    rounding: RoundingEvidence | None  # None where nothing was to be shown, or they are not faster
    became: Became  # of them
    harm: str = ""  # for which they were given up, in words
