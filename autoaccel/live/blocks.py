"""Settings compared by a training's own steps: in short blocks, each beside one of what it is compared with."""

from __future__ import annotations

import random
import statistics
from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

from autoaccel.records.rounding import UpdatesCompared
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import Pair
from autoaccel.statistics.deciding import SpeedRule

SETTLING_STEPS = 1
"""Of a block, that do not count: pages, pools and caches of the former settings are still in use. A guess."""
BLOCK_SECONDS, BLOCK_STEPS = 0.4, 3
"""What a block takes at least. Shorter ones would lose more to settling; longer ones would meet other conditions than
the block beside them. Guesses, too: no study has chosen them."""
MAX_PAIRS = 24  # of blocks; by then it must be decided
BLOCKS_BEFORE = 8
"""Of what is in use, before settings are taken on that cannot be taken back exactly: blocks in turns would show them
beside what they have left behind."""

Result = TypeVar("Result")


class StepWanted(NamedTuple):
    """How the next step of the training is made."""

    settings: Settings
    beside: Settings | None = None  # whose update on its batch is computed beside it


class StepTaken(NamedTuple):
    """What came of a step."""

    seconds: float | None  # None where they do not count: something else was done beside it, such as an evaluation
    beside: UpdatesCompared | str | None = None  # what updates beside say once there are enough, or why they cannot


Steps: TypeAlias = Generator[StepWanted, StepTaken, Result]
"""Yields how each step is to be made, is sent what came of it, and returns its result."""


class Compared(NamedTuple):
    """What blocks of steps say of settings."""

    is_faster: bool
    comparison: Comparison | None  # None where fewer than two pairs of blocks were made
    steps: int  # that were made under the settings


def compare_in_blocks(own: Settings, other: Settings, rule: SpeedRule, chance: random.Random) -> Steps[Compared]:
    """Compare two settings until the rule decides; the mean of a block counts, because a run pays the mean.

    Args:
        own: What is compared with.
        other: What may be faster.
        rule: When blocks show that it is worth having, or that further ones will hardly show it.
        chance: Decides which of two blocks comes first; the training's own random numbers are none of ours.
    """
    pairs: list[list[Pair]] = []
    steps = 0
    while len(pairs) < rule.max_pairs:
        means = [0.0, 0.0]
        for side in chance.sample((0, 1), 2):
            means[side], made = yield from _block((own, other)[side])
            steps += made * side
        pairs.append([(means[0], means[1])])
        if (decided := rule.decide(pairs)) is not None:
            return Compared(decided, rule.compare(pairs), steps)
    return Compared(False, rule.compare(pairs), steps)


def compare_before_and_after(own: Settings, other: Settings, rule: SpeedRule) -> Steps[Compared]:
    """Compare settings that leave something behind with those before them; see `compare_in_blocks`.

    What changes with time tells one from the other as the settings do, so these are not compared in turns for longer
    than they must be.

    Args:
        own: What is in use.
        other: What may be faster.
        rule: When blocks show that it is worth having.
    """
    before: list[float] = []
    while len(before) < BLOCKS_BEFORE:
        mean, _ = yield from _block(own)
        before.append(mean)
    pairs: list[list[Pair]] = []
    steps = 0
    for mean in before:
        after, made = yield from _block(other)
        steps += made
        pairs.append([(mean, after)])
        if (decided := rule.decide(pairs)) is not None:
            return Compared(decided, rule.compare(pairs), steps)
    return Compared(False, rule.compare(pairs), steps)


def _block(settings: Settings) -> Steps[tuple[float, int]]:
    """Make a block; return the mean seconds of its steps that count, and how many were made."""
    made = 0
    while made < SETTLING_STEPS:
        yield StepWanted(settings)
        made += 1
    counted: list[float] = []
    while len(counted) < BLOCK_STEPS or sum(counted) < BLOCK_SECONDS:
        step = yield StepWanted(settings)
        made += 1
        if step.seconds is not None:
            counted.append(step.seconds)
    return statistics.fmean(counted), made
