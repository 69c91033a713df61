"""How each step of a training is made: to search, to watch what was found, to its end, and what interrupts that."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

from autoaccel.live.allowance import Allowance
from autoaccel.live.blocks import BLOCK_STEPS, Compared, Steps, StepTaken, StepWanted, pair_of_blocks
from autoaccel.live.searching import LivePlan, LiveSearch, Tried
from autoaccel.live.sizes import BatchSizes
from autoaccel.live.usual import BLOCKS_BEFORE
from autoaccel.live.watching import LiveWatch
from autoaccel.records.live import Became
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import Pair

CONFIRMING_PAIRS = 6
"""Of blocks, after settings have disappointed; see `PROBATION`."""


class LiveTuner:
    """Says how each step is to be made, for as long as there is something to find or to watch."""

    def __init__(
        self, plan: LivePlan, allowance: Allowance, tell: Callable[[Tried], None], chance: random.Random
    ) -> None:
        """Begin with the user's own settings; see `LiveSearch`."""
        self.watch: LiveWatch | None = None
        """What steps since the end of the search say of these; None before it, and where there is nothing to watch."""
        self.has_searched = False
        """Whether all was tried that may be faster, in this run or before it."""
        self._search = LiveSearch(plan, allowance, tell, chance)
        self._allowance = allowance
        self._tell = tell
        self._sizes = BatchSizes()
        self._chance = chance

    @property
    def best(self) -> Settings:
        """What the training goes on with: the fastest so far."""
        return self._search.best

    @property
    def own_step_seconds(self) -> float:
        """What a step took under the user's own settings, in the mean, before any others were in use."""
        return self._search.own_step_seconds

    def rounds(self, settings: Settings) -> bool:
        """Whether settings may change what a step computes from its batch."""
        return self._search.rounds(settings)

    def claim(self, compared: Compared) -> Comparison | None:
        """Return what a comparison says by now; see `LiveSearch.claim`."""
        return self._search.claim(compared)

    def steps(self) -> Steps[None]:
        """Yield the settings of each step, as long as there is something to find or to watch."""
        steps = self._all()
        try:
            wanted = next(steps)
            while True:
                made = self._counted(wanted, (yield wanted))
                if made.harm:
                    steps = self._after_harm(wanted.settings, made.harm)
                    wanted = next(steps)
                elif made.doubt:
                    steps = self._in_doubt(wanted.settings, made, steps)
                    wanted = next(steps)
                elif self._is_disappointed(wanted):
                    steps = self._disappointed(made, steps)
                    wanted = next(steps)
                else:
                    wanted = steps.send(made)
        except StopIteration:
            return

    def _is_usual(self, wanted: StepWanted) -> bool:
        return wanted.settings == self.best and wanted.beside is None

    def _counted(self, wanted: StepWanted, made: StepTaken) -> StepTaken:
        """Count a step, and return what came of it, as of a batch of the usual size."""
        is_usual = self._is_usual(wanted)
        self._allowance.add(made.seconds, not is_usual)
        if made.seconds is None:
            return made
        if made.size:
            if is_usual:
                self._sizes.learn(made.size, made.seconds)
            made = made._replace(seconds=self._sizes.usual(made.size, made.seconds))
        if is_usual and made.seconds is not None:
            self._search.usual.add(made.seconds, made.system)
        return made

    def _all(self) -> Steps[None]:
        plan = self._search.plan
        yield from self._look()
        if not plan.space.open:
            self.has_searched = True
            if not (yield from self._watch()):
                return
        if plan.remembered is not None:
            yield from self._search.go_on_with(plan.remembered)
            self.has_searched = plan.searched_before and self.best != plan.own
            if self.has_searched and not (yield from self._watch()):
                return
        yield from self._search_and_watch()

    def _look(self) -> Steps[None]:
        """Make a few steps as they are: what they take says what may be spent."""
        counted = 0
        while counted < BLOCK_STEPS:
            counted += (yield StepWanted(self.best)).seconds is not None

    def _search_and_watch(self) -> Steps[None]:
        while True:
            yield from self._search.search()
            self.has_searched = True
            if not (yield from self._watch()):
                return

    def _watch(self) -> Steps[bool]:
        """Compare what is in use with the user's own settings now and then, to the training's end.

        Return whether to search again: it is in use no longer, as it is slower. False where nothing more is watched.
        """
        base = self._search.base
        if base == self.best:
            yield from self._hear()
            return False
        self.watch = LiveWatch(base, self.best, self._allowance, self._chance)
        self._allowance.watch()
        if not (yield from self.watch.steps()):
            return False
        self._tell(Tried(self.best, base, self.watch.compared, became="given up"))
        self._stop_watching()
        return True

    def _hear(self) -> Steps[None]:
        """Make steps as they are until it is known how they drift: what cannot be taken back is claimed with that."""
        while self.best != self._search.plan.own and not self._search.usual.knows_drift(BLOCKS_BEFORE):
            yield StepWanted(self.best)

    def _stop_watching(self) -> None:
        self._search.begin_again()
        self.has_searched = False
        self.watch = None

    def _after_harm(self, settings: Settings, harm: str, is_undone: bool = True) -> Steps[None]:
        """Go on without settings that have harmed the training; nothing that rounds is tried again.

        Args:
            settings: That it was made with.
            harm: In words; none where they were only tried, and may not have done any.
            is_undone: Whether the training goes back to what it was before them.
        """
        was_in_use = self.rounds(self.best)
        became: Became = "given up" if was_in_use else "left"
        self._tell(Tried(settings, self._search.base, None, became=became, harm=harm, is_undone=is_undone))
        self._search.round_no_more(harm or "updates do not tell")
        if was_in_use:
            self._stop_watching()
        yield from self._search_and_watch()

    def _in_doubt(self, settings: Settings, made: StepTaken, interrupted: Steps[None]) -> Steps[None]:
        """Go on as before if updates still show that settings do no harm; else without them.

        A loss rises by itself in many trainings: where what is learned changes, or where models play one another. So
        one point is asked first, and all of them where it shows harm.
        """
        evidence = yield from self._search.rounding_of(settings, points=1)
        if evidence.verdict == "too large":
            evidence = yield from self._search.rounding_of(settings)
        if evidence.verdict == "holds":
            yield from _resumed(interrupted, made)
            return
        if evidence.verdict != "open":
            harm = f"{made.doubt}, and its updates are no longer those of your own settings"
            yield from self._after_harm(settings, harm)
            return
        # What it has trained may be as good as ever.
        why = f"{made.doubt}, and updates do not tell why ({evidence.reason})"
        yield from self._after_harm(settings, why if self.rounds(self.best) else "", is_undone=False)

    def _is_disappointed(self, wanted: StepWanted) -> bool:
        return self._is_usual(wanted) and self.best != self._search.base and self._allowance.is_disappointed

    def _disappointed(self, made: StepTaken, interrupted: Steps[None]) -> Steps[None]:
        """Go on without settings whose steps take longer than others do now, if they do: the machine may be slow.

        All their steps count, because blocks of a few may miss what is rare.
        """
        turns: list[Pair] = []
        for _ in range(CONFIRMING_PAIRS):
            pair = yield from pair_of_blocks(self.best, self._search.base, self._chance)
            turns += pair.turns
        if self._allowance.usual_seconds < statistics.fmean(own for _, own in turns):
            yield from _resumed(interrupted, made)
            return
        self._tell(Tried(self.best, self._search.base, None, became="given up"))
        self._stop_watching()
        yield from self._search_and_watch()


def _resumed(interrupted: Steps[None], made: StepTaken) -> Steps[None]:
    """Yield the steps of what was interrupted after one was made."""
    while True:
        try:
            wanted = interrupted.send(made)
        except StopIteration:
            return
        made = yield wanted
