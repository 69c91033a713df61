"""The updates that a script's own steps make from kept states: the script makes them, and its state is put back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from autoaccel.records.base import Record
from autoaccel.records.messages import Failure, WorkerSpec
from autoaccel.records.rounding import CompareUpdates, RecordUpdates
from autoaccel.runtime.ineffective import did_nothing
from autoaccel.runtime.randomness import random_states, seed_all
from autoaccel.runtime.rounding import comparing, read_course, recording
from autoaccel.runtime.script.boundary import Boundary, PacedScript
from autoaccel.runtime.script.events import RootCalls, listen
from autoaccel.runtime.script.install import AppliedToScript, install_loaders
from autoaccel.runtime.script.models import Models
from autoaccel.runtime.script.own_updates import OwnUpdates
from autoaccel.runtime.script.seeds import shift_seeds
from autoaccel.runtime.trained_state import TrainedState, Values
from autoaccel.runtime.updates import Made, Steps, Wanted, change, has_drawn


class ScriptSteps:
    """Steps of a script, each from the state that is wanted: `Stepping`.

    The script goes on from step to step, over its own batches. Where a step is wanted from a kept state, all that a
    step changes is put back before it, and what the script makes of that is looked at after it. Its schedule, and
    whatever it keeps besides, such as averages of its weights, advance in both processes alike.
    """

    repeats = False
    """No batch can be asked for a second time."""

    def __init__(self, state: TrainedState, device: torch.device) -> None:
        """Begin between two steps.

        Args:
            state: Of what is trained.
            device: On which.
        """
        self.state = state
        self.draws_numbers = False
        self._device = device
        self._numbers = 0
        self._wanted = Wanted()
        self._before: Values = {}
        self._gradients: Values = {}

    def begin(self, wanted: Wanted) -> None:
        """Let the script's next step be the one that is wanted."""
        self._wanted = wanted
        if wanted.start is not None:
            self.state.restore(wanted.start)
            self._before, self._gradients = self.state.values(), {}
        self._numbers += 1
        seed_all(self._numbers)

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at the gradients that an optimizer has got."""
        self._look_at_gradients(self.state.names_in(optimizer))

    def hear_gradients(self) -> None:
        """Look at gradients as they are computed: a script that makes its updates itself may clear them in these."""
        for name, parameter in self.state.parameters.items():
            look = partial(self._look_at_gradients, [name])
            parameter.register_post_accumulate_grad_hook(look)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def _look_at_gradients(self, names: Sequence[str], *_: torch.Tensor) -> None:
        if self._wanted.start is not None:
            self._gradients |= self.state.gradients(names)

    def made(self, loss: float) -> Made:
        """Return the step that the script has made since `begin`."""
        if self._numbers == 1:
            states = random_states(self._device)
            seed_all(self._numbers)
            self.draws_numbers = has_drawn(states, self._device)
        if self._wanted.start is None:
            return Made(loss, {}, {})
        return Made(loss, change(self._before, self.state.values()), self._gradients)


class UpdatesOfScript:
    """A script of which single updates are recorded, or compared with those that were."""

    def __init__(
        self, spec: WorkerSpec, task: RecordUpdates | CompareUpdates, finish: Callable[[Record | None], None]
    ) -> None:
        """Apply the settings to this process, in which nothing was computed yet.

        Args:
            spec: Has what the script was seen to do.
            task: What is wanted.
            finish: Called with the answer; it does not return.
        """
        assert spec.script is not None  # a script is described first
        shift_seeds(0)
        self._task = task
        self._finish = finish
        self._cycle = spec.script.cycle
        self._applied = AppliedToScript(spec.settings, spec.script.device, spec.found)
        self._paced = PacedScript(spec.script, self._applied)
        self._paced.before_update = self._update_begins
        self._paced.after_step = self._step_made
        self._boundary = Boundary(spec.script, self._paced, self._applied.insist, self._first_update, lambda step: None)
        self._course = (
            read_course(Path(task.folder), self._applied.compiles) if isinstance(task, CompareUpdates) else None
        )
        self._optimizers: list[torch.optim.Optimizer] = []
        self._models: Models | None = None
        self._made: ScriptSteps | None = None  # since the first step
        self._steps: Steps[Record] | None = None
        install_loaders(spec.script, self._applied)

    def attach(self, failed: Callable[[BaseException], None]) -> None:
        """Hear of all that follows in this process."""
        self._applied.failed = failed
        listen(self._boundary, failed)
        self._models = Models(self._applied, self._paced, self._boundary)

    def ended(self) -> bool:
        """The script has ended before all was seen: its steps are too few."""
        message = f"it ended after {self._paced.steps_done:,} steps, too few to compare updates"
        self._finish(Failure(kind="invalid", message=message))
        return False

    def _first_update(self, optimizer: torch.optim.Optimizer) -> None:
        self._applied.equip_optimizer(optimizer)
        self._optimizers.append(optimizer)

    def _update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._made is not None and self._boundary.own_updates is None:
            self._made.update_begins(optimizer)

    def _step_made(self) -> None:
        """Tell of the step that the script has made, and prepare the next one; answer if there is none."""
        try:
            if self._steps is None or self._made is None:
                self._made, self._steps = self._begun()
                next(self._steps)
            # The first step was the script's own: by it models and optimizers were known, and what is compiled was.
            wanted = self._steps.send(self._made.made(self._paced.losses.last))
        except StopIteration as end:
            self._finish(did_nothing(self._paced) or end.value)
        else:
            self._made.begin(wanted)

    def _begun(self) -> tuple[ScriptSteps, Steps[Record]]:
        assert self._models is not None
        self._models.end()
        if self._boundary.own_updates is not None:
            self._know_own_updates(self._boundary.own_updates)
        optimizers = self._optimizers[min(self._cycle) :]  # those before are of a training that has ended
        groups = itertools.chain(*(optimizer.param_groups for optimizer in optimizers))
        updated = {id(parameter) for group in groups for parameter in group["params"]}
        models = [model for model in self._models.trained if any(id(one) in updated for one in model.parameters())]
        steps = ScriptSteps(TrainedState(models, optimizers), self._paced.device)
        if self._boundary.own_updates is not None:
            steps.hear_gradients()
        folder = Path(self._task.folder)
        if self._course is not None:
            return steps, comparing(steps, folder, self._course)
        assert isinstance(self._task, RecordUpdates)
        return steps, recording(steps, folder, self._task.points, self._task.batches)

    def _know_own_updates(self, updates: OwnUpdates) -> None:
        """Hear of updates that the script makes itself, before its next step begins: that step is made from a state."""
        assert self._models is not None
        parameters = itertools.chain(*(model.parameters() for model in self._models.trained))
        updates.hold([parameter for parameter in parameters if parameter.requires_grad])
        RootCalls(lambda module, trains: updates.end())
