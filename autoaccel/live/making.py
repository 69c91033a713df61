"""The steps of a script, made as a tuner says; and what is put right where one has harmed the training."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from autoaccel.live.allowance import Allowance
from autoaccel.live.blocks import StepTaken, StepWanted
from autoaccel.live.found import peak_bytes
from autoaccel.live.losses import RENEWED_STEPS, Losses, LossSays
from autoaccel.live.searching import Tried
from autoaccel.live.together import Decides
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.script.feeding import Feeds
from autoaccel.runtime.script.following_steps import FollowedSteps, UntilAnother
from autoaccel.runtime.script.lending import LoadedBy
from autoaccel.runtime.script.looking_on import LookingOn
from autoaccel.runtime.script.switched import SwitchedSettings
from autoaccel.runtime.steps import Step
from autoaccel.runtime.thread_time import thread_system_seconds
from autoaccel.runtime.trained_state import TrainedState


class Steering(NamedTuple):
    """What decides how steps are made, and what carries it out.

    Attributes:
        begins: The settings that are in use now.
        falls_back: Those that are in use once nothing can be decided any more.
        tuner: Says how each step is made: itself, or what another process decides.
        allowance: Counts what that costs.
        switched: Changes the process between two steps.
        feeds: Changes who loads batches; None where loaders stay as they are.
        may_round: Whether settings may be tried that round, so that losses before them are known.
        memory_bytes: That this process may use.
    """

    begins: Settings
    falls_back: Settings
    tuner: Decides
    allowance: Allowance
    switched: SwitchedSettings
    feeds: Feeds | None
    may_round: bool
    memory_bytes: int


class LiveSteps:
    """Lets each step of a script be made as a tuner says."""

    def __init__(
        self,
        steering: Steering,
        facts: TrainingFacts,
        looking_on: LookingOn,
        counted: Callable[[float | None], None],
        failed: Callable[[BaseException], None],
        another: Callable[[], Settings] | None = None,
    ) -> None:
        """Begin between two steps.

        Args:
            steering: What decides how they are made.
            facts: What is trained.
            looking_on: Who has seen it.
            counted: Called after each step with its seconds; None if something else was done beside it.
            failed: Called with an error of ours, after which the script trains on under what it falls back to.
            another: Called once another training has begun; returns what that trains under. None: what is in use.
        """
        self._steering = steering
        self._tuner = steering.tuner
        self._switched = steering.switched
        self._counted = counted
        self._told_failure = failed
        self._another = another
        self._waits: UntilAnother | None = None  # for it, once no step is told of
        self._steps = steering.tuner.steps()
        self._has_failed = False
        self._followed = FollowedSteps(facts, steering.switched, looking_on, self._step_ended, self._ended, self._fail)
        self._losses = Losses()
        self._rounds = steering.tuner.rounds(steering.begins)  # whether the settings of the step that is made do
        self._kept: KeptState | None = None
        self._may_keep = True  # until it is known that this training cannot be kept
        self._wanted = StepWanted(steering.begins)
        self._system = thread_system_seconds()  # so far
        self._ask(None)

    def told(self, tried: Tried) -> None:
        """A comparison has ended; what was done under harmful settings is undone, if what was before them was kept."""
        if tried.is_undone and self._kept is not None:
            self._kept.restore()
            self._kept = None
        if tried.is_kept:
            self._losses.change()
        if not self._tuner.rounds(tried.settings if tried.is_kept else self._tuner.best):
            self._kept = None

    def stop(self) -> None:
        """Hear of nothing that follows, and fall back."""
        self._decide_no_more()
        self._followed.end_now()
        if self._waits is not None:
            self._waits.end()
        self._switch(self._steering.falls_back)
        self._switched.let_go()

    def _decide_no_more(self) -> None:
        with contextlib.suppress(Exception):  # other processes may be gone that would be told
            self._steps.close()

    def _ended(self, is_another: bool) -> None:
        """No further step is told of.

        Args:
            is_another: Whether another training has begun, perhaps in the middle of a block.
        """
        if self._another is not None and is_another and not self._has_failed:
            self._begin_another()
            return
        if not self._has_failed:
            self._switch(self._tuner.best)
            if self._another is not None:
                self._waits = UntilAnother(self._followed.numbers, self._begin_another, self._fail)
        self._switched.let_go()

    def _begin_another(self) -> None:
        """Leave another training to somebody else; of its updates nobody knows whether settings keep them."""
        assert self._another is not None
        self._decide_no_more()
        self._switch(self._another())
        self._switched.let_go()

    def _step_ended(self, step: Step | None) -> None:
        seconds = step.seconds if step is not None else None
        self._counted(seconds)
        began = time.perf_counter()
        beside = self._followed.beside()
        if (feeds := self._steering.feeds) is not None:
            if feeds.failed is not None:
                raise feeds.failed
            # What former workers had ready, or those that begin still make ready, says nothing of what is in use.
            seconds, feeds.unsettled = None if feeds.unsettled else seconds, False
        system = thread_system_seconds()
        harm, doubt = self._says()
        made = StepTaken(seconds, beside, harm, doubt, self._switched.size, max(0.0, system - self._system))
        self._switched.size, self._system = 0, system
        self._ask(made)
        self._steering.allowance.add_between(time.perf_counter() - began)

    def _ask(self, made: StepTaken | None) -> None:
        """Let the next step be made as the tuner wants it; None to begin."""
        try:
            wanted = next(self._steps) if made is None else self._steps.send(made)
            if wanted.beside is not None and not self._has_room:
                wanted = self._steps.send(StepTaken(None, "too little memory is free for copies of what is trained"))
        except StopIteration:
            wanted = StepWanted(self._tuner.best)
            self._followed.end()
        is_other = wanted.settings is not self._wanted.settings
        if is_other:
            self._rounds = self._tuner.rounds(wanted.settings)
        # A run with a recipe begins with what rounds: it is kept after its first whole step, whose loss is known.
        if self._rounds and self._kept is None and self._may_keep and self._steering.may_round:
            self._keep_state()
        if is_other:
            self._switch(wanted.settings)
        self._wanted = wanted
        self._followed.compute_beside(wanted.beside, wanted.points)

    def _switch(self, settings: Settings) -> None:
        """Train under these settings from the next step on; workers load from the next batch on."""
        self._switched.switch(settings)
        if self._steering.feeds is not None:
            self._steering.feeds.load_by(LoadedBy(int(settings["loader.workers"]), int(settings["loader.prefetch"])))

    def _says(self) -> LossSays:
        """Return what the loss of the last step says: settings that round are in use."""
        if not self._steering.may_round or (not self._rounds and self._tuner.has_searched):
            return LossSays()  # nobody will ask for a loss that has come before
        says = self._losses.add(self._followed.loss, self._rounds)
        if self._kept is not None and not says.harm:
            self._kept.step()
        return says

    def _keep_state(self) -> None:
        """Keep what the training is before steps that may harm it, if there is room for it."""
        if not math.isfinite(self._followed.loss):
            return
        state = self._followed.trained_state() if self._has_room else None
        self._kept = KeptState(state) if state is not None else None
        self._may_keep = self._kept is not None

    @property
    def _has_room(self) -> bool:
        """Whether as much memory is left as this process has held: copies take less than a step of all that."""
        return self._steering.memory_bytes >= 2 * peak_bytes()

    def _fail(self, error: BaseException) -> None:
        """Let the script train on: what fails here is none of its own."""
        self._has_failed = True
        self._followed.end()
        self._decide_no_more()
        self._switched.switch(self._steering.falls_back)
        if self._steering.feeds is not None:
            self._steering.feeds.end()
        self._told_failure(error)


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
        if self._steps == RENEWED_STEPS:
            self._copy, self._steps = self._state.copy(), 0

    def restore(self) -> None:
        """Go back."""
        self._state.restore(self._copy)
