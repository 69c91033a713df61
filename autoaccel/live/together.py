"""Several processes that train together and are tuned while they do: all change their settings at the same step."""

from __future__ import annotations

import contextlib
from typing import Protocol

from autoaccel.live.blocks import Steps, StepWanted
from autoaccel.live.tuner import LiveTuner
from autoaccel.records.settings import Settings
from autoaccel.runtime.script.together import SwitchAt, Together


class Decides(Protocol):
    """Says how each step of this process is made."""

    @property
    def best(self) -> Settings:
        """What the training goes on with once it says nothing more."""

    @property
    def has_searched(self) -> bool:
        """Whether nothing is tried any more."""

    def rounds(self, settings: Settings) -> bool:
        """Whether settings may change what a step computes from its batch."""

    def steps(self) -> Steps[None]:
        """Yield the settings of each step, as long as there is something to say."""


class Leader:
    """Lets a tuner decide for all processes: what it wants for the next step is made by all in the one after it."""

    def __init__(self, tuner: LiveTuner, together: Together, own: Settings, made: int) -> None:
        """Begin between two steps.

        Args:
            tuner: Decides.
            together: Reaches the others.
            own: The settings that all begin with.
            made: Steps that this process has made.
        """
        self.has_begun = False
        """Whether all others hear."""
        self._tuner = tuner
        self._together = together
        self._own = own
        self._made = made

    @property
    def best(self) -> Settings:
        """What the training goes on with: the fastest so far."""
        return self._tuner.best

    @property
    def has_searched(self) -> bool:
        """Whether all was tried that may be faster."""
        return self._tuner.has_searched

    def rounds(self, settings: Settings) -> bool:
        """Whether settings may change what a step computes from its batch."""
        return self._tuner.rounds(settings)

    def steps(self) -> Steps[None]:
        """Yield the settings of each step; those of a change one step later than they were wanted."""
        current = self._own
        while not self._together.all_hear():
            yield StepWanted(current)
            self._made += 1
        self.has_begun = True
        steps = self._tuner.steps()
        try:
            wanted = next(steps)
            while True:
                if wanted.settings != current:
                    yield from self._change(wanted.settings, current)
                    current = wanted.settings
                taken = yield wanted
                self._made += 1
                wanted = steps.send(taken)
        except StopIteration:
            best = self._tuner.best
            if best != current:
                yield from self._change(best, current)
            self._together.tell(SwitchAt(self._made + 2, best, is_last=True))
        except BaseException:  # something has failed, or nobody asks any more: all go on as they began
            with contextlib.suppress(Exception):
                self._together.tell(SwitchAt(self._made + 2, self._own, is_last=True))
            raise

    def _change(self, settings: Settings, current: Settings) -> Steps[None]:
        self._together.tell(SwitchAt(self._made + 2, settings))
        yield StepWanted(current)  # no process can have made more than this one before it was told
        self._made += 1


class Follower:
    """Makes its steps as the process wants that decides."""

    has_searched = False

    def __init__(self, together: Together, own: Settings, made: int) -> None:
        """Begin between two steps; see `Leader`."""
        self.best = own
        """What is in use."""
        self._together = together
        self._made = made

    def rounds(self, settings: Settings) -> bool:
        """Whether settings may change what a step computes: whoever decides looks after that."""
        return False

    def steps(self) -> Steps[None]:
        """Yield the settings of each step, until nothing changes any more."""
        self._together.begin()
        switch: SwitchAt | None = None
        while True:
            switch = switch or self._together.hear()
            if switch is not None and self._made + 1 >= switch.step:
                self.best = switch.settings or self.best
                if switch.is_last:
                    return
                switch = None
            yield StepWanted(self.best)
            self._made += 1
