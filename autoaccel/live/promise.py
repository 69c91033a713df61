"""What a recipe promises, held against the steps of the run that is made with it."""

from __future__ import annotations

import random
from collections.abc import Callable

from autoaccel.live.allowance import Allowance
from autoaccel.live.making import LiveSteps, Steering
from autoaccel.live.searching import LivePlan, Tried
from autoaccel.live.space import compiles_itself
from autoaccel.live.tuner import LiveTuner
from autoaccel.live.watching import ENOUGH_PAIRS
from autoaccel.machine.detect import detect_machine
from autoaccel.records.messages import KeepPromise, WorkerSpec
from autoaccel.records.settings import Settings, changed, describe_change
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison
from autoaccel.runtime.knobs import lasts, switches
from autoaccel.runtime.script.looking_on import LookedOn, LookingOn
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.script.whole_run import apply_to_run
from autoaccel.space.knobs import KNOBS, KnobContext, inexact_here, risks_here
from autoaccel.text import one_line, say


def stays(name: str) -> bool:
    """Whether a setting of a recipe cannot be taken back while it trains."""
    knob = KNOBS[name]
    return knob.effect_stage == "data" or not switches(knob) or lasts(knob)


def keep_promise(spec: WorkerSpec) -> Callable[[], bool]:
    """Apply a recipe to this process, in which torch was just imported, and watch what it promises.

    Now and then a short block of steps is made under the user's own settings, as far as they can be taken on. Settings
    that are slower than these are given up, which is said in a line; so are steps that are clearly less fast than was
    promised. If settings that round make the loss infinite, or make it rise, as updates then show, the training goes
    back to a state that was kept before, and on without them.

    Returns:
        What tells whether an update was heard since.
    """
    assert spec.found is not None  # a recipe has the user's own settings
    switched = SwitchedSettings(spec.found, "cpu", spec.settings)  # nothing else is watched
    has_heard = apply_to_run(spec, switched)
    watched = WatchedRun(spec, spec.found, switched)
    LookingOn(None, watched.begin, _pass_by)
    return has_heard


class WatchedRun:
    """A run with a recipe, looked at as it trains."""

    def __init__(self, spec: WorkerSpec, own: Settings, switched: SwitchedSettings) -> None:
        """Begin before it trains.

        Args:
            spec: Of the run.
            own: The user's own settings.
            switched: The recipe's, which are in use.
        """
        assert isinstance(spec.task, KeepPromise)
        self._promise = spec.task
        self._settings = spec.settings
        self._own = own
        self._switched = switched
        self._compared = 0  # pairs of blocks
        self._is_whole = not any(map(stays, changed(spec.settings, own)))
        """Whether all that the recipe changes can be taken back, so that blocks show what it promises."""

    def begin(self, looked_on: LookedOn, looking_on: LookingOn) -> None:
        """Watch it from now on."""
        facts = looked_on.facts
        if compiles_itself(facts):  # to change settings would compile it anew
            return
        machine = detect_machine()
        context = KnobContext(machine, facts)
        space = SearchSpace(
            name="recipe",
            open={},
            fixed=self._settings,
            closed={},
            inexact=inexact_here(context),
            risks=risks_here(context),
        )
        plan = LivePlan(
            own=self._own,
            guesses=(),
            space=space,
            lasting=[name for name in changed(self._settings, self._own) if stays(name)],
            begins=self._settings,
        )
        seen = facts.seen.must_be_script("its steps are heard as those of a script.")
        left = None if seen.planned_steps is None else max(0, seen.planned_steps - seen.steps_seen)
        allowance = Allowance(left)
        self._tuner = LiveTuner(plan, allowance, self._tell, random.Random(0))
        steering = Steering(
            begins=self._settings,
            falls_back=self._settings,
            tuner=self._tuner,
            allowance=allowance,
            switched=self._switched,
            feeds=None,
            may_round=self._tuner.rounds(self._settings),
            memory_bytes=machine.usable_memory_bytes,
        )
        self._steps = LiveSteps(steering, facts, looking_on, self._step, _pass_by)

    def _tell(self, tried: Tried) -> None:
        given_up = {name: value for name, value in tried.settings.items() if tried.against[name] != value}
        why = tried.harm or "it is slower than your own settings here"
        _say(f"{describe_change(given_up, tried.against)} was given up: {why}")
        self._steps.told(tried)

    def _step(self, seconds: float | None) -> None:
        watch = self._tuner.watch
        if watch is None or watch.pairs <= self._compared or not self._is_whole:
            return
        self._compared = watch.pairs
        found = watch.comparison
        if self._compared >= ENOUGH_PAIRS and found is not None and is_broken(self._promise, found):
            self._is_whole = False  # it is told once
            _say(
                f"its steps are {found.speedup:.2f}x as fast as under your own settings ({found.low:.2f} to "
                f"{found.high:.2f}), and {self._promise.recipe} promises at least {self._promise.speedup:.2f}x; "
                "`autoaccel verify` measures it here"
            )


def is_broken(promise: KeepPromise, found: Comparison) -> bool:
    """Return whether steps are clearly less fast than was promised."""
    return found.high < promise.speedup


def _pass_by(error: BaseException) -> None:
    """What cannot be watched is trained all the same, with the recipe."""


def _say(line: str) -> None:
    say(one_line(f"autoaccel: {line}"), to_stderr=True)
