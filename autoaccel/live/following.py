"""A script that was looked at, tuned by the steps that it makes from then on."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from autoaccel.advise.candidates import first_candidates
from autoaccel.live.allowance import START_SECONDS, Allowance
from autoaccel.live.found import Found, Started, peak_bytes
from autoaccel.live.making import LiveSteps, Steering
from autoaccel.live.searching import LivePlan, Tried
from autoaccel.live.space import live_space
from autoaccel.live.together import Follower, Leader
from autoaccel.live.tuner import LiveTuner
from autoaccel.machine.detect import detect_machine
from autoaccel.records.messages import TuneLive
from autoaccel.records.profile import Demand
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.knobs import lasts
from autoaccel.runtime.probing import probe_torch_beside
from autoaccel.runtime.script.feeding import Feeds
from autoaccel.runtime.script.looking_on import LookedOn, LookingOn
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.script.together import Together
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings

_MAY_HARM = ("precision", "extension")
"""Groups of knobs that may round more than the order of sums does."""


class LiveScript:
    """A script that is tuned by the steps that it makes."""

    def __init__(
        self,
        looked_on: LookedOn,
        looking_on: LookingOn,
        feeds: Feeds,
        started: Started,
        together: Together | None,
        another: Callable[[], Settings],
    ) -> None:
        """Begin to tune, between two steps.

        Args:
            looked_on: What is trained.
            looking_on: Who has seen it.
            feeds: Lets workers load its batches.
            started: How it was.
            together: Reaches other processes that train together with this one, which decides; None: it trains alone.
            another: Called once another training has begun, unless several train together; returns what it begins with.
        """
        facts = looked_on.facts
        task = started.spec.task
        assert isinstance(task, TuneLive)
        self._say = started.say
        machine = msgspec.structs.replace(detect_machine(), torch=probe_torch_beside())
        context = KnobContext(machine, facts, _demand(looked_on))
        self._own, searched = baseline_settings(context), live_space(context, task.space, together is None)
        self._found = Found(started, facts, machine, searched, self._own)
        steps_left = _steps_left(facts, started.planned_steps)
        self._allowance = Allowance(steps_left, START_SECONDS if started.number == 1 else 0.0)
        self._lasting = [name for name in searched.open if lasts(KNOBS[name])]
        begins = {**self._own, **{name: (started.before or self._own)[name] for name in self._lasting}}
        plan = self._plan(searched, context, begins)
        self._tuner = LiveTuner(plan, self._allowance, self._tell, random.Random(0))
        self._leader = Leader(self._tuner, together, self._own, looked_on.steps) if together is not None else None
        left = "whose end is not known" if steps_left is None else f"of which {steps_left:,} steps are left"
        if started.number == 1:
            started.say(f"tuning while it trains, {left}; what is tried is written to {self._found.log}")
        steering = Steering(
            begins=begins,
            falls_back=self._own,
            tuner=self._leader or self._tuner,
            allowance=self._allowance,
            switched=SwitchedSettings(self._own, facts.device, begins),
            feeds=feeds,
            may_round=any(
                self._tuner.rounds({**self._own, name: value})
                for name, values in searched.open.items()
                for value in values
            ),
            memory_bytes=machine.usable_memory_bytes,
        )
        self._steps = LiveSteps(
            steering, facts, looking_on, self._found.step, self._fail, another if together is None else None
        )

    def _plan(self, searched: SearchSpace, context: KnobContext, begins: Settings) -> LivePlan:
        return LivePlan(
            own=self._own,
            guesses=first_candidates(searched, context, self._own, ()),
            space=searched,
            lasting=self._lasting,
            judged_first=[name for name in searched.open if KNOBS[name].group in _MAY_HARM],
            begins=begins,
            remembered=self._found.remembered,
            searched_before=self._found.searched_before,
        )

    def _tell(self, tried: Tried) -> None:
        self._found.add(tried)
        if tried.harm or tried.became == "given up":
            why = tried.harm or "it has become slower than what it had replaced"
            self._say(f"{describe_change(tried.settings, self._own)} was given up: {why}")
        self._steps.told(tried)

    def stop(self) -> None:
        """Hear of nothing that follows, and go back to the user's own settings."""
        self._steps.stop()

    @property
    def found(self) -> Settings:
        """What it goes on with."""
        return self._tuner.best

    @property
    def standing(self) -> Settings:
        """The user's own settings, but for what cannot be taken back."""
        return {**self._own, **{name: self._tuner.best[name] for name in self._lasting}}

    def end(self, leaves: bool) -> str:
        """Return what came of it, in a sentence, and keep it for the next run.

        Args:
            leaves: Whether to leave a recipe and a report as well.
        """
        if self._leader is not None and not self._leader.has_begun:
            return "it was not tuned: not all of the processes that train together were seen to"
        return self._found.end(self._tuner, self._allowance.usual_seconds, leaves)

    def _fail(self, error: BaseException) -> None:
        self._found.has_failed = True
        self._say(f"it is no longer tuned: {type(error).__name__}: {error}")


class LedScript:
    """A script whose steps are made as another process decides that trains together with this one."""

    def __init__(self, looked_on: LookedOn, looking_on: LookingOn, together: Together) -> None:
        """Begin to follow, between two steps.

        Args:
            looked_on: What is trained.
            looking_on: Who has seen it.
            together: Reaches the process that decides.
        """
        facts = looked_on.facts
        machine = msgspec.structs.replace(detect_machine(), torch=probe_torch_beside())
        own = baseline_settings(KnobContext(machine, facts))
        steering = Steering(
            begins=own,
            falls_back=own,
            tuner=Follower(together, own, looked_on.steps),
            allowance=Allowance(None),
            switched=SwitchedSettings(own, facts.device),
            feeds=None,
            may_round=False,
            memory_bytes=machine.usable_memory_bytes,
        )
        self._steps = LiveSteps(steering, facts, looking_on, lambda seconds: None, lambda error: together.fail())

    def stop(self) -> None:
        """Hear of nothing that follows, and go back to the user's own settings."""
        self._steps.stop()


def _demand(looked_on: LookedOn) -> Demand | None:
    """Return what a step needs, where this process loads its batches itself; None where that is not known."""
    loading = looked_on.loading
    if loading is None:
        return None
    seen = looked_on.facts.seen.must_be_script("its steps are heard as those of a script.")
    return Demand(
        step_seconds=max(0.0, seen.step_seconds - loading.seconds),
        peak_bytes=peak_bytes(),
        loading_seconds=loading.seconds,
        busy_seconds=loading.busy_seconds,
    )


def _steps_left(facts: TrainingFacts, planned: int | None) -> int | None:
    """Return how many steps the training will make from now on, as far as it says so.

    Args:
        facts: What was seen of it.
        planned: How many it makes in all; None if that must be seen.
    """
    seen = facts.seen.must_be_script("its steps are heard as those of a script.")
    planned = planned if planned is not None else seen.planned_steps
    return None if planned is None else max(0, planned - seen.steps_seen)
