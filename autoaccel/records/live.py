"""What a training that is tuned while it runs has tried, and what the next run of it is to remember."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, NotNegative, Seconds, Sentence, Speedup
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison

HISTORY_SCHEMA: Literal["autoaccel/history/1"] = "autoaccel/history/1"

Became = Literal["kept", "left", "given up"]
"""What became of settings: the training goes on with them, or it does not; given up: it had gone on with them."""


class LiveTried(Record, frozen=True):
    """A line of live.jsonl: settings that were compared with those in use, by steps of the training."""

    after_seconds: Seconds  # since the process has imported torch, or since another training has begun
    after_steps: Count  # that it has made since it was known what it trains
    settings: Settings  # that are not the user's own
    against: Settings  # likewise, of those in use
    comparison: Comparison | None  # None where fewer than two blocks of each were made
    rounding: RoundingEvidence | None  # None where nothing was to be shown, or they are not faster
    became: Became  # of them
    harm: str = ""  # for which they were given up, in words
    training: Count = 1  # of those that the process has made one after the other


class Remembered(Record, frozen=True):
    """What the last run of a training on this machine went on with."""

    schema: Literal["autoaccel/history/1"]
    training: Sentence  # its file, and what of it; never its arguments, which may be secret
    machine: Sentence
    torch: str
    ended: str  # ISO 8601, UTC
    runs: Count  # that it rests on
    settings: Settings  # that are not the user's own
    speedup: Speedup | None  # of steps, against the user's own settings; None if too few were compared
    low: NotNegative | None
    high: NotNegative | None
    searched: bool  # whether all was tried that may be faster
