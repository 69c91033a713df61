"""A script that trains: looked at for its first steps, then tuned by those that follow."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec

from autoaccel.advise.candidates import first_candidates
from autoaccel.errors import BadRequestError
from autoaccel.live.allowance import Allowance
from autoaccel.live.blocks import StepTaken, StepWanted
from autoaccel.live.found import Found, Say, Started, peak_bytes
from autoaccel.live.losses import WATCHED_STEPS, Losses
from autoaccel.live.searching import LivePlan, Tried
from autoaccel.live.space import live_space
from autoaccel.live.tuner import LiveTuner
from autoaccel.machine.detect import detect_machine
from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.profile import Demand
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.knobs import lasts
from autoaccel.runtime.probing import probe_torch_beside
from autoaccel.runtime.script.feeding import Feeds, LoadedBy
from autoaccel.runtime.script.following_steps import FollowedSteps
from autoaccel.runtime.script.looking_on import LookedOn, LookingOn
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.steps import Step
from autoaccel.runtime.trained_state import TrainedState
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings

_MAY_HARM = ("precision", "extension")
"""Groups of knobs that may round more than the order of sums does."""


class LiveTraining:
    """Whatever this process trains, tuned by its steps once it is known."""

    def __init__(self, spec: WorkerSpec, say: Say, planned_steps: Callable[[], int | None]) -> None:
        """Begin to look; see `tune_as_it_trains`."""
        self._spec = spec
        self._say = say
        self._planned_steps = planned_steps
        self._began = time.monotonic()
        self._script: LiveScript | None = None
        self._error: BaseException | None = None
        self._feeds = Feeds()
        self._looking_on = LookingOn(self._feeds, self._seen, self._fail)

    def _seen(self, looked_on: LookedOn, looking_on: LookingOn) -> None:
        started = Started(self._spec, self._say, self._began, self._planned_steps())
        self._script = LiveScript(looked_on, looking_on, self._feeds, started)

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
        if self._script is not None:
            return self._script.summary()
        return f"it was not tuned: {self._error or 'it made too few steps'}"


def tune_as_it_trains(
    spec: WorkerSpec, say: Say, planned_steps: Callable[[], int | None] = lambda: None
) -> LiveTraining:
    """Tune what this process trains, in which torch was just imported; the script never learns of that.

    Args:
        spec: What is trained, and how it is tuned.
        say: See `Say`.
        planned_steps: Returns those of the whole training, once it trains; None if they must be seen.
    """
    return LiveTraining(spec, say, planned_steps)


class LiveScript:
    """A script that is tuned by the steps that it makes."""

    def __init__(self, looked_on: LookedOn, looking_on: LookingOn, feeds: Feeds, started: Started) -> None:
        """Begin to tune, between two steps.

        Args:
            looked_on: What is trained.
            looking_on: Who has seen it.
            feeds: Lets workers load its batches.
            started: How it was.
        """
        facts = looked_on.facts
        if facts.device != "cpu":
            raise BadRequestError(f"it trains on {facts.device}, and so far this is done on CPUs alone")
        task = started.spec.task
        assert isinstance(task, TuneLive)
        self._say = started.say
        self._machine = msgspec.structs.replace(detect_machine(), torch=probe_torch_beside())
        self._feeds = feeds
        context = KnobContext(self._machine, facts, _demand(looked_on))
        self._own, searched = baseline_settings(context), live_space(context, task.space)
        self._found = Found(started, facts, self._machine, searched, self._own)
        steps_left = _steps_left(facts, started.planned_steps)
        self._allowance = Allowance(steps_left)
        plan = LivePlan(
            own=self._own,
            guesses=first_candidates(searched, context, self._own, ()),
            space=searched,
            lasting=[name for name in searched.open if lasts(KNOBS[name])],
            judged_first=[name for name in searched.open if KNOBS[name].group in _MAY_HARM],
            remembered=self._found.remembered,
            searched_before=self._found.searched_before,
        )
        self._tuner = LiveTuner(plan, self._allowance, self._tell, random.Random(0))
        self._steps = self._tuner.steps()
        self._switched = SwitchedSettings(self._own, facts.device)
        self._followed = FollowedSteps(facts, self._switched, looking_on, self._step_ended, self._fail)
        self._losses = Losses()
        self._may_round = bool(searched.inexact)
        self._rounds = False  # whether the settings of the step that is made do
        self._kept: KeptState | None = None
        self._may_keep = True  # until it is known that this training cannot be kept
        self._wanted = StepWanted(self._own)
        left = "whose end is not known" if steps_left is None else f"of which {steps_left:,} steps are left"
        started.say(f"tuning while it trains, {left}; what is tried is written to {self._found.log}")
        self._ask(None)

    def _step_ended(self, step: Step | None) -> None:
        seconds = step.seconds if step is not None else None
        self._found.step(seconds)
        began = time.perf_counter()
        beside = self._followed.beside()
        if self._feeds.failed is not None:
            raise self._feeds.failed
        # What former workers had ready, or those that begin still make ready, says nothing of the settings in use.
        made = StepTaken(None if self._feeds.unsettled else seconds, beside, self._harm(), self._switched.size)
        self._switched.size, self._feeds.unsettled = 0, False
        if made.harm:
            self._go_back()
        self._ask(made)
        self._allowance.add_between(time.perf_counter() - began)

    def _ask(self, made: StepTaken | None) -> None:
        """Let the next step be made as the tuner wants it; None to begin."""
        try:
            wanted = next(self._steps) if made is None else self._steps.send(made)
            if wanted.beside is not None and not self._has_room:
                wanted = self._steps.send(StepTaken(None, "too little memory is free for copies of what is trained"))
        except StopIteration:
            wanted = StepWanted(self._tuner.best)
            self._followed.end()
        if wanted.settings is not self._wanted.settings:
            self._rounds = self._tuner.rounds(wanted.settings)
            if self._rounds and self._kept is None and self._may_keep:
                self._keep_state()
            self._switch(wanted.settings)
        self._wanted = wanted
        self._followed.compute_beside(wanted.beside)

    def _switch(self, settings: Settings) -> None:
        """Train under these settings from the next step on; workers load from the next batch on."""
        self._switched.switch(settings)
        self._feeds.load_by(LoadedBy(int(settings["loader.workers"]), int(settings["loader.prefetch"])))

    def _harm(self) -> str:
        """Return what harm the last step shows, in words: settings that round are in use."""
        if not self._rounds and (self._tuner.has_searched or not self._may_round):
            return ""  # nobody will ask for a loss that has come before
        harm = self._losses.add(self._followed.loss, self._rounds)
        if self._kept is not None and not harm:
            self._kept.step()
        return harm

    def _keep_state(self) -> None:
        """Keep what the training is before steps that may harm it, if there is room for it."""
        state = self._followed.trained_state() if self._has_room else None
        self._kept = KeptState(state) if state is not None else None
        self._may_keep = self._kept is not None

    def _go_back(self) -> None:
        """Go back to where the training was before it was harmed, if that was kept."""
        if self._kept is not None:
            self._kept.restore()
            self._kept = None

    @property
    def _has_room(self) -> bool:
        """Whether as much memory is left as this process has held: copies take less than a step of all that."""
        return self._machine.usable_memory_bytes >= 2 * peak_bytes()

    def _tell(self, tried: Tried) -> None:
        self._found.add(tried)
        if tried.harm or tried.became == "given up":
            why = tried.harm or "it has become slower than what it had replaced"
            self._say(f"{describe_change(tried.settings, self._own)} was given up: {why}")
        if tried.is_kept:
            self._losses.change()
        if not self._tuner.rounds(tried.settings if tried.is_kept else self._tuner.best):
            self._kept = None

    def stop(self) -> None:
        """Hear of nothing that follows, and go back to the user's own settings."""
        self._followed.end_now()
        self._switched.switch(self._own)
        self._switched.let_go()

    def summary(self) -> str:
        """Return what came of it, in a sentence; leave it for the next run."""
        return self._found.end(self._tuner, self._allowance.usual_seconds)

    def _fail(self, error: BaseException) -> None:
        """Let the script train on under its own settings: what fails here is none of its own."""
        self._found.has_failed = True
        self._followed.end()
        self._switched.switch(self._own)
        self._feeds.end()
        self._say(f"it is no longer tuned: {type(error).__name__}: {error}")


class KeptState:
    """What a training was, kept to go back to: from before a change, and anew now and then."""

    def __init__(self, state: TrainedState) -> None:
        """Keep what it is now."""
        self._state = state
        self._copy = state.copy()
        self._steps = 0

    def step(self) -> None:
        """A step was made that shows no harm."""
        self._steps += 1
        if self._steps == WATCHED_STEPS:
            self._copy, self._steps = self._state.copy(), 0

    def restore(self) -> None:
        """Go back."""
        self._state.restore(self._copy)


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
