"""The public doors: autotune() finds a recipe, apply() applies it in your own code."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.options import (
    DEFAULT_BUDGET,
    DEFAULT_MAX_DROP,
    OPTIONS,
    TuneOptions,
    check,
    documented,
    options_in,
)
from autoaccel.records.progress import Listener
from autoaccel.records.recipe import Constraint, Recipe
from autoaccel.records.request import MIN_BUDGET_SECONDS, Request
from autoaccel.records.workload import Workload
from autoaccel.runs.recipes import open_recipe, refuse_elsewhere
from autoaccel.runs.repeating import check_repeated
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.run_names import latest_run_path
from autoaccel.runs.run_values import check_run
from autoaccel.runs.same_training import check_same_training
from autoaccel.runs.script_wishes import check_wishes_for
from autoaccel.runs.workloads import find_workload, pickle_workload
from autoaccel.units import format_duration, parse_duration, parse_max_drop

if TYPE_CHECKING:
    from autoaccel.runs.sharing import StudyAddress
    from autoaccel.runtime.applied import Applied
    from autoaccel.runtime.training import Training

Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class AutotuneArguments(TuneOptions):
    """The arguments of autotune(): the options of a run by their names, and what only a program can pass."""

    build: Callable[[], Training] | str | Path
    listener: Listener | None = field(default=None, kw_only=True)


def _called_with(
    make: Callable[Arguments, AutotuneArguments],
) -> Callable[[Callable[[AutotuneArguments], Recipe]], Callable[Arguments, Recipe]]:
    """Let a function of one record be called with that record's arguments, for type checkers and for help()."""
    types = {option.name: option.type for option in OPTIONS}
    signature = inspect.signature(make)
    parameters = [
        parameter.replace(annotation=types.get(parameter.name, parameter.annotation))
        for parameter in signature.parameters.values()
    ]

    def decorate(function: Callable[[AutotuneArguments], Recipe]) -> Callable[Arguments, Recipe]:
        @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__"))
        def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Recipe:
            return function(make(*args, **kwargs))

        called.__doc__ = documented(function.__doc__ or "")
        called.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect reads it off any function
            parameters=parameters, return_annotation=Recipe
        )
        return called

    return decorate


@_called_with(AutotuneArguments)
def autotune(arguments: AutotuneArguments) -> Recipe:
    """Return the recipe that was proven fastest for a training on this machine, or the user's own settings.

    Args:
        build: A function without arguments that returns a Training, also one defined in a notebook; or a file,
            "model.py" or "model.py:entry".
        {options}
        listener: Told what happens; None prints progress.

    Raises:
        BadRequestError: If the request cannot be met.
        WorkloadFailedError: If the training fails under the user's own settings.
        BudgetSpentError: If the budget does not suffice to measure the baseline.
    """
    from autoaccel.workers.environment import WORKER_MARK

    if WORKER_MARK in os.environ:
        raise BadRequestError(
            "autotune() was called by the code that it is tuning. Put the call under `if __name__ == '__main__':`."
        )

    options, build, listener = options_in(arguments), arguments.build, arguments.listener
    check_values_here(options.fixed)
    if isinstance(build, (str, Path)):
        request = make_request(find_workload(str(build)), options)
        opened = open_folder(Path(request.workload.path).stem, options.output, options.resume)
        continued(request, opened)  # what is refused is refused before anything in the folder changes
        with opened as folder:
            recipe = run_request(begun(request, folder), folder, listener)
    else:
        with open_folder(getattr(build, "__name__", "build"), options.output, options.resume) as folder:
            request = make_request(pickle_workload(build, folder.pickled), options)
            recipe = run_request(begun(request, folder), folder, listener)
    assert recipe is not None  # nobody else is there to prove it
    return recipe


def make_request(workload: Workload, options: TuneOptions) -> Request:
    """Return the request, checked as far as it can be without running anything.

    Raises:
        BadRequestError: Naming the option, what must hold and what was found.
    """
    # The knobs of other packages are looked for where this is imported.
    from autoaccel.search.samplers import check_sampler
    from autoaccel.space.search_space import check_wishes

    check(options)
    check_wishes_for(workload, options)
    amount, relative = parse_max_drop(DEFAULT_MAX_DROP if options.max_drop is None else str(options.max_drop))
    if options.budget is None and not options.resume:
        options = dataclasses.replace(options, budget=DEFAULT_BUDGET)
    more, budget = _split_budget(options)
    if more and not options.resume:
        raise BadRequestError(f"--budget {options.budget}: additional time requires --resume, and this run is new.")
    budget_seconds = parse_duration(budget)
    if budget_seconds < MIN_BUDGET_SECONDS:
        raise BadRequestError(
            f"--budget must be at least {MIN_BUDGET_SECONDS:g}s, the time needed to probe the machine and build the "
            f"training, got {options.budget}."
        )
    check_wishes(str(options.space), options.fixed, options.excluded)
    check_sampler(options.sampler)
    return Request(workload, budget_seconds, Constraint(amount, relative), options)


def _split_budget(options: TuneOptions) -> tuple[bool, str]:
    """Return whether a budget is more than was spent, as "+5m" is, and the duration in it."""
    text = DEFAULT_BUDGET if options.budget is None else str(options.budget)
    return text.startswith("+"), text.removeprefix("+")


def begun(request: Request, folder: RunFolder) -> Request:
    """Return what is asked of the run in a folder, and keep it there: from now on the run can be resumed.

    Args:
        request: As it was typed now.
        folder: Of the run, in its `with` block.

    Raises:
        BadRequestError: If the run began with another training, or all of the budget was spent before.
    """
    asked = continued(request, folder)
    folder.save_request(asked)
    return asked


def continued(request: Request, folder: RunFolder) -> Request:
    """Return what is asked of the run in a folder: of one that is resumed what was asked then, but for the budget.

    Args:
        request: As it was typed now; a budget of "+5m" is that much more than was spent.
        folder: Of the run.

    Raises:
        BadRequestError: If the run began with another training, all of the budget was spent before, or the folder
            names what only a person may.
    """
    from autoaccel.machine.detect import detect_machine
    from autoaccel.search.samplers import check_sampler

    began = folder.load_request() if request.options.resume else None
    if began is None:
        return request
    check_same_training(began.workload, request.workload)
    check_repeated(request.options, began.options, folder.path)
    check_run(folder, began, detect_machine())
    spent_seconds = folder.spent_seconds
    more, _ = _split_budget(request.options)
    total_seconds = request.budget_seconds + (spent_seconds if more else 0.0)
    if request.options.budget is None:
        total_seconds = began.budget_seconds
    if total_seconds <= spent_seconds:
        raise BadRequestError(
            f"--budget {format_duration(total_seconds)}: the run in {folder.path} has already spent "
            f"{format_duration(spent_seconds)}. Give additional time, such as --budget +5m."
        )
    options = dataclasses.replace(began.options, budget=total_seconds)
    check_sampler(options.sampler)  # a class of the user's own may be found in another folder only
    return msgspec.structs.replace(began, budget_seconds=total_seconds, options=options)


def check_values_here(fixed: Sequence[str]) -> None:
    """Refuse at once what no training could have on this machine, rather than when torch was asked what it can do.

    Raises:
        BadRequestError: Naming the wish, what must hold and what was found.
    """
    from autoaccel.machine.detect import detect_machine
    from autoaccel.space.wishes import check_values

    if fixed:
        check_values(fixed, detect_machine())


def open_folder(stem: str, output: str | Path | None, resume: bool) -> RunFolder:
    """Return the folder to work in: that of the run to resume, or a new one. To be used in a `with` block.

    Args:
        stem: What the workload is called; it begins the name of the folder unless `output` names one.
        output: The folder, if a person has chosen one.
        resume: Whether to resume a run in it, or the latest of this workload.

    Raises:
        BadRequestError: If there is nothing to resume, or the folder already contains something.
    """
    if resume:
        return RunFolder.resume(Path(output) if output else latest_run_path(stem))
    return RunFolder.create(Path(output)) if output else RunFolder.create_next(stem)


def run_request(
    request: Request, folder: RunFolder, listener: Listener | None, address: StudyAddress | None = None
) -> Recipe | None:
    """Return the recipe that a request comes to, leaving everything in the folder.

    None where the request is one worker's of a study, and another proves what all have found.
    """
    from autoaccel.session.tuning import tune

    if listener is not None:
        return tune(request, folder, listener, address)
    from autoaccel.report.console import PlainConsole
    from autoaccel.report.terminal import print_recipe, watch

    console = PlainConsole()
    with watch(console) as shown:
        recipe = tune(request, folder, shown, address)
    if recipe is not None:
        print_recipe(console, recipe, folder.recipe)
    return recipe


def apply(recipe: Recipe | str | Path, device: str | None = None) -> Applied:
    """Apply a recipe in your own training loop; see Applied for how.

    In a process that a launcher has made one of several ranks of this machine, it is this rank's share of cores,
    threads and loader workers; meeting the other ranks, and sharing out samples, is your program's business.

    Args:
        recipe: A recipe, or the path of recipe.json.
        device: Where you train; as the recipe was measured if None, of several ranks each on its current device.

    Raises:
        BadRequestError: If the file is no recipe.
    """
    from autoaccel.runtime.applied import Applied
    from autoaccel.workers.this_process import this_process

    found = recipe if isinstance(recipe, Recipe) else open_recipe(Path(recipe))
    refuse_elsewhere(found, "the recipe" if isinstance(recipe, Recipe) else str(recipe))
    here = this_process()
    return Applied(here.share(found), device or here.device(found))
