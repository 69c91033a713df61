"""The straight line: from a request to a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.advise.bounds import OTHERS_SPEEDUP, bound_of_run
from autoaccel.advise.candidates import first_candidates
from autoaccel.advise.effects import effect_deviations, halving_means
from autoaccel.errors import BadRequestError
from autoaccel.launch.profiling import ask_profile
from autoaccel.launch.runner import Runner
from autoaccel.machine.quiet import Load, quiet_hints, read_load
from autoaccel.machine.surroundings import Watch, begin_watching, read_surroundings
from autoaccel.machine.throttling import watch_throttling
from autoaccel.records.advice import Diagnosis
from autoaccel.records.machine import Machine, fingerprint_difference
from autoaccel.records.profile import Demand, Finding
from autoaccel.records.progress import BaselineMeasured, Listener, Note, RunStarted, StageStarted
from autoaccel.records.recipe import NOTHING_TO_WIN, Recipe
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Failure, Trial
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.html import render_report
from autoaccel.report.wording import closed_words, left_out_words
from autoaccel.search.economy import Economy
from autoaccel.search.starts import start_of
from autoaccel.search.strategy import Strategy
from autoaccel.session.advising import diagnose, profile_task
from autoaccel.session.clock import Clock
from autoaccel.session.contenders import search_and_prove
from autoaccel.session.ending import Ending, keep_own, make_recipe, nothing_to_win
from autoaccel.session.judging import MetricJudge
from autoaccel.session.plan import PROFILE_SHARE
from autoaccel.session.planning import Planner
from autoaccel.session.run import Run
from autoaccel.session.run_folder import RUN_SCHEMA, RunFolder, RunState
from autoaccel.session.searching import Search
from autoaccel.session.sharing import StudyAddress, agree_on_diagnosis, join_study, study_basis
from autoaccel.session.workers import probe_and_describe
from autoaccel.session.yardstick import Yardstick
from autoaccel.space.knobs import Place, baseline_settings
from autoaccel.space.narrow import close, narrow
from autoaccel.space.search_space import load_space
from autoaccel.statistics.comparison import NOISE_THRESHOLD

if TYPE_CHECKING:
    from autoaccel.search.shared import SharedStudy

LEAST_RUN_SPEEDUP = 1.05
"""A run that could not become this much faster if its steps took no time at all is left alone."""

_UNTRACED_SECONDS = 1.0  # of a profile: steps whose phases are timed,
_UNTRACED_SHARE = 0.2  # but no more of the time that there is

_WORTH_TELLING = 1.05  # expected of a remedy that no knob is


def tune(request: Request, folder: RunFolder, listener: Listener, address: StudyAddress | None = None) -> Recipe | None:
    """Return the recipe, proven or the baseline's own; all that it rests on is in the folder, itself written last.

    With the address of a study it is searched together with workers on other machines; None is returned, and no recipe
    written, where another of them proves what all have found.

    Raises:
        BadRequestError: If the request cannot be met.
        WorkloadFailedError: If the training fails under the user's own settings.
        BudgetSpentError: If the budget does not suffice for a baseline, a trial and a proof.
    """
    earlier, trials = folder.load_state(), folder.load_trials()
    spent_seconds = folder.spent_seconds
    clock = Clock(request.budget_seconds, spent_seconds)
    with Runner(folder.path, request.workload) as runner, ExitStack() as stack:
        run = Run(request, folder, runner, clock, listener)
        if spent_seconds:
            run.stages.count("search", spent_seconds)
        run.tell(RunStarted(request.workload.path, str(folder.path), request.budget_seconds))

        run.tell(StageStarted("hardware", "what this machine can do"))
        watch = begin_watching(load := read_load())  # before anything of ours keeps the computer busy
        machine, facts = _look_around(run, earlier, load)
        place = Place(machine, facts)
        runner.enter(place)
        own = baseline_settings(place)
        space = _load(request, place, own)
        study, basis = None, study_basis(request.workload, machine, own, space)
        if address:
            study = stack.enter_context(join_study(address, Path(request.workload.path).stem, basis))

        run.tell(StageStarted("baseline", "your own settings, measured first"))
        planner = Planner(run, facts, own, space, has_trials=bool(trials))
        yardstick = Yardstick(run, facts, own, planner.after_first_steps)
        run.tell(BaselineMeasured(own, yardstick.step_seconds, yardstick.total_seconds))
        if bound_of_run(yardstick.overhead_seconds, yardstick.total_seconds) < LEAST_RUN_SPEEDUP:
            ending = keep_own(yardstick, nothing_to_win(yardstick))
            return _conclude(run, machine, yardstick, ending, trials, space, NOTHING_TO_WIN)
        planner.anew(yardstick)

        run.tell(StageStarted("profile", "where the time of a step goes"))
        known = (study.head() if study else None) or earlier
        diagnosis = known.diagnosis if known else _diagnose(run, own, machine, facts, watch, planner.profile_seconds)
        if study:
            diagnosis = agree_on_diagnosis(study, basis, diagnosis)
        findings = diagnosis.findings if diagnosis else ()
        place = Place(machine, facts, _demand(diagnosis, yardstick, earlier, shared=study is not None))
        space = _narrow(run, _load(request, place, own), own, findings)
        judge = MetricJudge(run, yardstick, space)
        if study is None:  # whose workers search one space, though their budgets or their steps may differ
            space = _close_unprovable(run, space, own, judge.unprovable(space))
        measured = yardstick.measurement
        folder.save_state(RunState(RUN_SCHEMA, request, machine, facts, own, measured, diagnosis, space, place.demand))

        search = _start_search(run, yardstick, place, space, findings, study)
        if study:
            folder.save_trials(())  # the study has them all
        else:
            search.take_over(trials)
        found = search_and_prove(run, machine, yardstick, search, space, judge, study)
        if found is None:
            return None
        ending, ended = found
        run.tell(StageStarted("report", "recipe.json and report.html"))
        return _conclude(run, machine, yardstick, ending, search.trials, space, ended, diagnosis)


def _conclude(
    run: Run,
    machine: Machine,
    yardstick: Yardstick,
    ending: Ending,
    trials: Sequence[Trial],
    space: SearchSpace,
    ended: str,
    diagnosis: Diagnosis | None = None,
) -> Recipe:
    """Write what the run comes to; return the recipe."""
    recipe = make_recipe(run, machine, yardstick, ending, trials, space, ended)
    run.folder.save(recipe, render_report(recipe, diagnosis, trials, space.closed, run.request, space.inexact))
    return recipe


def _look_around(run: Run, earlier: RunState | None, load: Load) -> tuple[Machine, TrainingFacts]:
    """Return what the machine and the training are; tell what disturbs measuring.

    Raises:
        BadRequestError: If the run began with another training or on another machine.
    """
    timeout_seconds = run.clock.timeout("the training was built", share=0.25)
    machine, facts = probe_and_describe(run.runner, run.request.workload, timeout_seconds)
    _check_resumable(earlier, run.request, machine)
    for hint in quiet_hints(machine, load):
        run.tell(Note(hint))
    return machine, facts


def _load(request: Request, place: Place, own: Settings) -> SearchSpace:
    return load_space(request.space, place, own, request.fixed, request.excluded, request.max_drop_said)


def _demand(diagnosis: Diagnosis | None, yardstick: Yardstick, earlier: RunState | None, shared: bool) -> Demand | None:
    """Return what a process needs: from the profile, else from the baseline; None if workers of a study could differ.

    A run that goes on keeps to what it found first: its trials are of the values that were worked out from that.
    """
    if diagnosis or shared:
        return diagnosis.demand if diagnosis else None
    return earlier.demand if earlier else Demand(yardstick.step_seconds, yardstick.measurement.peak_bytes)


def _narrow(run: Run, space: SearchSpace, own: Settings, findings: Sequence[Finding]) -> SearchSpace:
    """Close, and tell, each knob that even beside all other remedies could win nothing that would be noticed."""
    space = narrow(space, own, findings, 1 + NOISE_THRESHOLD / OTHERS_SPEEDUP)
    for words in closed_words(space):
        run.tell(Note(words))
    for reason in dict.fromkeys(space.inexact.values()):
        names = [name for name in space.open if space.inexact.get(name) == reason]
        if names:
            run.tell(Note(f"the metric decides on {', '.join(names)} as well: {reason}"))
    return space


def _close_unprovable(run: Run, space: SearchSpace, own: Settings, reasons: Mapping[str, str]) -> SearchSpace:
    """Close, and tell, each knob whose effect on the metric could not be judged within the budget."""
    for reason in dict.fromkeys(reasons.values()):
        names = [name for name, its_reason in reasons.items() if its_reason == reason]
        run.tell(Note(f"{', '.join(names)}: not searched; {reason}"))
    return close(space, own, reasons)


def _start_search(
    run: Run,
    yardstick: Yardstick,
    place: Place,
    space: SearchSpace,
    findings: Sequence[Finding],
    study: SharedStudy | None,
) -> Search:
    knobs = f"{space.size:,} combinations of {len(space.open)} knobs"
    run.tell(StageStarted("search", f"{space.title}: {knobs}"))
    if yardstick.facts.shapes_change and "compile.mode" in space.open:
        run.tell(Note("batches change their shapes, so what is compiled is compiled for any shape: compile.dynamic=on"))
    own, request = yardstick.settings, run.request
    economy = Economy(
        runs=request.runs,
        planned_steps=yardstick.facts.planned_steps,
        step_seconds=yardstick.step_seconds,
        startup_seconds=yardstick.measurement.startup_seconds,
        compile_seconds=start_of(own, yardstick.measurement).average(request.runs),
        trial_seconds=yardstick.trial_seconds,
    )
    candidates = first_candidates(space, place, own, findings)
    deviations = effect_deviations([*space.fixed, *space.open], findings)
    halvings = halving_means(place, own, findings)
    strategy = Strategy(space, own, candidates, deviations, economy, request.seed, halvings)
    keep, most_trials = run.folder.add_trial, request.most_trials
    return Search(yardstick, own, strategy, economy, run.clock, keep, run.tell, most_trials, study)


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


def _diagnose(
    run: Run, own: Settings, machine: Machine, facts: TrainingFacts, watch: Watch, seconds: float
) -> Diagnosis | None:
    """Return where the time of a step goes and what that says; tell what only the user can set right.

    None, and said, where there is no time for a profile or none could be taken: what works is tuned all the same, with
    nothing closed and nothing known of where the time goes.

    Args:
        run: What all stages share.
        own: The user's settings.
        machine: This one.
        facts: Of the training.
        watch: What else the machine has done since it was begun.
        seconds: That looking at the training may take once it has warmed up; 0 for no profile.
    """
    if not seconds:
        run.tell(Note("no profile is taken: its fewest steps would take more than a twentieth of the budget"))
        return None
    task = profile_task(machine, min(_UNTRACED_SECONDS, _UNTRACED_SHARE * seconds), thorough=True, most_seconds=seconds)
    with watch_throttling() as throttling:
        answer = ask_profile(run.runner, task, own, run.clock.timeout("the profile was taken", share=2 * PROFILE_SHARE))
    if isinstance(answer, Failure):
        run.tell(Note(f"no profile could be taken, so nothing is known of where a step's time goes: {answer.message}"))
        return None
    diagnosis = diagnose(answer, machine, facts, read_surroundings(watch, gpu_throttling=throttling))
    if words := left_out_words(diagnosis.profile):
        run.tell(Note(f"{words}."))
    for finding in diagnosis.findings:
        if not finding.knobs and finding.expected_speedup >= _WORTH_TELLING:
            run.tell(Note(f"{finding.title}: at most {finding.bound_speedup:.2f}x to win. {finding.advice}"))
    return diagnosis
