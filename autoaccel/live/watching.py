"""Settings in use, compared with the user's own now and then for as long as the training goes on."""

from __future__ import annotations

import math
import random
import statistics

from autoaccel.live.allowance import Allowance
from autoaccel.live.blocks import BLOCK_SECONDS, BLOCK_STEPS, Compared, Steps, StepWanted, pair_of_blocks
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import CONFIDENCE, NOISE_THRESHOLD, Pair
from autoaccel.statistics.deciding import SpeedRule

RECENT_PAIRS = (2, 3, 6, 12, 24)
"""The last so many show that settings have become slower than the user's own: the fewer, the slower they must be; the
more, the more their steps may scatter."""
SLOWER = 1.25
"""Times as long as in the mean, or as under what they have replaced: steps in use that take so much are a reason to
compare at once. A guess. Pairs that show less wait their turn, so that what all say is true of the whole time."""
RARELY = 10  # times as long as a block it is at least from one such reason to the next

SHORT_STEP = 0.01
"""Seconds: to look at a step takes 0.1 to 0.2 ms (two cores, torch 2.13), more than a hundredth of a shorter one."""
ENOUGH_PAIRS, ENOUGH_STEPS = 8, 1000  # after which such steps are made without anybody looking, as in plain Python


class LiveWatch:
    """Compares settings in use with those that they have replaced; their steps go on to be the training's own."""

    def __init__(self, own: Settings, best: Settings, allowance: Allowance, chance: random.Random) -> None:
        """Begin with nothing compared.

        Args:
            own: What they have replaced.
            best: What is in use.
            allowance: What it may cost.
            chance: Decides on the order of blocks.
        """
        self._own = own
        self._best = best
        self._allowance = allowance
        self._chance = chance
        self._pairs: list[list[Pair]] = []
        self._means: list[Pair] = []  # of their blocks, as ratios: of what is in use, and of what it has replaced
        self._lost = 0.0  # seconds, by the last pair
        self._is_slow = False  # what is in use, by the last pair
        self._made = 0  # steps beside these pairs

    @property
    def pairs(self) -> int:
        """How many pairs of blocks were made."""
        return len(self._pairs)

    @property
    def comparison(self) -> Comparison | None:
        """What all pairs say of the whole time since they began; None if they are too few."""
        return SpeedRule(1 - CONFIDENCE, 1.0).compare(self._pairs)

    @property
    def compared(self) -> Compared:
        """What the last pairs say."""
        return Compared(False, SpeedRule(1 - CONFIDENCE, 1.0).compare(self._pairs[-max(RECENT_PAIRS) :]), 0)

    def steps(self) -> Steps[bool]:
        """Yield the settings of each step, until what is in use is slower than what it has replaced.

        Return whether it is; False where enough was seen of steps that are too short to be looked at any longer.
        """
        while not any(self._is_slower(pairs) for pairs in RECENT_PAIRS):
            if self.pairs >= ENOUGH_PAIRS and self._made >= ENOUGH_STEPS and self._allowance.usual_seconds < SHORT_STEP:
                return False
            yield from self._train_on()
            made = yield from pair_of_blocks(self._best, self._own, self._chance)
            self._pairs.append([(own, best) for best, own in made.turns])
            self._means.append((1.0, made.times_slower))
            self._lost = max(0.0, made.lost)  # nothing where they are slower: the next pair comes at once
        return True

    def _is_slower(self, pairs: int) -> bool:
        """Return whether the last so many pairs say so.

        By the means of their blocks: where steps are slow every second or fifth time, no middle tells.
        """
        recent = [[means] for means in self._means[-pairs:]]
        rule = SpeedRule((1 - CONFIDENCE) / len(RECENT_PAIRS), 1 + NOISE_THRESHOLD)
        return len(recent) == pairs and bool(rule.decide(recent))

    def _train_on(self) -> Steps[None]:
        """Make steps until another pair may be made, or must be: they take so much longer."""
        passed = 0.0
        block: list[float] = []
        while not self._allowance.may(self._lost, is_faster=True):
            seconds = (yield StepWanted(self._best)).seconds
            self._made += 1
            if seconds is None:
                continue
            passed += seconds
            block.append(seconds)
            if len(block) >= BLOCK_STEPS and sum(block) >= BLOCK_SECONDS:
                mean, block = statistics.fmean(block), []
                usual = self._allowance.usual_seconds or math.inf
                if mean > SLOWER * usual and passed > RARELY * max(BLOCK_SECONDS, BLOCK_STEPS * mean):
                    return
