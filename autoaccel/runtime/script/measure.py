"""Measure a script: a `Pacer` is told of its steps from within its own calls, under settings."""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.errors import BadRequestError
from autoaccel.records.base import Record
from autoaccel.records.messages import Failure, Measure, WorkerSpec
from autoaccel.runtime.pacer import Line, Pacer
from autoaccel.runtime.script.boundary import Boundary, PacedScript
from autoaccel.runtime.script.events import listen
from autoaccel.runtime.script.install import AppliedToScript, install_loaders
from autoaccel.runtime.script.metric import OwnMetric
from autoaccel.runtime.script.models import Models
from autoaccel.runtime.script.numbering import whatever_its_batches, whole
from autoaccel.runtime.script.seeds import shift_seeds
from autoaccel.runtime.steps import Step

_NEARLY = 0.9  # as in runtime/last_part.py
_FEWEST = 10
"""Steps of a training that ends early because it is good enough; one of fewer, of more than ten times as many that are
planned, has come to grief and ended with exit code 0."""


class Measured:
    """A script whose steps are paced. One that ends before the tuner has seen enough is run again."""

    def __init__(self, spec: WorkerSpec, task: Measure, line: Line, finish: Callable[[Record | None], None]) -> None:
        """Apply the settings to this process, in which nothing was computed yet.

        Args:
            spec: Has what the script was seen to do.
            task: How it is measured.
            line: The way to the tuner.
            finish: Called with the answer, if there is one, when no more steps are wanted; it does not return.
        """
        assert spec.script is not None  # a script is described first
        if task.steps is not None:
            shift_seeds(task.seed)
        self._planned_steps = spec.script.planned_steps or 0
        self._task = task
        self._finish = finish
        self.applied = AppliedToScript(spec.settings, spec.script.device, spec.found)
        self._paced = PacedScript(spec.script, self.applied, task.steps)
        if task.steps is not None and spec.script.metric is not None:
            self._paced.own_metric = OwnMetric(spec.script.metric)
        self._pacer = Pacer(self._paced, task, spec.warmup_seconds, line)
        self._boundary = Boundary(
            spec.script, self._paced, self._begins, self.applied.equip_optimizer, self._step_ended
        )
        named = whatever_its_batches if self._paced.awaits_batches else whole
        install_loaders(spec.script, self.applied, named)
        self._last_step: Step | None = None
        self._steps_before = 0
        self._models: Models | None = None

    def attach(self, failed: Callable[[BaseException], None]) -> None:
        """Hear of all that follows in this process."""

        self.applied.failed = failed
        listen(self._boundary, failed)
        self._models = Models(self.applied, self._paced, self._boundary)

    def ended(self) -> bool:
        """The script has ended: return whether it is run again for more steps."""
        self._boundary.script_ended()
        if self._task.steps is not None:
            done, wanted = self._paced.steps_done, self._paced.own_steps(self._task.steps)
            # With other batches an epoch leaves out other samples at its end.
            least = wanted if self._paced.batch_factor == 1 else _NEARLY * wanted
            if done >= least:  # and has yet to say what it has reached
                self._paced.has_ended = True
                self._paced.steps_done = max(done, wanted)
                assert self._last_step is not None
                self._step_ended(self._last_step)
                self._finish(None)
            message = f"it ended after {done:,} steps, but {wanted:,} were to be trained"
            self._finish(Failure(kind="invalid", message=message))
        made, planned = self._paced.steps_done - self._steps_before, self._planned_steps
        if not made:
            return False
        if made < _FEWEST and planned > _FEWEST * made:
            message = f"it ended after {made:,} of {planned:,} planned steps"
            self._finish(Failure(kind="exited", message=message, signature="early end"))
        self._steps_before = self._paced.steps_done
        self._boundary.start_again()
        assert self._models is not None
        self._models.watch()
        return True

    def _begins(self) -> None:
        if self._paced.awaits_batches:
            raise BadRequestError("under its arguments no DataLoader that is known feeds the training.")
        self.applied.insist()
        if not self._pacer.built():
            self._finish(self._pacer.failure)

    def _step_ended(self, step: Step) -> None:
        assert self._models is not None
        self._models.end()
        self._last_step = step
        if not self._pacer.step_ended(step):
            self._finish(self._pacer.failure)
