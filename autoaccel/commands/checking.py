"""Check on whole planned runs that a recipe keeps the metric: later, for as long as it takes, again and again."""

from __future__ import annotations

import hashlib
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from autoaccel.commands.use import RecipeUse
from autoaccel.errors import BadRequestError
from autoaccel.machine.own_use import machine_to_itself
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.base import MAX_REASON, append_line, decode, encode, write_json
from autoaccel.records.check import CHECK_SCHEMA, AccuracyCheck, CheckedPair, ClaimVerdict
from autoaccel.records.files import drop_cut_off_line, read_lines
from autoaccel.records.messages import Failure, Finished, Measure
from autoaccel.records.progress import BaselineMeasured, Listener, PairFinished, StageStarted, WaitStarted
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Recipe
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts, Workload, identity_of
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.kept_apart import tell_protection
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.script_wishes import as_tuned
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.space.domains import check_recipe_here
from autoaccel.space.knobs import KnobContext
from autoaccel.statistics.accuracy import (
    MANY_RUNS,
    Bound,
    compare_metric,
    known_scatter,
    metric_drops,
    metric_status,
    pair_up,
    runs_needed,
)
from autoaccel.statistics.sequences import NOTHING_KNOWN, Scatter, deviation_of
from autoaccel.units import excerpt, format_duration
from autoaccel.workers.describing import START_SECONDS, describe_workload, probe_machine, workload_error
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.temporary import TemporaryFolder

_FIRST_SEED = 100  # seeds of tuning runs are below
_MIN_PAIRS = 3
_VERDICTS: dict[str, ClaimVerdict] = {"holds": "holds", "drops": "does not hold", "open": "inconclusive"}


def pairs_path(recipe: Path) -> Path:
    """Return where the pairs of runs of a recipe's check are kept: `recipe.accuracy.jsonl` beside `recipe.json`."""
    return recipe.with_suffix(".accuracy.jsonl")


def check_path(recipe: Path) -> Path:
    """Return where the result of a recipe's check is: `recipe.accuracy.json` beside `recipe.json`."""
    return recipe.with_suffix(".accuracy.json")


def check_accuracy(use: RecipeUse, budget_seconds: float, listener: Listener) -> AccuracyCheck:
    """Train planned runs with and without a recipe from new seeds, until it is clear whether it keeps the metric.

    Each finished pair is kept beside the recipe at once, and what was kept counts: the check resumes where it ended.

    Args:
        use: The recipe whose metric is checked, and the training.
        budget_seconds: When to end if it is not clear by then.
        listener: Hears of each pair.

    Raises:
        BadRequestError: If the recipe was made on another machine, not even a pair fits in the budget, or what was
            kept is of another recipe.
        WorkloadFailedError: If the training fails.
    """
    recipe, workload = use.recipe, use.workload
    of = _fingerprint(recipe, workload)
    kept = read_pairs(pairs_path(use.file), of)
    pair_seconds = _pair_seconds(kept, recipe)
    if pair_seconds > budget_seconds:
        raise BadRequestError(
            f"--budget must be long enough for a pair of planned runs, about {format_duration(pair_seconds)}, got "
            f"{format_duration(budget_seconds)}. Allow for several pairs: --budget "
            f"{math.ceil(4 * pair_seconds / 60)}m."
        )
    with (
        machine_to_itself(lambda sentence: listener(WaitStarted(sentence))),
        TemporaryFolder() as temporary,
        WorkerStarter(temporary.path, workload, in_place=recipe.in_place) as starter,
    ):
        tell_protection(starter, listener)
        clock = BudgetClock(budget_seconds)
        machine = use.checked(probe_machine(starter))
        facts = as_tuned(describe_workload(starter, workload, START_SECONDS), recipe)
        context = KnobContext(machine, facts)
        check_recipe_here(recipe, [context], str(use.file))
        starter = starter.at(context)
        request = Request(workload=workload, budget_seconds=budget_seconds, constraint=recipe.constraint)
        run = TuningRun(request, RunFolder(temporary.path), starter, clock, listener)
        baseline = recipe.baseline
        run.tell(BaselineMeasured(baseline.settings, baseline.step_seconds, recipe.projection.baseline_total_seconds))
        run.tell(StageStarted("confirm", "pairs of planned runs from new seeds, until it is clear"))
        check = judge_pairs(recipe, facts, kept)
        while check.verdict == "inconclusive" and clock.left > _pair_seconds(kept, recipe):
            seed, start = _FIRST_SEED + len(kept), time.perf_counter()
            trained = train_pair(run, (baseline.settings, recipe.settings), facts.planned_steps, seed)
            if isinstance(trained, Failure):
                if trained.kind != "hung" or clock.left > 0:  # else the budget was spent sooner than was expected
                    check = msgspec.structs.replace(check, verdict="does not hold", message=trained.message)
                break
            pair = CheckedPair(of, seed, trained, time.perf_counter() - start)
            append_line(pairs_path(use.file), pair)
            kept.append(pair)
            check = judge_pairs(recipe, facts, kept)
            run.tell(PairFinished(len(kept), None, recipe.settings, None, check.accuracy))
    write_json(check_path(use.file), check)
    return check


def judge_pairs(recipe: Recipe, facts: TrainingFacts, kept: Sequence[CheckedPair]) -> AccuracyCheck:
    """Return what pairs of planned runs say, with a bound that holds at every number of them."""
    pairs = [pair.trained for pair in kept]
    accuracy: Accuracy | None = None
    needed: int | None = None
    if len(pairs) >= _MIN_PAIRS:
        known = known_scatter(pairs, recipe.constraint)
        known = _scatter_when_tuned(recipe) if known == NOTHING_KNOWN else known
        bound = Bound(known=known, at_every_look=True)
        accuracy = compare_metric(facts, pairs, recipe.constraint, bound)
        drops = metric_drops(facts.direction, pairs, recipe.constraint)
        needed = runs_needed(drops, recipe.constraint.max_drop, bound, center=0.0)
    return AccuracyCheck(
        schema=CHECK_SCHEMA,
        verdict=_VERDICTS[metric_status(accuracy, recipe.constraint)],
        constraint=recipe.constraint,
        accuracy=accuracy,
        pair_seconds=statistics.median(pair.seconds for pair in kept) if kept else None,
        pairs_needed=needed if needed is not None and needed < MANY_RUNS else None,
    )


def read_pairs(path: Path, of: str) -> list[CheckedPair]:
    """Return the pairs that were kept; a last line that was cut off is left out, and gone from the file.

    Raises:
        BadRequestError: If a line is none, or of another recipe, or the file is a link to another one.
    """
    if path.is_symlink():
        raise BadRequestError(f"{path}: must be a file of its own, because runs are added to it, and is a link.")
    if not path.exists():
        return []
    pairs = []
    for number, line in read_lines(path, "a pair of runs"):
        try:
            pairs.append(decode(line, CheckedPair))
        except msgspec.MsgspecError as error:
            message = (
                f"{path}:{number}: this is not a pair of runs: {excerpt(str(error), MAX_REASON)}. Move the file away."
            )
            raise BadRequestError(message) from error
    drop_cut_off_line(path)
    if any(pair.of != of for pair in pairs):
        raise BadRequestError(
            f"{path}: these runs belong to another recipe, or to a file that has changed. Move this file away to start "
            "over."
        )
    return pairs


def _fingerprint(recipe: Recipe, workload: Workload) -> str:
    """Return what tells trainings apart: their settings with and without the recipe, the file, its arguments."""
    trained = (recipe.settings, recipe.baseline.settings, *identity_of(workload))
    return hashlib.sha256(encode(trained)).hexdigest()[:16]


def _pair_seconds(kept: Sequence[CheckedPair], recipe: Recipe) -> float:
    """Return what a pair takes: as the last ones did, or as the recipe expects it."""
    if kept:
        return statistics.median(pair.seconds for pair in kept[-5:])
    return recipe.projection.baseline_total_seconds + recipe.projection.total_seconds


def _scatter_when_tuned(recipe: Recipe) -> Scatter:
    """Return how drops scattered over planned runs when the recipe was made, from other seeds."""
    found = recipe.accuracy
    if found is None or found.evidence != "whole" or found.repeats < 2:
        return NOTHING_KNOWN
    pairs = [TrainedPair(metrics) for metrics in zip(found.baseline_runs, found.recipe_runs, strict=True)]
    return Scatter(deviation_of(metric_drops(found.direction, pairs, recipe.constraint)), found.repeats - 1)


def train_pair(run: TuningRun, sides: tuple[Settings, Settings], steps: int, seed: int) -> TrainedPair | Failure:
    """Return what two trainings come to, one after the other, from this seed; or how the other fails, or time runs out.

    Who begins changes with the seed.

    Args:
        run: Where, and how long at most.
        sides: The user's own settings, and those that they are compared with.
        steps: Of each, of the user's own batch size.
        seed: Of the first weights and the order of the data.

    Raises:
        WorkloadFailedError: If the one under the user's own settings fails.
    """
    found: dict[int, Finished] = {}
    for side in (0, 1) if seed % 2 == 0 else (1, 0):
        name = f"check-{seed}-{('baseline', 'recipe')[side]}"
        answer = _train(run, Measure(seed=seed, steps=steps), sides[side], name)
        if isinstance(answer, Failure):
            if side == 0 and not (answer.kind == "hung" and run.clock.left <= 0):
                raise workload_error(answer, run.request.workload, "under your own settings")
            return answer
        found[side] = answer
    return pair_up(found[0], found[1])


def _train(run: TuningRun, task: Measure, settings: Settings, name: str) -> Finished | Failure:
    """Train alone to the end, and evaluate."""
    (measuring,) = run.starter.start_all_measuring(task, {name: settings}, run.clock.left)
    if isinstance(measuring, Failure):
        return measuring
    try:
        return measuring.finish(run.clock.left)
    finally:
        measuring.close()
