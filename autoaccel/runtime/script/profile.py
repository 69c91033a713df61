"""Where the time of a script's steps goes: they are profiled as those of the built-in loop are, from its own calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from autoaccel.records.base import Record
from autoaccel.records.messages import Profiled, TakeProfile, WorkerSpec
from autoaccel.records.seen import ScriptFacts
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.batches import tensors_of
from autoaccel.runtime.boards import write_board
from autoaccel.runtime.conditions import ModelCallState, Parts, conditions_of, profilers_on
from autoaccel.runtime.ineffective import did_nothing
from autoaccel.runtime.looking import Looking, look_at_conditions, look_at_machine, with_profile
from autoaccel.runtime.pacer import Line
from autoaccel.runtime.phases import LEFT_OUT
from autoaccel.runtime.profiling import profiling, recording_functions
from autoaccel.runtime.script.boundary import Boundary, PacedScript
from autoaccel.runtime.script.events import listen
from autoaccel.runtime.script.install import AppliedToScript, install_loaders
from autoaccel.runtime.script.models import Models
from autoaccel.runtime.script.phases import PhaseHooks
from autoaccel.runtime.spending import Spending
from autoaccel.runtime.steps import Step, Stretch, advance
from autoaccel.runtime.warmup import PROFILE_WARMUP_SECONDS, warming_up


class PhasedScript(PacedScript):
    """A script's training that tells of the phases of its steps: `Phased`."""

    def __init__(self, facts: ScriptFacts, applied: Applied) -> None:
        """Begin with no step made; see `PacedScript`."""
        super().__init__(facts, applied)
        self.phase_ended: Callable[[str], None] = lambda phase: None
        self.loader: DataLoader[Any] | None = None
        self.samples_done = 0
        self.step_samples = _samples_of_step(facts)
        """0 if that is not known."""
        # A hook on a compiled model would compile it anew.
        self.loss_is_apart = facts.calls_models and "torch.compile" not in facts.does

    def end_step(self) -> None:
        """Count its samples as well."""
        super().end_step()
        self.samples_done += self.step_samples

    def step_left_out(self) -> None:
        """No phase of it counts."""
        self.phase_ended(LEFT_OUT)


def _samples_of_step(facts: ScriptFacts) -> int:
    loader = facts.loader
    if loader is None or loader.key.batch_size is None:
        return 0
    batches = max(1, (loader.batches or 1) // (facts.steps_per_epoch or 1))
    return loader.key.batch_size * batches


class ProfiledScript:
    """A script of which some steps are profiled."""

    def __init__(
        self, spec: WorkerSpec, task: TakeProfile, line: Line, finish: Callable[[Record | None], None]
    ) -> None:
        """Apply the settings to this process, in which nothing was computed yet.

        Args:
            spec: Has what the script was seen to do.
            task: What is to be looked at.
            line: The way to the tuner.
            finish: Called with the answer; it does not return.
        """
        assert spec.script is not None  # a script is described first
        self._spec = spec
        self._task = task
        self._line = line
        self._finish = finish
        self._applied = AppliedToScript(spec.settings, spec.script.device, spec.found)
        self._paced = PhasedScript(spec.script, self._applied)
        self._boundary = Boundary(spec.script, self._paced, self._applied.insist, self._first_update, self._step_ended)
        self._optimizer: torch.optim.Optimizer | None = None
        self._models: Models | None = None
        self._hooks: PhaseHooks | None = None
        self._heard: list[nn.Module] = []  # models that tell of their forward passes
        self._seen: ModelCallState | None = None  # while they are called; None: they tell nothing
        self._looking = self._look()
        self._steps_before = 0  # this run of the script
        install_loaders(spec.script, self._applied)

    def attach(self, failed: Callable[[BaseException], None]) -> None:
        """Hear of all that follows in this process."""
        self._applied.failed = failed
        assert self._spec.script is not None
        feeds = frozenset(loader.key for loader in self._spec.script.loaders if loader.feeds)
        self._hooks = PhaseHooks(lambda phase: self._paced.phase_ended(phase), feeds, self._paced.loss_is_apart)
        listen(self._boundary, failed)
        self._models = Models(self._applied, self._paced, self._boundary)
        advance(self._looking, None)

    def ended(self) -> bool:
        """The script has ended before all was seen: return whether it is run again, which it is if it made steps."""
        self._boundary.script_ended()
        if self._paced.steps_done == self._steps_before:
            return False
        self._steps_before = self._paced.steps_done
        assert self._models is not None
        self._boundary.start_again()
        self._models.watch()
        return True

    def _first_update(self, optimizer: torch.optim.Optimizer) -> None:
        self._applied.equip_optimizer(optimizer)
        self._optimizer = optimizer

    def _step_ended(self, step: Step) -> None:
        """Take in a step without an evaluation beside it; answer if it was the last one wanted."""
        assert self._models is not None
        self._models.end()
        self._hear_models()
        try:
            advance(self._looking, step)
        except StopIteration as end:
            self._finish(end.value)

    def _hear_models(self) -> None:
        """Let models tell of their forward passes; of a script that was started again they are others."""
        assert self._models is not None and self._hooks is not None
        if self._seen is not None and self._heard != self._models.trained:
            self._heard = self._models.trained
            self._hooks.hear_models(self._heard, self._seen.look)

    def _look(self) -> Stretch[Record]:
        """Take steps; return what was found, or the Failure of a setting that did nothing."""
        task, paced = self._task, self._paced
        warmed = yield from warming_up(paced, min(self._spec.warmup_seconds, PROFILE_WARMUP_SECONDS))
        if failure := did_nothing(paced):
            return failure
        assert self._models is not None and self._hooks is not None and self._optimizer is not None
        # Registers no module anew: it only holds them together.
        model, profilers = nn.ModuleList(self._models.trained), profilers_on()
        seen = ModelCallState(paced.device)
        if paced.loss_is_apart:
            self._seen = seen
            self._hear_models()
        else:
            seen.gradients = True  # nobody looks
        spending = Spending(warmed.step_seconds[-1], task.max_seconds)
        paced.loader = self._hooks.loader
        profile, steps = yield from profiling(paced, model, task.seconds, task.trace_path, spending)
        spending.step_seconds = profile.step_seconds
        if task.board_path is not None:
            write_board(task.board_path, profile, steps)
        looking = Looking(Profiled(profile=profile), spending, self._line.write)
        batch, samples = self._hooks.batch, paced.step_samples or _first_size(self._hooks.batch)
        parts = Parts(paced.device, model, self._optimizer, paced.loader, batch, samples)
        look_at_conditions(looking, lambda: conditions_of(seen, profilers, parts))
        if task.thorough:
            look_at_machine(looking, paced.device, task.cache_bytes)
        if spending.affords("lines of Python", 1.0):
            functions = yield from recording_functions(paced, profile.step_seconds)
            return with_profile(looking.found, python=functions)
        return looking.found


def _first_size(batch: Any) -> int:
    """Return the size of the first dimension of a batch; 1 if it has none."""
    return next((len(tensor) for tensor in tensors_of(batch) if tensor.dim()), 1)
