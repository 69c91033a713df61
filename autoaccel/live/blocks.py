"""Settings compared by a training's own steps: in short blocks, each beside one of what it is compared with."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from autoaccel.records.rounding import UpdatesCompared
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import Pair
from autoaccel.statistics.deciding import SpeedRule
from autoaccel.statistics.spared import Spared, SystemTime

SETTLING_STEPS = 1
"""Of a block, that do not count: pages, pools and caches of the former settings are still in use. A guess."""
BLOCK_SECONDS, BLOCK_STEPS = 0.4, 3
"""What a block takes at least. Shorter ones would lose more to settling; longer ones would meet other conditions than
the block beside them. Guesses, too: no study has chosen them."""
MAX_PAIRS = 12  # of blocks; by then it must be decided
KNOWN_BLOCKS = 3
"""Before settings that cannot be taken back exactly and that an earlier run of the training has found: blocks in turns
would show them beside what they have left behind."""
SYSTEM_LEFT = 0.5
"""Of the system's time in a step, at most, after settings were taken on that are to save it: else whatever has made
steps faster were not these. A guess."""
TOO_SLOW = 1.5
"""Times as long as under what is in use: after as many seconds as a block of steps takes that are so much slower, it
ends. A guess."""

FAR_TOO_SLOW = 2.0
"""Times as long: one pair of blocks that shows it is enough to give settings up, which claims nothing. A guess."""
HOPELESS = 10.0
"""Times as long, and longer than a block: the first step shows it already. A guess."""
TURNS = 8
"""Parts of a block that are told apart."""
POINTS = 3
"""Of a training, at which updates are compared, as where two processes are: their median leaves out one that is not
like the others."""

Result = TypeVar("Result")


class StepWanted(NamedTuple):
    """How the next step of the training is made."""

    settings: Settings
    beside: Settings | None = None  # whose update on its batch is computed beside it
    points: int = POINTS  # of the training, at which that is done


class StepTaken(NamedTuple):
    """What came of a step."""

    seconds: float | None  # None where they do not count: something else was done beside it, such as an evaluation
    beside: UpdatesCompared | str | None = None  # what updates beside say once there are enough, or why they cannot
    harm: str = ""  # that its loss shows, in words
    doubt: str = ""  # what its loss shows that may be harm, in words: updates must tell
    size: int = 0  # numbers in its batch; 0 where nobody knows
    system: float = 0.0  # CPU seconds that the operating system spent on it, in its own thread


Steps: TypeAlias = Generator[StepWanted, StepTaken, Result]
"""Yields how each step is to be made, is sent what came of it, and returns its result."""


Wait: TypeAlias = Callable[[float | None], Steps[None]]
"""Trains on until so many seconds may be lost; None where nobody has seen yet what a block loses."""


class Block(NamedTuple):
    """Steps in a row under the same settings."""

    seconds: list[float]  # of those that count
    steps: int  # that were made
    together: int = 1  # steps whose batches come at about the same time, as from so many workers
    system: float = 0.0  # CPU seconds of those that count that the operating system spent on them

    @property
    def mean(self) -> float:
        """Seconds of a step."""
        return statistics.fmean(self.seconds)

    @property
    def system_time(self) -> SystemTime:
        """What the system spends on a step."""
        return SystemTime(self.system / len(self.seconds), self.mean)


class PairMade(NamedTuple):
    """A block under each of two settings."""

    turns: list[Pair]
    steps: int  # under the second
    lost: float  # seconds, by these
    times_slower: float  # the second than the first
    last: int  # which came last: 0 or 1


class Compared(NamedTuple):
    """What blocks of steps say of settings."""

    is_faster: bool
    comparison: Comparison | None  # None where fewer than two pairs of blocks were made
    steps: int  # that were made under the settings
    pairs: Sequence[Sequence[Pair]] = ()
    """Of settings that leave something behind, so that they were compared with what was before them; none of others."""
    spared: Sequence[Spared] = ()
    """Of these, what the system spends on a step in each pair of blocks."""


def compare_in_blocks(
    own: Settings, other: Settings, rule: SpeedRule, chance: random.Random, wait: Wait
) -> Steps[Compared]:
    """Compare two settings until the rule decides; the mean of a block counts, because a run pays the mean.

    Args:
        own: What is compared with, and in use meanwhile.
        other: What may be faster.
        rule: When blocks show that it is worth having, or that further ones will hardly show it.
        chance: Decides which of two blocks comes first; the training's own random numbers are none of ours.
        wait: Trains on until a block under the other settings may cost what the last one did.
    """
    pairs: list[list[Pair]] = []
    steps, lost = 0, None
    first: int | None = 0  # what own steps take says when others are hopeless
    while len(pairs) < rule.max_pairs:
        yield from wait(lost)
        made = yield from pair_of_blocks(own, other, chance, first)
        pairs.append(made.turns)
        # Until workers have batches ready, steps do not count: so what came last goes on.
        first = made.last if _differ_in_workers(own, other) else None
        steps += made.steps
        lost = made.lost
        if (decided := rule.decide(pairs)) is not None:
            return Compared(decided, rule.compare(pairs), steps)
        if made.times_slower > FAR_TOO_SLOW:
            break
    return Compared(False, rule.compare(pairs), steps)


def _differ_in_workers(one: Settings, other: Settings) -> bool:
    return any(one.get(name) != other.get(name) for name in ("loader.workers", "loader.prefetch"))


def pair_of_blocks(own: Settings, other: Settings, chance: random.Random, first: int | None = None) -> Steps[PairMade]:
    """Make a block under each of two settings; see `compare_in_blocks`.

    Args:
        own: The first of them.
        other: The second.
        chance: Decides which comes first,
        first: unless it is to be this one: 0 or 1.
    """
    blocks: dict[int, Block] = {}
    order = chance.sample((0, 1), 2) if first is None else [first, 1 - first]
    for side in order:
        blocks[side] = yield from _block((own, other)[side], blocks[0].mean if side and blocks else math.inf)
    one, two = blocks[0], blocks[1]
    lost = (two.mean - one.mean) * two.steps
    return PairMade(turns_of(one, two), two.steps, lost, two.mean / one.mean, order[1])


def turns_of(one: Block, two: Block) -> list[Pair]:
    """Return the steps of two blocks as turns: a rare long step is in one of them, and is told from what is usual."""
    count = max(1, min(TURNS, *(len(block.seconds) // block.together for block in (one, two))))
    return list(zip(_parts(one, count), _parts(two, count), strict=True))


def _parts(block: Block, count: int) -> list[float]:
    """Return the means of so many parts of nearly the same length; steps whose batches come together stay together."""
    groups = len(block.seconds) // block.together
    ends = [block.together * (groups * number // count) for number in range(count)]
    return [statistics.fmean(block.seconds[begin:end]) for begin, end in itertools.pairwise([*ends, None])]


def compare_before_and_after(before: Sequence[Block], other: Settings, rule: SpeedRule) -> Steps[Compared]:
    """Compare settings that leave something behind with those before them.

    What changes with time tells one from the other as the settings do: the rule must have room for it, and hardly ever
    shows what they win. It is shown by what the operating system spends: that becomes far less by no machine's drift,
    and it is CPU time that the step had to wait for, or that another could have used (on two cores, nine trainings of
    0.3 to 3.2 s a step in which it was 3 % or more: kept memory took away 79 to 99 % of it, and where it had been half
    of the step, made that 1.5 and 1.6 times as fast). So they are faster if it is saved and the steps are not shown to
    be slower.

    Args:
        before: Steps under what is in use.
        other: What may be faster.
        rule: What the comparison has room for.
    """
    after = yield from blocks_in_a_row(other, len(before), statistics.fmean(block.mean for block in before))
    pairs = [turns_of(one, two) for one, two in zip(before, after, strict=False)]
    found = rule.compare(pairs)
    # In the first steps memory comes from the system that is kept only from then on.
    saves = system_share(after[len(after) // 2 :]) < SYSTEM_LEFT * system_share(before)
    is_faster = len(after) == len(before) and saves and found is not None and found.high >= 1
    spared = [Spared(one.system_time, two.system_time) for one, two in zip(before, after, strict=False)]
    return Compared(is_faster, found, sum(block.steps for block in after), pairs, spared)


def system_share(blocks: Sequence[Block]) -> float:
    """Return the CPU time that the operating system spent on steps, as a share of the time that they took."""
    return sum(block.system for block in blocks) / sum(sum(block.seconds) for block in blocks)


def blocks_in_a_row(settings: Settings, count: int, expected: float = math.inf) -> Steps[list[Block]]:
    """Make so many blocks under the same settings; fewer where these are too slow. Long steps are blocks of their own.

    Args:
        settings: Of all steps.
        count: How many.
        expected: Seconds of a step under other settings.
    """
    blocks: list[Block] = []
    while len(blocks) < count:
        blocks.append((yield from _block(settings, expected, 0 if blocks else SETTLING_STEPS, 1)))
        taken = [seconds for block in blocks for seconds in block.seconds]
        if len(taken) >= BLOCK_STEPS and statistics.fmean(taken) > TOO_SLOW * expected:
            break
    return blocks


def _block(
    settings: Settings, expected: float = math.inf, settling: int = SETTLING_STEPS, least: int = BLOCK_STEPS
) -> Steps[Block]:
    """Make a block; one that takes far longer than another did ends before it has lost more.

    Args:
        settings: Of its steps.
        expected: Seconds of a step of the other.
        settling: Steps that do not count.
        least: Steps that do, at least.
    """
    # Those of several workers are ready together: a step waits for the first of them, and hardly for the others.
    together = max(1, int(settings.get("loader.workers", 0)))
    made = 0
    while made < settling:
        step = yield StepWanted(settings)
        made += 1
        if step.seconds is not None and step.seconds > max(BLOCK_SECONDS, HOPELESS * expected):
            return Block([step.seconds], made, together)
    counted: list[float] = []
    system = 0.0
    while len(counted) < least * together or sum(counted) < BLOCK_SECONDS or len(counted) % together:
        step = yield StepWanted(settings)
        made += 1
        if step.seconds is not None:
            counted.append(step.seconds)
            system += step.system
        if sum(counted) > max(BLOCK_SECONDS, least * together * TOO_SLOW * expected):
            break
    return Block(counted, made, together, system)
