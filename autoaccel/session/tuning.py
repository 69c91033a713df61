"""The straight line: from a request to a recipe."""

from __future__ import annotations

from contextlib import ExitStack

import msgspec

from autoaccel.errors import BudgetSpentError
from autoaccel.machine.own_use import machine_to_itself
from autoaccel.records.progress import Listener, Note, RunStarted, WaitStarted
from autoaccel.records.recipe import Recipe
from autoaccel.records.request import Request
from autoaccel.runs.changed_file import FileWatch
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.kept_apart import tell_written
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.sharing import StudyAddress
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.session.concluding import conclude
from autoaccel.session.preparing import prepare
from autoaccel.session.proof_loop import search_and_prove
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
    with machine_to_itself(lambda sentence: listener(WaitStarted(sentence))):
        clock = BudgetClock(request.budget_seconds, folder.spent_seconds)
        listener(RunStarted(request.workload.path, str(folder.path), request.budget_seconds))
        in_place = request.options.in_place
        with WorkerStarter(folder.path, request.workload, in_place=in_place) as starter, ExitStack() as stack:
            run = TuningRun(request, folder, starter, clock, FileWatch(request.workload, listener))
            try:
                setup = prepare(run, stack, address)
            except BudgetSpentError:
                if not folder.recipe.exists():
                    raise
                return _as_proven(run)
            result = search_and_prove(setup)
            recipe = conclude(setup, result) if result else None
            tell_written(starter, listener)
            return recipe


def _as_proven(run: TuningRun) -> Recipe:
    """Return the recipe that an earlier part of the run has written, where the budget leaves no time for more."""
    recipe = run.folder.load_recipe()
    recipe = msgspec.structs.replace(recipe, search=msgspec.structs.replace(recipe.search, unfinished=False))
    run.folder.save_recipe(recipe)
    run.tell(Note("too little of the budget is left to go on: what was proven stays"))
    return recipe
