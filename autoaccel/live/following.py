"""A script that trains: looked at for its first steps, then tuned by those that follow."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from autoaccel.advise.candidates import first_candidates
from autoaccel.errors import BadRequestError
from autoaccel.live.blocks import StepTaken
from autoaccel.live.space import live_space
from autoaccel.live.tuner import LiveTuner, Tried
from autoaccel.machine.detect import detect_machine
from autoaccel.records.base import encode
from autoaccel.records.live import LiveTried
from autoaccel.records.messages import TuneLive
from autoaccel.records.settings import changed, describe_change
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.knobs import lasts
from autoaccel.runtime.script.following_steps import FollowedSteps, LookingOn
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.steps import Step
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings

Say = Callable[[str], None]
"""Told what a person should know, a line each."""


def tune_as_it_trains(task: TuneLive, say: Say) -> Callable[[], str]:
    """Tune what this process trains, in which torch was just imported; the script never learns of that.

    Args:
        task: How.
        say: See `Say`.

    Returns:
        What says, at the end, what came of it.
    """
    began = time.monotonic()
    live: list[LiveScript] = []  # once it is known what is trained
    errors: list[BaseException] = []

    def seen(facts: TrainingFacts, looking_on: LookingOn) -> None:
        live.append(LiveScript(facts, looking_on, task, say, began))

    def summary() -> str:
        if live:
            return live[0].summary
        return f"it was not tuned: {errors[0]}" if errors else "it was not tuned: it made too few steps"

    LookingOn(seen, errors.append)
    return summary


class LiveScript:
    """A script that is tuned by the steps that it makes."""

    def __init__(self, facts: TrainingFacts, looking_on: LookingOn, task: TuneLive, say: Say, began: float) -> None:
        """Begin to tune, between two steps.

        Args:
            facts: What is trained.
            looking_on: Who has seen it.
            task: How.
            say: See `Say`.
            began: When the training did, by the monotonic clock.
        """
        self._say = say
        self._began = began
        self._steps_made = 0
        self._log = Path(task.folder) / "live.jsonl"
        if facts.device != "cpu":
            raise BadRequestError(f"it trains on {facts.device}, and so far this is done on CPUs alone")
        self._machine = detect_machine()
        context = KnobContext(self._machine, facts)
        self._own, searched = baseline_settings(context), live_space(context, task.space)
        guesses = first_candidates(searched, context, self._own, ())
        lasting = [name for name in searched.open if lasts(KNOBS[name])]
        self._tuner = LiveTuner(self._own, guesses, searched, lasting, self._tell, random.Random(0))
        self._steps = self._tuner.steps()
        self._switched = SwitchedSettings(self._own, facts.device)
        self._followed = FollowedSteps(facts, self._switched, looking_on, self._step_ended, self._fail)
        self._wants_beside = False
        self._kept: list[Tried] = []
        self._has_failed = False
        say(f"it is tuned while it trains; what is tried is written to {self._log}")
        self._ask(None)

    @property
    def summary(self) -> str:
        """What came of it, in a sentence."""
        if self._has_failed:
            return "your own settings were in use from where it was no longer tuned"
        if not self._kept:
            return "your own settings were kept: nothing that was tried made its steps faster"
        found = [one.compared.comparison for one in self._kept if one.compared.comparison is not None]
        log = math.fsum(math.log(one.speedup) for one in found)
        below = math.hypot(*(math.log(one.speedup / one.low) for one in found))
        above = math.hypot(*(math.log(one.high / one.speedup) for one in found))
        low, high = math.exp(log - below), math.exp(log + above)
        return (
            f"steps were {math.exp(log):.2f}x as fast ({low:.2f} to {high:.2f}) with "
            f"{describe_change(self._tuner.best, self._own)}"
        )

    def _step_ended(self, step: Step | None) -> None:
        self._steps_made += 1
        beside = self._followed.beside()
        counts = step is not None and not self._wants_beside
        self._ask(StepTaken(step.seconds if step is not None and counts else None, beside))

    def _ask(self, made: StepTaken | None) -> None:
        """Let the next step be made as the tuner wants it; None to begin."""
        try:
            wanted = next(self._steps) if made is None else self._steps.send(made)
            if wanted.beside is not None and not self._has_room:
                wanted = self._steps.send(StepTaken(None, "too little memory is free for copies of what is trained"))
        except StopIteration:
            self._switched.switch(self._tuner.best)
            self._followed.end()
            return
        self._switched.switch(wanted.settings)
        self._wants_beside = wanted.beside is not None
        self._followed.compute_beside(wanted.beside)

    @property
    def _has_room(self) -> bool:
        """Whether as much memory is left as this process has held: copies take less than a step of all that."""
        import resource  # not on Windows

        unit = 1 if sys.platform == "darwin" else 1024
        held = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return self._machine.usable_memory_bytes >= 2 * held

    def _tell(self, tried: Tried) -> None:
        if tried.is_kept:
            self._kept.append(tried)
        found = LiveTried(
            after_seconds=time.monotonic() - self._began,
            after_steps=self._steps_made,
            settings=changed(tried.settings, self._own),
            against=changed(tried.against, self._own),
            comparison=tried.compared.comparison,
            rounding=tried.rounding,
            kept=tried.is_kept,
        )
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._log.open("ab") as file:
            file.write(encode(found) + b"\n")

    def _fail(self, error: BaseException) -> None:
        """Let the script train on under its own settings: what fails here is none of its own."""
        self._has_failed = True
        self._followed.end()
        self._switched.switch(self._own)
        self._say(f"it is no longer tuned: {type(error).__name__}: {error}")
