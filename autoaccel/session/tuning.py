"""The straight line: from a request to a recipe."""

from __future__ import annotations

from autoaccel.advise.bounds import bound_of_run
from autoaccel.advise.candidates import first_candidates
from autoaccel.advise.findings import advise
from autoaccel.errors import BadRequestError
from autoaccel.launch.runner import Runner
from autoaccel.records.machine import Machine, fingerprint_difference
from autoaccel.records.profile import Profile
from autoaccel.records.progress import BaselineMeasured, Listener, Note, RunStarted, StageStarted
from autoaccel.records.recipe import NOTHING_TO_WIN, Recipe
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Failure, Profiled, TakeProfile
from autoaccel.report.html import render_report
from autoaccel.search.strategy import Strategy
from autoaccel.session.accuracy import AccuracyChecks, accuracy_steps
from autoaccel.session.clock import Clock
from autoaccel.session.ending import keep_own, make_recipe, nothing_to_win, prove_best
from autoaccel.session.proof import MOST_ROUNDS, round_seconds
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RunFolder, RunState
from autoaccel.session.searching import Search
from autoaccel.session.workers import describe_workload, probe_machine, workload_error
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import Place, baseline_settings, default_settings
from autoaccel.space.narrow import narrow
from autoaccel.space.search_space import load_space
from autoaccel.statistics.comparison import NOISE_THRESHOLD

LEAST_RUN_SPEEDUP = 1.05
"""A run that could not become this much faster if its steps took no time at all is left alone."""

PROFILE_SECONDS = 2.0
_PROOF_SHARE = 0.45  # of the budget is kept for the proof at most


def tune(request: Request, folder: RunFolder, listener: Listener) -> Recipe:
    """Return the recipe, proven or the baseline's own; all that it rests on is in the folder, itself written last.

    Raises:
        BadRequestError: If the request cannot be met.
        WorkloadFailedError: If the training fails under the user's own settings.
        BudgetSpentError: If the budget does not suffice to measure the baseline.
    """
    earlier, trials = folder.load_state(), folder.load_trials()
    clock = Clock(request.budget_seconds, spent_seconds=sum(trial.spent_seconds for trial in trials))
    with Runner(folder.path, request.workload) as runner:
        run = Run(request, folder, runner, clock, listener)
        run.tell(RunStarted(request.workload.path, str(folder.path), request.budget_seconds))

        run.tell(StageStarted("hardware", "what this machine can do"))
        machine = probe_machine(runner)
        _check_resumable(earlier, request, machine)
        facts = describe_workload(runner, request.workload, clock.timeout("the training was built", share=0.25))
        place = Place(machine, facts)
        runner.defaults = default_settings(place)
        own = baseline_settings(place)
        space = load_space(request.space, place, own, request.fixed, request.excluded)

        run.tell(StageStarted("baseline", "your own settings, measured first"))
        yardstick = Yardstick(run, facts, own)
        run.tell(BaselineMeasured(own, yardstick.step_seconds, yardstick.total_seconds))
        if bound_of_run(yardstick.overhead_seconds, yardstick.total_seconds) < LEAST_RUN_SPEEDUP:
            ending = keep_own(yardstick, nothing_to_win(yardstick))
            recipe = make_recipe(run, machine, yardstick, ending, trials, space.name, NOTHING_TO_WIN)
            folder.save(recipe, render_report(recipe, None, (), trials, space.closed))
            return recipe

        run.tell(StageStarted("profile", "where the time of a step goes"))
        profile = earlier.profile if earlier else _take_profile(run, own)
        findings = tuple(advise(profile, machine))
        space = narrow(space, own, findings, 1 + NOISE_THRESHOLD)
        for name, reason in space.closed.items():
            run.tell(Note(f"{name} is not searched: {reason}"))
        steps = earlier.accuracy_steps if earlier else accuracy_steps(facts, request, yardstick.step_seconds)
        folder.save_state(
            RunState(
                "autoaccel/run/1", request, machine, facts, own, yardstick.measurement, profile, findings, space, steps
            )
        )

        run.tell(StageStarted("search", f"{space.size} combinations of {len(space.open)} knobs"))
        checks = AccuracyChecks(run, facts, own, steps)
        strategy = Strategy(space, own, first_candidates(space, own, findings), request.constraint, request.seed)
        search = Search(run, yardstick, checks, strategy)
        search.take_over(trials)
        for_proof = (MOST_ROUNDS + 2) * round_seconds(yardstick.overhead_seconds, yardstick.turn_seconds)
        ended = search.run(keep_seconds=min(_PROOF_SHARE * request.budget_seconds, for_proof))
        yardstick.measuring.close()

        run.tell(StageStarted("confirm", f"the best against your own settings, in fresh processes ({ended})"))
        ending = prove_best(run, yardstick, checks, search.trials)
        recipe = make_recipe(run, machine, yardstick, ending, search.trials, space.name, ended)
        run.tell(StageStarted("report", "recipe.json and report.html"))
        folder.save(recipe, render_report(recipe, profile, findings, search.trials, space.closed))
        return recipe


def _check_resumable(earlier: RunState | None, request: Request, machine: Machine) -> None:
    if earlier is None:
        return
    if earlier.request.workload != request.workload:
        raise BadRequestError(
            f"{request.workload.path}: has changed since the run began, so its trials no longer hold. "
            "Start without --resume."
        )
    if difference := fingerprint_difference(earlier.machine, machine):
        raise BadRequestError(f"the run began on another machine ({difference}). Start without --resume.")


def _take_profile(run: Run, own: Settings) -> Profile:
    timeout = run.clock.timeout("the profile was taken", share=0.5)
    answer = run.runner.ask(TakeProfile(seconds=PROFILE_SECONDS), own, "profile", Profiled, timeout)
    if isinstance(answer, Failure):
        raise workload_error(answer, run.request.workload, "while it was profiled")
    return answer.profile
