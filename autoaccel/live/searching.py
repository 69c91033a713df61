"""What is tried while a training runs, and what it goes on with."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from autoaccel.live.allowance import Allowance
from autoaccel.live.blocks import (
    BLOCK_SECONDS,
    BLOCK_STEPS,
    KNOWN_BLOCKS,
    MAX_PAIRS,
    POINTS,
    SETTLING_STEPS,
    TOO_SLOW,
    Compared,
    Steps,
    StepWanted,
    blocks_in_a_row,
    compare_before_and_after,
    compare_in_blocks,
    system_share,
)
from autoaccel.live.space import KEEPS
from autoaccel.live.usual import UNKNOWN_DRIFT, UsualBlocks
from autoaccel.records.live import Became
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, Value, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison
from autoaccel.space.change import Change
from autoaccel.space.knobs import KNOBS
from autoaccel.statistics.comparison import CONFIDENCE, NOISE_THRESHOLD
from autoaccel.statistics.deciding import SpeedRule
from autoaccel.statistics.rounding import judge_updates
from autoaccel.statistics.spared import at_least_spared, spared_log

BESIDE_STEPS = 30
"""Steps that it takes about as long as, to compute updates beside those of nine: each is computed three times."""

WORTH_SAVING = 0.02
"""Share of a step that the operating system takes, from which on it may pay to save it; below, settings that leave
something behind are not tried. As in the advisor's rule about page faults."""


class Tried(NamedTuple):
    """Settings that were compared with those in use."""

    settings: Settings
    against: Settings
    compared: Compared | None  # None where updates came first, and did not show that they are harmless
    rounding: RoundingEvidence | None = None  # None where nothing was to be shown, or they are not faster
    became: Became = "left"
    harm: str = ""
    """For which they were given up, in words."""
    is_undone: bool = False
    """Whether the training goes back to what it was before them."""

    @property
    def is_kept(self) -> bool:
        """Whether the training goes on with them."""
        return self.became == "kept"


class LivePlan(NamedTuple):
    """What a search goes by.

    Attributes:
        own: The user's own settings.
        guesses: Settings that are tried first, the most promising first.
        space: Whose other values are tried after these, one by one.
        lasting: Knobs that leave something behind when they are taken back: they come first, and all others are
            compared under what has come of them.
        judged_first: Knobs that round so that no step is made with them before updates have shown that they may.
        begins: What it begins with: those of a recipe, or what a training before it has left that cannot be taken
            back; None: the user's own settings.
        remembered: What an earlier run of the same training went on with, or the training before it in this run; None
            if nothing is known of one.
        searched_before: Whether that run has tried all that may be faster.
    """

    own: Settings
    guesses: Sequence[Settings]
    space: SearchSpace
    lasting: Collection[str] = ()
    judged_first: Collection[str] = ()
    begins: Settings | None = None
    remembered: Settings | None = None
    searched_before: bool = False


class LiveSearch:
    """Goes from the user's own settings to faster ones, by the steps of the training itself."""

    def __init__(
        self, plan: LivePlan, allowance: Allowance, tell: Callable[[Tried], None], chance: random.Random
    ) -> None:
        """Begin with the user's own settings, or with those of the plan.

        Args:
            plan: What it goes by.
            allowance: What it may cost.
            tell: Told of each comparison that has ended.
            chance: Decides on the order of blocks.
        """
        self.best = self._first = plan.own if plan.begins is None else plan.begins
        """What the training goes on with: the fastest so far."""
        self.own_step_seconds = 0.0
        """What a step took under the user's own settings, in the mean, before any others were in use."""
        self.plan = plan
        self.usual = UsualBlocks()
        """Of steps under what is in use; whoever makes steps tells it of them."""
        self._allowance = allowance
        self._tell = tell
        self._chance = chance
        self._tried = {settings_key(plan.own), settings_key(self.best)}
        self._why_not_beside = ""

    @property
    def base(self) -> Settings:
        """The user's own settings, but for what could not be taken back."""
        lasting = self.plan.lasting
        return {name: self.best[name] if name in lasting else value for name, value in self.plan.own.items()}

    def rounds(self, settings: Settings) -> bool:
        """Whether settings may change what a step computes from its batch."""
        return Change(settings, self.plan.own, self.plan.space).risk == "rounding"

    def search(self) -> Steps[None]:
        """Try all that may be faster and was not tried yet."""
        space, lasting = self.plan.space, self.plan.lasting
        # Of the others, what usually matters most comes first.
        one_by_one = sorted(space.open, key=lambda name: -KNOBS[name].usual_effect)
        for name in one_by_one:
            for value in space.open[name] if name in lasting else ():
                yield from self._try(self._with(name, value))
        for guess in self.plan.guesses:
            staying = {name: self.best[name] if name in lasting else value for name, value in guess.items()}
            yield from self._try(space.settle(staying))
        for name in one_by_one:
            for value in space.open[name] if name not in lasting else ():
                yield from self._try(self._with(name, value))

    def go_on_with(self, settings: Settings) -> Steps[None]:
        """Go on with what was found before; what rounds must show once more that it keeps this training.

        That is left to the search where it would take too much of what is left.
        """
        if not self.plan.space.allows(settings):
            return
        begun, lasting = self.best, self.plan.lasting
        passing = {name: begun[name] if name in lasting else value for name, value in settings.items()}
        change = Change(settings, self.plan.own, self.plan.space)
        if change.risk not in KEEPS:
            return
        if change.risk == "rounding" and not self._allowance.has_time_for(BESIDE_STEPS):
            return
        if passing != begun:
            rounding = (yield from self.rounding_of(passing)) if change.risk == "rounding" else None
            is_kept = rounding is None or rounding.verdict == "holds"
            self._tell(Tried(passing, begun, None, rounding, "kept" if is_kept else "left"))
            if not is_kept:
                self._tried.add(settings_key(passing))
                return
            self._use(passing)
        if settings != passing:
            rule = self._rule._replace(drift=UNKNOWN_DRIFT)
            before = yield from blocks_in_a_row(passing, KNOWN_BLOCKS)
            compared = yield from compare_before_and_after(before, settings, rule)
            found = compared.comparison
            is_kept = found is None or found.speedup > 1
            self._tell(Tried(settings, passing, compared, None, "kept" if is_kept else "left"))
            if is_kept:
                self._use(settings)

    def claim(self, compared: Compared) -> Comparison | None:
        """Return what a comparison says by now: of what was measured before and after, with the drift that was seen.

        What is explained by what the system no longer does needs no room for it.
        """
        pairs = compared.pairs
        if not pairs:
            return compared.comparison
        rule = SpeedRule(1 - CONFIDENCE, 1.0, drift=self.usual.drift(len(pairs)))
        drifting, found = rule.compare(pairs), rule._replace(drift=0.0).compare(pairs)
        log_speedup = spared_log(compared.spared, rule.error)
        if drifting is None or found is None or log_speedup <= 0:
            return drifting
        return at_least_spared(found, drifting, log_speedup)

    def rounding_of(self, settings: Settings, points: int = POINTS) -> Steps[RoundingEvidence]:
        """Return whether settings that round keep the training what it is, by updates beside its own.

        Args:
            settings: To be judged.
            points: Of the training, at which they are.
        """
        found = None
        while found is None:
            found = (yield StepWanted(self.base, settings, points)).beside
        if isinstance(found, str):
            self._why_not_beside = found
            return RoundingEvidence("open", found, 0, 0, 0)
        return judge_updates(found)

    def round_no_more(self, why: str) -> None:
        """Try nothing from now on that may change what a step computes."""
        self._why_not_beside = why

    def begin_again(self) -> None:
        """Go back to the user's own settings; all but what is given up may be tried again: the machine has changed."""
        self._tried = {settings_key(one) for one in (self.plan.own, self.best)}
        self._allowance.search_again()
        self._use(self.base)

    def _with(self, name: str, value: Value) -> Settings:
        return self.plan.space.settle({**self.best, name: value})

    def _try(self, settings: Settings) -> Steps[None]:
        if settings_key(settings) in self._tried or settings == self.best or not self.plan.space.allows(settings):
            return
        change = Change(settings, self.plan.own, self.plan.space)
        if change.risk not in KEEPS or (change.risk == "rounding" and self._why_not_beside):
            return
        self._tried.add(settings_key(settings))
        rounding = None
        if any(settings[name] != self.best[name] for name in self.plan.judged_first):
            yield from self._wait(BESIDE_STEPS * self._allowance.usual_seconds)
            rounding = yield from self.rounding_of(settings)
            if rounding.verdict != "holds":
                self._tell(Tried(settings, self.best, None, rounding))
                return
        if any(settings[name] != self.best[name] for name in self.plan.lasting):
            if (lasting := (yield from self._compare_lasting(settings))) is None:
                return
            compared = lasting
        else:
            compared = yield from compare_in_blocks(self.best, settings, self._rule, self._chance, self._wait)
        if compared.is_faster and rounding is None and change.risk == "rounding":
            speedup = compared.comparison.speedup if compared.comparison is not None else 1.0
            cost = BESIDE_STEPS * self._allowance.usual_seconds
            while not self._allowance.may(cost, is_faster=True, gain=1 - 1 / speedup):
                yield StepWanted(self.best)
            rounding = yield from self.rounding_of(settings)
        is_kept = compared.is_faster and (rounding is None or rounding.verdict == "holds")
        self._tell(Tried(settings, self.best, compared, rounding, "kept" if is_kept else "left"))
        if is_kept:
            self._use(settings)

    def _compare_lasting(self, settings: Settings) -> Steps[Compared | None]:
        """Compare settings that leave something behind with the steps before them; None where nothing can be saved."""
        yield from self._wait(0.0)
        while (before := self.usual.steady()) is None:
            yield StepWanted(self.best)
        if system_share(before) < WORTH_SAVING:
            return None
        return (yield from compare_before_and_after(before, settings, self._rule._replace(drift=UNKNOWN_DRIFT)))

    def _use(self, settings: Settings) -> None:
        if self.best == self._first:
            self.own_step_seconds = self._allowance.usual_seconds
        self.best = settings
        self.usual.forget()
        self._allowance.go_on_with_others()

    def _wait(self, seconds: float | None) -> Steps[None]:
        """Train on until so much may be lost; see `Wait`."""
        while not self._allowance.may(self._block_seconds if seconds is None else seconds, self.best != self._first):
            yield StepWanted(self.best)

    @property
    def _block_seconds(self) -> float:
        """What a block loses under settings that are too slow."""
        usual = self._allowance.usual_seconds
        return (TOO_SLOW - 1) * max(BLOCK_SECONDS, (BLOCK_STEPS + SETTLING_STEPS) * usual)

    @property
    def _rule(self) -> SpeedRule:
        """When settings are worth having. All comparisons that there may be share the error."""
        most = len(self.plan.guesses) + sum(map(len, self.plan.space.open.values()))
        return SpeedRule((1 - CONFIDENCE) / max(1, most), 1 + NOISE_THRESHOLD, MAX_PAIRS)
