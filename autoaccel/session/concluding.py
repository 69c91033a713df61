"""Conclude a run: the recipe, which says what it found, and the report."""

from __future__ import annotations

import datetime
import platform

from autoaccel import __version__
from autoaccel.records.messages import Failure
from autoaccel.records.progress import StageStarted
from autoaccel.records.recipe import SCHEMA, Baseline, Recipe, SearchSummary
from autoaccel.records.workload import without_arguments
from autoaccel.report.conclusions import stop_words, value_result
from autoaccel.report.html import render_report
from autoaccel.search.importance import importance
from autoaccel.session.lost_values import lost_values
from autoaccel.session.setup import SearchResult, Setup


def conclude(setup: Setup, result: SearchResult) -> Recipe:
    """Write recipe.json and report.html; return the recipe."""
    if result.stop != "nothing to win":
        setup.run.tell(StageStarted("report", "recipe.json and report.html"))
    return keep(setup, result, unfinished=False)


def keep(setup: Setup, result: SearchResult, unfinished: bool = True) -> Recipe:
    """Write recipe.json and report.html, also while the run continues, in case it is interrupted; return the recipe."""
    recipe = make_recipe(setup, result, unfinished)
    report = render_report(recipe, setup.diagnosis, result.trials, setup.space, setup.run.request)
    setup.run.folder.save(recipe, report)
    return recipe


def make_recipe(setup: Setup, result: SearchResult, unfinished: bool = False) -> Recipe:
    """Return the recipe that says what the run has found, or has found so far if it is unfinished."""
    run, machine, facts, best = setup.run, setup.machine, setup.facts, result.best
    measured, trainings = setup.baseline.measurement, run.request.options.trainings
    return Recipe(
        schema=SCHEMA,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        summary=best.summary(setup.baseline_settings),
        workload=without_arguments(run.request.workload),
        machine=machine,
        settings=best.settings,
        baseline=Baseline(
            settings=setup.baseline_settings,
            step_seconds=best.baseline_step_seconds,
            startup_seconds=measured.startup_seconds,
            compile_seconds=best.baseline_compile_seconds.average(trainings),
            samples_per_second=facts.batch_size / best.baseline_step_seconds if facts.batch_size else None,
            peak_bytes=measured.peak_bytes,
        ),
        comparison=best.comparison,
        constraint=run.request.constraint,
        accuracy=best.accuracy,
        projection=best.projection(facts, measured, trainings),
        search=_sum_up(setup, result, unfinished),
        versions={
            "autoaccel": __version__,
            "torch": machine.torch.version if machine.torch else "unknown",
            "python": platform.python_version(),
        },
        device=facts.device,
        script=facts.script,
        model_size=result.model_size,
        contributions=best.contributions,
        interaction=best.interaction,
        open_proof=best.left_open.proof if best.left_open else None,
    )


def _sum_up(setup: Setup, result: SearchResult, unfinished: bool) -> SearchSummary:
    """Return what the search did."""
    run, trials, best = setup.run, result.trials, result.best
    spent_on, request = dict(setup.baseline.spent_on), run.request
    lost = lost_values(setup.space, setup.baseline_settings, best.settings, trials)
    return SearchSummary(
        trials=len(trials),
        failed=sum(isinstance(trial.outcome, Failure) for trial in trials),
        infeasible=sum(not trial.feasible for trial in trials),
        spent_seconds=run.clock.spent,
        budget_seconds=request.budget_seconds,
        seed=request.options.seed,
        space=setup.space.name,
        ended=stop_words(result.stop, len(trials)),
        trainings=request.options.trainings,
        proven_after_seconds=best.first.speed if best.first else None,
        recipe_after_seconds=best.first.recipe if best.first else None,
        unfinished=unfinished,
        disturbed_share=setup.baseline.disturbed_share,
        spent_on={**spent_on, "everything else": max(0.0, run.clock.spent - sum(spent_on.values()))},
        importance=importance(setup.space, trials),
        values=tuple(value_result(one, result.stop, len(trials)) for one in lost),
        stages=run.stages.times(run.clock.spent),
        stop=result.stop,
        sampler=request.options.sampler,
        study=run.folder.study_name if run.folder.study.exists() else "",
    )
