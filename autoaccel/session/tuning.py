"""The straight line: from a request to a recipe."""

from __future__ import annotations

from contextlib import ExitStack

from autoaccel.records.progress import Listener
from autoaccel.records.recipe import Recipe
from autoaccel.records.request import Request
from autoaccel.session.clock import BudgetClock
from autoaccel.session.concluding import conclude
from autoaccel.session.contenders import search_and_prove
from autoaccel.session.kept_apart import tell_written
from autoaccel.session.preparing import prepare
from autoaccel.session.run_folder import RunFolder
from autoaccel.session.sharing import StudyAddress
from autoaccel.session.tuning_run import TuningRun
from autoaccel.workers.starter import WorkerStarter


def tune(request: Request, folder: RunFolder, listener: Listener, address: StudyAddress | None = None) -> Recipe | None:
    """Return the recipe, proven or the baseline's own; it is in the folder, with all that it rests on.

    With the address of a study it is searched together with workers on other machines; None is returned, and no recipe
    written, where another of them proves what all have found.

    Raises:
        BadRequestError: If the request cannot be met.
        WorkloadFailedError: If the training fails under the user's own settings.
        BudgetSpentError: If the budget does not suffice for a baseline, a trial and a proof.
    """
    clock = BudgetClock(request.budget_seconds, folder.spent_seconds)
    in_place = request.options.in_place
    with WorkerStarter(folder.path, request.workload, in_place=in_place) as starter, ExitStack() as stack:
        setup = prepare(TuningRun(request, folder, starter, clock, listener), stack, address)
        result = search_and_prove(setup)
        recipe = conclude(setup, result) if result else None
        tell_written(starter, listener)
        return recipe
