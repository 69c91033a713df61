"""What a training that was tuned while it ran has found: kept line by line, and told at its end."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from autoaccel.live.leaving import Trained, leave
from autoaccel.live.memory import Memory
from autoaccel.live.searching import Tried
from autoaccel.live.step_means import StepMeans
from autoaccel.live.tuner import LiveTuner
from autoaccel.records.base import encode
from autoaccel.records.live import LiveTried
from autoaccel.records.machine import Machine
from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.settings import Settings, changed, describe_change
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import TrainingFacts, Workload
from autoaccel.report.accuracy import redrawn_words
from autoaccel.report.step_times import LiveStory
from autoaccel.space.change import Change
from autoaccel.units import format_duration

Say = Callable[[str], None]
"""Told what a person should know, a line each."""


class Started(NamedTuple):
    """How a training was started that is tuned while it runs."""

    spec: WorkerSpec
    say: Say
    began: float  # by the monotonic clock
    planned_steps: int | None  # of the whole training; None if they must be seen
    number: int  # of the training, of those that this process makes one after the other, from 1
    before: Settings | None  # that the training before it went on with; None if there was none


class Found:
    """Writes down each comparison, and what all have come to."""

    def __init__(
        self, started: Started, facts: TrainingFacts, machine: Machine, space: SearchSpace, own: Settings
    ) -> None:
        """Begin with what earlier runs have left.

        Args:
            started: How the training was.
            facts: What was seen of it.
            machine: That it trains on.
            space: That is searched.
            own: The user's own settings.
        """
        task = started.spec.task
        assert isinstance(task, TuneLive)
        self.log = Path(task.folder) / "live.jsonl"
        self.has_failed = False
        """Whether tuning has, so that nothing is in use that was found."""
        self._started = started
        self._facts = facts
        self._machine = machine
        self._space = space
        self._own = own
        self._memory = Memory(task, machine, started.say)
        seen = facts.seen.must_be_script("its steps are heard as those of a script.")
        self._workload = started.spec.workload
        since = time.time() - psutil.Process().create_time() if started.number == 1 else self.seconds
        self._startup_seconds = max(0.0, since - seen.seen_seconds)
        self._means = StepMeans()
        self._steps = 0  # since it was known what is trained
        self._steps_before = seen.steps_seen
        self._planned_steps = started.planned_steps or seen.planned_steps
        self._tried: list[LiveTried] = []
        self._kept: list[Tried] = []

    @property
    def remembered(self) -> Settings | None:
        """What was found before this training, as far as it is still searched; None if nothing was."""
        entry = self._memory.entry
        found = entry.settings if entry is not None else self._started.before
        if found is None:
            return None
        still = {name: value for name, value in found.items() if value in self._space.open.get(name, ())}
        return self._space.settle({**self._own, **still}) if still else None

    @property
    def searched_before(self) -> bool:
        """Whether an earlier run has tried all that may be faster."""
        return self._memory.entry is not None and self._memory.entry.searched

    @property
    def seconds(self) -> float:
        """Since the training began."""
        return time.monotonic() - self._started.began

    def step(self, seconds: float | None) -> None:
        """Count a step.

        Args:
            seconds: That it took; None if something else was done beside it.
        """
        self._steps += 1
        self._means.add(seconds)

    def add(self, tried: Tried) -> None:
        """Write a comparison down."""
        if tried.is_kept:
            self._kept.append(tried)
        elif tried.became == "given up":
            self._kept = [one for one in self._kept if one.compared is not None and one.compared.pairs]
        found = LiveTried(
            after_seconds=self.seconds,
            after_steps=self._steps,
            settings=changed(tried.settings, self._own),
            against=changed(tried.against, self._own),
            comparison=tried.compared.comparison if tried.compared is not None else None,
            rounding=tried.rounding,
            became=tried.became,
            harm=tried.harm,
            training=self._started.number,
        )
        self._tried.append(found)
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("ab") as file:
            file.write(encode(found) + b"\n")
        if tried.became != "left":
            # Now already: a run may be ended in the middle.
            self._memory.keep(found.settings if tried.is_kept else {}, found.comparison, searched=False)

    def end(self, tuner: LiveTuner, usual_seconds: float, leaves: bool) -> str:
        """Return what was found in a sentence, and keep it for the next run.

        Args:
            tuner: That has found it.
            usual_seconds: Of a step under the settings in use.
            leaves: Whether to leave a recipe and a report as well.
        """
        if self.has_failed:
            return "your own settings were in use from where it was no longer tuned"
        found, change = claimed(tuner, self._kept), changed(tuner.best, self._own)
        self._memory.keep(change, found, tuner.has_searched)
        if leaves and self._tried and self._workload is not None:
            try:
                leave(self.log.parent, self._trained(self._workload, tuner, found, usual_seconds))
            except Exception as error:  # whatever is wrong with what is told, the training has ended well
                self._started.say(f"neither recipe nor report was written: {type(error).__name__}: {error}")
        if not change:
            return "your own settings were kept: nothing that was tried made its steps faster"
        redrawn = Change(tuner.best, self._own, self._space).redrawn
        words = describe_change(tuner.best, self._own) + (f"; {redrawn_words(redrawn)}" if redrawn else "")
        if found is None:
            return f"it went on with what an earlier run has found, {words}; it was too short to measure that again"
        return (
            f"its steps were {found.speedup:.2f}x as fast as under your own settings ({found.low:.2f} to "
            f"{found.high:.2f}), measured in {2 * found.process_pairs} blocks of them over "
            f"{format_duration(self.seconds)}: {words}"
        )

    def _trained(self, workload: Workload, tuner: LiveTuner, found: Comparison | None, usual_seconds: float) -> Trained:
        shown = [one.rounding for one in self._kept if one.rounding is not None]
        return Trained(
            workload=workload,
            machine=self._machine,
            facts=self._facts,
            planned_steps=self._planned_steps or self._steps_before + self._steps,
            space=self._space,
            own=self._own,
            best=tuner.best,
            comparison=found,
            rounding=max(shown, key=lambda one: one.error_share) if shown else None,
            own_step_seconds=tuner.own_step_seconds or usual_seconds,
            startup_seconds=self._startup_seconds,
            seconds=self.seconds,
            peak_bytes=peak_bytes(),
            story=LiveStory(self._means.means, self._tried),
        )


def claimed(tuner: LiveTuner, kept: Sequence[Tried]) -> Comparison | None:
    """Return what the settings in use are worth against the user's own; None where blocks are too few to say.

    Settings that cannot be taken back are worth what the blocks before them said; all others what was seen since the
    search ended, or what made them be chosen as long as that is less.

    Args:
        tuner: That has found them.
        kept: What of all that it has tried is still in use.
    """
    seen = tuner.watch.comparison if tuner.watch is not None else None
    compared = [one.compared for one in kept if one.compared is not None]
    found = [tuner.claim(one) for one in compared if one.pairs or seen is None]
    parts = [one for one in (*found, seen) if one is not None]
    return _product(parts) if parts else None


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _product(parts: list[Comparison]) -> Comparison:
    """Return what changes one after the other are worth together; their errors are independent."""
    log = math.fsum(math.log(one.speedup) for one in parts)
    below = math.hypot(*(math.log(one.speedup / one.low) for one in parts))
    above = math.hypot(*(math.log(one.high / one.speedup) for one in parts))
    low, high = math.exp(log - below), math.exp(log + above)
    return Comparison(
        speedup=math.exp(log),
        low=low,
        high=high,
        verdict="faster" if low > 1 else "slower" if high < 1 else "within noise",
        confidence=min(one.confidence for one in parts),
        process_pairs=sum(one.process_pairs for one in parts),
        turns=sum(one.turns for one in parts),
    )
