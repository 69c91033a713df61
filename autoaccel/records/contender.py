"""ContenderResult: settings whose proof was tried, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from autoaccel.records.base import Record
from autoaccel.records.recipe import StopReason
from autoaccel.records.settings import Settings

ProofResult = Literal[
    "proven", "not faster", "metric drops", "metric unclear", "more than rounding", "fails", "incomplete"
]
"""Where updates alone were compared, `more than rounding` leaves it to runs whether the metric drops."""


OPEN: tuple[ProofResult, ...] = ("metric unclear", "more than rounding", "incomplete")
"""Results of proofs that more time could complete."""


Judgement = Literal["holds", "drops", "slower", "more than rounding", "open"]
"""What a proof says of settings to a search, which goes by it."""


JUDGEMENTS: Mapping[ProofResult, Judgement] = {
    "metric drops": "drops",
    "metric unclear": "open",
    "more than rounding": "more than rounding",
    "not faster": "slower",
    "incomplete": "open",
}
"""What the result of a proof that was not made says to a search; one that fails has a failure instead."""


ProofReason = StopReason | Literal["without what slows it down", "better than what is proven"]
"""Why settings are proven now: the search has stopped, or proven ones hold settings that make them slower, or time was
left to find better ones."""


class ContenderResult(Record, frozen=True):
    """One line of contenders.jsonl: with the pairs in proof.jsonl enough to resume an open proof."""

    settings: Settings
    number: int  # the how manyth contender of the run, from 1: it decides on its share of the error
    result: ProofResult = msgspec.field(name="outcome")
