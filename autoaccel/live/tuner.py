"""What is tried while a training runs, and what it goes on with."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from autoaccel.live.blocks import MAX_PAIRS, Compared, Steps, StepWanted, compare_before_and_after, compare_in_blocks
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, Value, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.space.change import Change
from autoaccel.statistics.comparison import CONFIDENCE, NOISE_THRESHOLD
from autoaccel.statistics.deciding import SpeedRule
from autoaccel.statistics.rounding import judge_updates


class Tried(NamedTuple):
    """Settings that were compared with those in use."""

    settings: Settings
    against: Settings
    compared: Compared
    rounding: RoundingEvidence | None = None  # None where nothing was to be shown, or they are not faster

    @property
    def is_kept(self) -> bool:
        """Whether the training goes on with them."""
        return self.compared.is_faster and (self.rounding is None or self.rounding.verdict == "holds")


class LiveTuner:
    """Goes from the user's own settings to faster ones, by the steps of the training itself."""

    def __init__(
        self,
        own: Settings,
        guesses: Sequence[Settings],
        space: SearchSpace,
        lasting: Collection[str],
        tell: Callable[[Tried], None],
        chance: random.Random,
    ) -> None:
        """Begin with the user's own settings.

        Args:
            own: The user's own settings.
            guesses: Settings that are tried first, the most promising first.
            space: Whose other values are tried after these, one by one.
            lasting: Knobs that leave something behind when they are taken back: they come last.
            tell: Told of each comparison that has ended.
            chance: Decides on the order of blocks.
        """
        self.best = own
        """What the training goes on with: the fastest so far."""
        self._own = own
        self._guesses = guesses
        self._space = space
        self._lasting = lasting
        self._tell = tell
        self._chance = chance
        self._tried = {settings_key(own)}
        self._why_not_beside = ""

    def steps(self) -> Steps[None]:
        """Yield the settings of each step, until all that may be faster was tried."""
        for guess in self._guesses:
            passing = {name: self._own[name] if name in self._lasting else value for name, value in guess.items()}
            yield from self._try(self._space.settle(passing))
        for name in sorted(self._space.open, key=lambda name: name in self._lasting):
            for value in self._space.open[name]:
                yield from self._try(self._with(name, value))

    def _with(self, name: str, value: Value) -> Settings:
        return self._space.settle({**self.best, name: value})

    def _try(self, settings: Settings) -> Steps[None]:
        key = settings_key(settings)
        if key in self._tried or settings == self.best or not self._space.allows(settings):
            return
        change = Change(settings, self._own, self._space)
        if change.risk not in ("exact", "rounding") or (change.risk == "rounding" and self._why_not_beside):
            return
        self._tried.add(key)
        if any(settings[name] != self.best[name] for name in self._lasting):
            compared = yield from compare_before_and_after(self.best, settings, self._rule)
        else:
            compared = yield from compare_in_blocks(self.best, settings, self._rule, self._chance)
        rounding = None
        if compared.is_faster and change.risk == "rounding":
            rounding = yield from self._rounding_of(settings)
        tried = Tried(settings, self.best, compared, rounding)
        self._tell(tried)
        if tried.is_kept:
            self.best = settings

    def _rounding_of(self, settings: Settings) -> Steps[RoundingEvidence]:
        """Return whether settings that round keep the training what it is, by updates beside its own."""
        found = None
        while found is None:
            found = (yield StepWanted(self._own, settings)).beside
        if isinstance(found, str):
            self._why_not_beside = found
            return RoundingEvidence("open", found, 0, 0, 0)
        return judge_updates(found)

    @property
    def _rule(self) -> SpeedRule:
        """When settings are worth having. All comparisons that there may be share the error."""
        most = len(self._guesses) + sum(map(len, self._space.open.values()))
        return SpeedRule((1 - CONFIDENCE) / max(1, most), 1 + NOISE_THRESHOLD, MAX_PAIRS)
