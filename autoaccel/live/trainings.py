"""The trainings that a process makes, one after the other: looked at in their first steps, then tuned by others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.live.allowance import SHARE, START_SECONDS
from autoaccel.live.following import LedScript, LiveScript
from autoaccel.live.found import Say, Started
from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.settings import Settings
from autoaccel.runtime.script.feeding import Feeds
from autoaccel.runtime.script.looking_on import LookedOn, LookingOn
from autoaccel.runtime.script.together import NOTHING_MORE, met
from autoaccel.units import format_duration


class LiveTraining:
    """Whatever this process trains, one training after the other, tuned by its steps once it is known."""

    def __init__(self, spec: WorkerSpec, say: Say, planned_steps: Callable[[], int | None] = lambda: None) -> None:
        """Begin to look at what this process trains, in which torch was just imported; the script never learns of that.

        Args:
            spec: What is trained, and how it is tuned.
            say: See `Say`.
            planned_steps: Returns those of the whole training, once it trains; None if they must be seen.
        """
        self._spec = spec
        self._say = say
        self._planned_steps = planned_steps
        self._whole = self._began = time.monotonic()  # this process, and the training in it
        self._looked = 0.0  # seconds for which trainings had to wait until each was known, and summed up
        self._script: LiveScript | LedScript | None = None
        self._ended: list[TunedTraining] = []  # the trainings before it
        self._error: BaseException | None = None
        self._feeds = Feeds()
        self._looking_on = LookingOn(self._feeds, self._seen, self._fail)

    def _seen(self, looked_on: LookedOn, looking_on: LookingOn) -> None:
        if (device := looked_on.facts.device) != "cpu":
            raise BadRequestError(f"it trains on {device}, and so far this is done on CPUs alone")
        together = met()
        if together is not None and not together.leads:
            self._script = LedScript(looked_on, looking_on, together)
            return
        began = time.monotonic()
        number = len(self._ended) + 1
        if number == 1:
            started = Started(self._spec, self._say, self._began, self._planned_steps(), number, None)
        else:
            started = Started(_without_history(self._spec), self._say, self._began, None, number, self._ended[-1].found)
        try:
            self._script = LiveScript(looked_on, looking_on, self._feeds, started, together, self._another)
        except BaseException:
            if together is not None:
                together.tell(NOTHING_MORE)
            raise
        self._looked += time.monotonic() - began

    def _another(self) -> Settings:
        """Another training has begun: look at it, too, unless that takes too much; return what it begins with."""
        began = time.monotonic()
        script = self._script
        assert isinstance(script, LiveScript)  # no other tells of it
        self._sum_up(script)
        self._script, self._began = None, time.monotonic()
        self._looked += self._began - began
        # As much as a search may take where it finds nothing: some scripts make a thousand trainings of a second.
        if self._looked <= START_SECONDS + SHARE * (self._began - self._whole):
            self._looking_on = LookingOn(self._feeds, self._seen, self._fail)
        else:
            self._feeds.end()
        return script.standing

    def _sum_up(self, script: LiveScript) -> None:
        seconds = time.monotonic() - self._began
        is_longest = all(seconds > one.seconds for one in self._ended)
        self._ended.append(TunedTraining(seconds, script.end(is_longest), script.found))

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._feeds.end()

    def stop(self) -> None:
        """Hear of nothing that follows, and go back to the user's own settings; not to be called within a step."""
        if self._script is not None:
            self._script.stop()
        else:
            self._looking_on.detach()
        self._feeds.end()

    def summary(self) -> str:
        """Return what came of it, in a sentence, now that the training has ended; leave it for the next run."""
        self._feeds.end()
        if isinstance(self._script, LedScript):
            return ""  # the process tells that decides
        if self._script is not None:
            self._sum_up(self._script)
        if not self._ended:
            return f"it was not tuned: {self._error or 'it made too few steps'}"
        longest = max(self._ended, key=lambda one: one.seconds)
        if len(self._ended) == 1:
            return longest.summary
        return (
            f"{len(self._ended)} trainings were tuned, one after the other; of the longest, which took "
            f"{format_duration(longest.seconds)}: {longest.summary}"
        )


class TunedTraining(NamedTuple):
    """A training that was tuned to its end."""

    seconds: float
    summary: str
    found: Settings  # that it went on with


def _without_history(spec: WorkerSpec) -> WorkerSpec:
    """Return the spec of a training that neither begins with what earlier runs have found nor leaves anything."""
    assert isinstance(spec.task, TuneLive)
    return msgspec.structs.replace(spec, task=msgspec.structs.replace(spec.task, training_key=""))
