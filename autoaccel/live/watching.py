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

RECENT_PAIRS = 6
"""By which it is noticed that settings have become slower than the user's own. A guess."""
SLOWER = 1.25
"""Times as long as in the mean: steps in use that take so much are a reason to compare at once. A guess."""
RARELY = 10  # times as long as a block it is at least from one such reason to the next


class Watch:
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
        self._lost = 0.0

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
        return Compared(False, SpeedRule(1 - CONFIDENCE, 1.0).compare(self._pairs[-RECENT_PAIRS:]), 0)

    def steps(self) -> Steps[None]:
        """Yield the settings of each step, until what is in use is slower than what it has replaced."""
        while not self._is_slower(RECENT_PAIRS):
            have_become_longer = yield from self._train_on()
            yield from self._pair()
            made = 1
            # What was seen before they did says nothing of what they are now.
            while have_become_longer and made < RECENT_PAIRS:
                yield from self._pair()
                made += 1
                if (slower := self._is_slower(made)) is not None:
                    if slower:
                        return
                    break

    def _pair(self) -> Steps[None]:
        made = yield from pair_of_blocks(self._best, self._own, self._chance)
        self._pairs.append([(own, best) for best, own in made.turns])
        self._lost = max(0.0, made.lost)

    def _is_slower(self, pairs: int) -> bool | None:
        """Return whether the last so many pairs say so; None: it is open."""
        recent = [[(best, own) for own, best in turns] for turns in self._pairs[-pairs:]]
        return SpeedRule(1 - CONFIDENCE, 1 + NOISE_THRESHOLD).decide(recent)

    def _train_on(self) -> Steps[bool]:
        """Make steps until another pair may be made; return whether it must be, as they take so much longer."""
        passed = 0.0
        block: list[float] = []
        while not self._allowance.may(self._lost, is_faster=True):
            seconds = (yield StepWanted(self._best)).seconds
            if seconds is None:
                continue
            passed += seconds
            block.append(seconds)
            if len(block) >= BLOCK_STEPS and sum(block) >= BLOCK_SECONDS:
                mean, block = statistics.fmean(block), []
                usual = self._allowance.usual_seconds or math.inf
                if mean > SLOWER * usual and passed > RARELY * max(BLOCK_SECONDS, BLOCK_STEPS * mean):
                    return True
        return False
