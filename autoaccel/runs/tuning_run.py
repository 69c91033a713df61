"""TuningRun: what every stage of one tuning run shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from autoaccel.records.progress import Event, Listener, StageStarted
from autoaccel.records.request import Request
from autoaccel.records.space import SearchSpace
from autoaccel.runs.clock import BudgetClock, Stages
from autoaccel.runs.run_folder import RunFolder
from autoaccel.space.knobs import KnobContext
from autoaccel.space.search_space import load_space
from autoaccel.workers.starter import WorkerStarter


@dataclass(frozen=True)
class TuningRun:
    """What every stage of one tuning run shares."""

    request: Request
    folder: RunFolder
    starter: WorkerStarter
    clock: BudgetClock
    listener: Listener
    stages: Stages = field(default_factory=Stages)
    drift: float = 0.0  # of log speed-ups from hour to hour, by what kind of machine this is; see `drift_on`

    def search_space(self, context: KnobContext) -> SearchSpace:
        """Return the search space that was asked for, with what is possible in this context."""
        options = self.request.options
        return load_space(str(options.space), context, options.fixed, options.excluded, self.request.may_alter)

    def tell(self, event: Event) -> None:
        """Tell whoever watches, and keep what was spent; the event that begins a stage also starts its time."""
        if isinstance(event, StageStarted):
            self.stages.begin(event.stage, self.clock.spent)
        self.folder.save_spent(self.clock.spent)
        self.listener(event)
