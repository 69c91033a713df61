"""The public doors: autotune() finds a recipe, apply() brings one to bear in your own code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.progress import Listener
from autoaccel.records.recipe import Constraint, Recipe, read_recipe
from autoaccel.records.request import (
    DEFAULT_BUDGET_SECONDS,
    DEFAULT_MAX_DROP,
    DEFAULT_METRIC_REPEATS,
    DEFAULT_RUNS,
    DEFAULT_SPACE,
    LEAST_BUDGET_SECONDS,
    EvidenceWish,
    Request,
)
from autoaccel.records.workload import Workload
from autoaccel.session.run_folder import RUNS, RunFolder, latest_run_path, next_run_path
from autoaccel.session.workloads import find_workload, pickle_workload
from autoaccel.units import format_duration, parse_duration, parse_max_drop

if TYPE_CHECKING:
    from autoaccel.runtime.applied import Applied
    from autoaccel.runtime.training import Training
    from autoaccel.session.sharing import StudyAddress


def autotune(
    build: Callable[[], Training] | str | Path,
    *,
    budget: str | float = DEFAULT_BUDGET_SECONDS,
    max_drop: str | float | None = None,
    trials: int | None = None,
    metric_repeats: int = DEFAULT_METRIC_REPEATS,
    space: str | Path = DEFAULT_SPACE,
    fixed: Sequence[str] = (),
    excluded: Sequence[str] = (),
    output: str | Path | None = None,
    resume: bool = False,
    seed: int = 0,
    runs: int = DEFAULT_RUNS,
    evidence: EvidenceWish = "any",
    listener: Listener | None = None,
) -> Recipe:
    """Return the recipe that was proven fastest for a training on this machine, or the user's own settings.

    Args:
        build: A function without arguments that returns a Training, also one defined in a notebook; or a file,
            "model.py" or "model.py:entry".
        budget: The most time that the run may take: seconds, or text such as "10m"; "+5m" of a run that goes on is
            that much more than it has spent.
        max_drop: The most that the metric may get worse: "0.5%" of the baseline's, or an amount such as 0.005. If None
            it is 1 %, and the model itself is not altered.
        trials: The most trials; as many as the budget allows if None.
        metric_repeats: Paired training runs that judge the metric of settings which may change it, at least 2.
        space: The name of a search space, or a .toml file.
        fixed: Wishes such as "precision.autocast=bfloat16" that every trial has.
        excluded: Names of knobs that keep your own value.
        output: The folder of the run; a new one in ./autoaccel-runs if None.
        resume: Go on with the run in that folder, or with the latest of this workload: one that was interrupted, or
            whose budget left a proof open.
        seed: Of the search.
        runs: How often you will train like this. The search ends when what it could still save on so many runs is
            less than what it costs.
        evidence: What must show that the metric is kept: "any", what fits the budget, the strongest first; or "whole",
            whole planned runs.
        listener: Told what happens; None prints progress.

    Raises:
        BadRequestError: If the request cannot be met.
        WorkloadFailedError: If the training fails under the user's own settings.
        BudgetSpentError: If the budget does not suffice to measure the baseline.
    """
    from autoaccel.launch.runner import WORKER_MARK

    if WORKER_MARK in os.environ:
        raise BadRequestError(
            "autotune() was called by the very code that is being tuned. Put the call under "
            "`if __name__ == '__main__':`."
        )

    check_values_here(fixed)

    def request_for(workload: Workload) -> Request:
        return make_request(
            workload,
            budget,
            max_drop,
            trials,
            metric_repeats,
            space,
            tuple(fixed),
            tuple(excluded),
            seed,
            runs,
            evidence,
            resume,
        )

    if isinstance(build, (str, Path)):
        request = request_for(find_workload(str(build)))
        with open_folder(Path(request.workload.path).stem, output, resume) as folder:
            recipe = run_request(continued(request, budget, folder), folder, listener)
    else:
        with open_folder(getattr(build, "__name__", "build"), output, resume) as folder:
            request = request_for(pickle_workload(build, folder.pickled))
            recipe = run_request(continued(request, budget, folder), folder, listener)
    assert recipe is not None  # nobody else is there to prove it
    return recipe


def make_request(
    workload: Workload,
    budget: str | float,
    max_drop: str | float | None,
    trials: int | None,
    metric_repeats: int,
    space: str | Path,
    fixed: tuple[str, ...],
    excluded: tuple[str, ...],
    seed: int,
    runs: int,
    evidence: EvidenceWish = "any",
    resume: bool = False,
) -> Request:
    """Return the request, checked as far as it can be without running anything; see autotune().

    Raises:
        BadRequestError: Naming the argument, what must hold and what was found.
    """
    # The knobs of other packages are looked for where this is imported.
    from autoaccel.space.search_space import check_wishes

    amount, relative = parse_max_drop(DEFAULT_MAX_DROP if max_drop is None else str(max_drop))
    if trials is not None and trials < 1:
        raise BadRequestError(f"--trials must be at least 1, got {trials}.")
    if evidence not in ("any", "whole"):
        raise BadRequestError(f"--evidence must be any or whole, got {evidence}.")
    if runs < 1:
        raise BadRequestError(f"--runs must be at least 1, got {runs}.")
    if metric_repeats < 2:
        raise BadRequestError(
            f"--metric-repeats must be at least 2, because one run says nothing of the spread, got {metric_repeats}."
        )
    more = str(budget).strip().startswith("+")
    if more and not resume:
        raise BadRequestError(f"--budget {budget}: how much more a run may take goes with --resume; there is none yet.")
    budget_seconds = parse_duration(str(budget).strip().removeprefix("+"))
    if budget_seconds < LEAST_BUDGET_SECONDS:
        raise BadRequestError(
            f"--budget must be at least {LEAST_BUDGET_SECONDS:g}s, which it takes to look at the machine and to build "
            f"the training, got {budget}."
        )
    check_wishes(str(space), fixed, excluded)
    return Request(
        workload=workload,
        budget_seconds=budget_seconds,
        constraint=Constraint(amount, relative),
        most_trials=trials,
        metric_repeats=metric_repeats,
        space=str(space),
        fixed=fixed,
        excluded=excluded,
        seed=seed,
        runs=runs,
        evidence=evidence,
        max_drop_said=max_drop is not None,
    )


def continued(request: Request, budget: str | float, folder: RunFolder) -> Request:
    """Return what is asked of the run in a folder: of one that goes on what was asked then, but for the budget.

    Args:
        request: As it was typed now.
        budget: As it was typed; "+5m" is that much more than was spent.
        folder: Of the run.

    Raises:
        BadRequestError: If all of the budget was spent before.
    """
    state = folder.load_state()
    if state is None:
        return request
    spent_seconds = folder.spent_seconds
    more = spent_seconds if str(budget).strip().startswith("+") else 0.0
    if more + request.budget_seconds <= spent_seconds:
        raise BadRequestError(
            f"--budget {budget}: the run in {folder.path} has spent {format_duration(spent_seconds)} before. Say how "
            "much more it may take, such as --budget +5m."
        )
    total_seconds = more + request.budget_seconds
    return msgspec.structs.replace(state.request, workload=request.workload, budget_seconds=total_seconds)


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
    """Return the folder to work in: that of the run to go on with, or a new one. To be used in a `with` block.

    Args:
        stem: What the workload is called; it begins the name of the folder unless `output` names one.
        output: The folder, if a person has chosen one.
        resume: Whether to go on with a run in it, or with the latest of this workload.

    Raises:
        BadRequestError: If there is nothing to go on with, or something is there already.
    """
    if resume:
        return RunFolder.resume(Path(output) if output else latest_run_path(stem))
    return RunFolder.create(Path(output) if output else next_run_path(stem, RUNS))


def run_request(
    request: Request, folder: RunFolder, listener: Listener | None, address: StudyAddress | None = None
) -> Recipe | None:
    """Return the recipe that a request comes to, leaving everything in the folder.

    None where the request is one worker's of a study, and another proves what all have found.
    """
    from autoaccel.session.tuning import tune

    if listener is not None:
        return tune(request, folder, listener, address)
    from rich.console import Console

    from autoaccel.report.terminal import print_recipe, watch

    console = Console()
    with watch(console) as shown:
        recipe = tune(request, folder, shown, address)
    if recipe is not None:
        print_recipe(console, recipe, folder.recipe)
    return recipe


def apply(recipe: Recipe | str | Path, device: str | None = None) -> Applied:
    """Bring a recipe to bear in your own training loop; see Applied for how.

    In a process that a launcher has made one of several ranks of this machine, it is this rank's share of cores,
    threads and loader workers; meeting the other ranks, and sharing out samples, is your program's business.

    Args:
        recipe: A recipe, or the path of recipe.json.
        device: Where you train; as the recipe was measured if None, of several ranks each on its current device.

    Raises:
        BadRequestError: If the file is no recipe.
    """
    from autoaccel.launch.shares import device_of_this_rank, share_of_this_rank
    from autoaccel.runtime.applied import Applied

    found = recipe if isinstance(recipe, Recipe) else read_recipe(Path(recipe))
    return Applied(share_of_this_rank(found), device or device_of_this_rank(found))
