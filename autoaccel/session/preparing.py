"""Prepare a run: what the machine and the training are, what the baseline takes, and what is worth searching."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec

from autoaccel.advise.bounds import OTHERS_SPEEDUP
from autoaccel.advise.diagnosing import diagnose
from autoaccel.bench.live_bench import LiveBench
from autoaccel.errors import BadRequestError
from autoaccel.machine.conditions import Watch
from autoaccel.machine.throttling import watch_throttling
from autoaccel.proof.judging import MetricJudge
from autoaccel.records.advice import Diagnosis
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure
from autoaccel.records.profile import Demand
from autoaccel.records.progress import BaselineMeasured, Note, StageStarted
from autoaccel.records.run import RunRecord
from autoaccel.records.settings import format_value
from autoaccel.records.space import SearchSpace
from autoaccel.records.study import StudyBasis
from autoaccel.records.workload import TrainingFacts
from autoaccel.report.conclusions import unprovable_lines, unprovable_words
from autoaccel.report.wording import closed_words, inexact_words, left_out_words
from autoaccel.runs.kept_apart import tell_protection
from autoaccel.runs.limits import PROFILE_SHARE
from autoaccel.runs.script_wishes import with_wishes
from autoaccel.runs.sharing import StudyAddress, agree_on_diagnosis
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.session.first_look import first_look, look_wait_of
from autoaccel.session.limits import UNTRACED_SECONDS, UNTRACED_SHARE, WORTH_TELLING
from autoaccel.session.planning import Planner
from autoaccel.session.remembering import remembered
from autoaccel.session.setup import Setup
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings
from autoaccel.space.narrow import close, narrow
from autoaccel.space.room import BATCH_FACTOR, without_room
from autoaccel.statistics.comparison import NOISE_THRESHOLD, drift_on
from autoaccel.workers.look_wait import LookWait
from autoaccel.workers.profiling import ask_profile, profile_task


def prepare(run: TuningRun, stack: ExitStack, address: StudyAddress | None = None) -> Setup:
    """Return what the search starts from; where nothing can be won, nothing is profiled.

    Args:
        run: What all stages share.
        stack: Leaves the study when the run is over.
        address: Of the study in which this run takes part; None for none.

    Raises:
        BadRequestError: If the request cannot be met.
        WorkloadFailedError: If the training fails under the user's own settings.
        BudgetSpentError: If the budget does not suffice for a baseline, a trial and a proof.
    """
    earlier, spent_seconds = run.folder.load_record(), run.folder.spent_seconds
    if spent_seconds:
        run.stages.count("search", spent_seconds)
    run.tell(StageStarted("hardware", "what this machine can do"))
    tell_protection(run.starter, run.tell)
    watch = Watch.begin()
    wait = look_wait_of(run)
    machine, facts = _look_around(run, earlier, watch, wait)
    context = KnobContext(machine, facts)
    run = replace(run, starter=run.starter.at(context), drift=drift_on(machine))
    space = run.search_space(context)
    if (look := facts.seen.first_look(facts, space)) is not None:
        run.tell(look)
    basis = StudyBasis.of(run.request.workload, machine, baseline_settings(context), space)
    study = stack.enter_context(address.join(Path(run.request.workload.path).stem, basis, context)) if address else None

    planner = Planner(run, context, space)
    if wait.first_step_seconds is not None and facts.seen.step_seconds is not None:
        planner.after_look(wait.first_step_seconds, facts.seen.step_seconds)
    run.tell(StageStarted("baseline", "your own settings, measured first"))
    memory_bytes = machine.usable_memory_bytes
    baseline = LiveBench(run, facts, baseline_settings(context), planner.after_first_steps, memory_bytes)
    run.tell(BaselineMeasured(baseline.settings, baseline.step_seconds, baseline.total_seconds))
    setup = Setup(run, machine, baseline, space, study)
    if not setup.can_win or not setup.may_pay:
        return setup
    planner.anew(baseline)

    known = (study.head() if study else None) or earlier
    if known:
        run.stages.expect("profile", 0.0)
    run.tell(StageStarted("profile", "where the time of a step goes"))
    diagnosis = known.diagnosis if known else _diagnose(setup, watch, planner.profile_seconds)
    if study:
        diagnosis = agree_on_diagnosis(study, basis, diagnosis)
    setup = replace(setup, diagnosis=diagnosis)
    setup = replace(setup, demand=_demand(setup, earlier))
    setup = replace(setup, space=_worth_searching(setup))
    setup = replace(setup, remembered=earlier.remembered if earlier else remembered(setup))
    run.folder.save_record(setup.record)
    return setup


def _look_around(
    run: TuningRun, earlier: RunRecord | None, watch: Watch, wait: LookWait
) -> tuple[Machine, TrainingFacts]:
    """Return what the machine and the training are; tell what disturbs measuring.

    Raises:
        BadRequestError: If the run began on another machine.
    """
    machine, facts = first_look(run, wait)
    if earlier is not None and (difference := earlier.machine.difference_from(machine)):
        raise BadRequestError(f"the run began on another machine ({difference}). Start without --resume.")
    for hint in watch.load.hints(machine):
        run.tell(Note(hint))
    return machine, with_wishes(facts, run.request.workload, run.request.options)


def _demand(setup: Setup, earlier: RunRecord | None) -> Demand | None:
    """Return what a process needs: from the profile, else from the baseline; None if workers of a study could differ.

    A resumed run keeps what it found first: the values of its trials were derived from that.
    """
    if setup.diagnosis or setup.study:
        return setup.diagnosis.demand if setup.diagnosis else None
    baseline = setup.baseline
    return earlier.demand if earlier else Demand(baseline.step_seconds, baseline.measurement.peak_bytes)


def _worth_searching(setup: Setup) -> SearchSpace:
    """Return the space of this training, in which each knob could win something that can be proven in the budget."""
    space = _narrow(setup, setup.run.search_space(setup.context))
    if BATCH_FACTOR in space.open:
        values = {BATCH_FACTOR: KNOBS[BATCH_FACTOR].values(setup.context)}
        for rule in without_room(setup.context, values, setup.baseline_settings):
            setup.run.tell(
                Note(f"{BATCH_FACTOR}={format_value(rule.settings[BATCH_FACTOR])} alone is not tried: {rule.reason}")
            )
    if setup.study:  # whose workers search one space, though their budgets or their steps may differ
        return space
    # Nothing was compiled yet; a few seconds are not what makes evidence unaffordable.
    unprovable = MetricJudge(setup.run, setup.baseline, lambda settings: 0.0).unprovable(space)
    for line in unprovable_lines(unprovable):
        setup.run.tell(Note(line))
    return close(space, setup.baseline_settings, {name: unprovable_words(why) for name, why in unprovable.items()})


def _narrow(setup: Setup, space: SearchSpace) -> SearchSpace:
    """Close, and tell, each knob that even beside all other remedies could win nothing that would be noticed."""
    look = setup.facts.seen.first_look(setup.facts, space)
    told = look.closed if look is not None else {}  # in the table of what was seen of a script
    space = narrow(space, setup.baseline_settings, setup.findings, 1 + NOISE_THRESHOLD / OTHERS_SPEEDUP)
    new = {name: reason for name, reason in space.closed.items() if name not in told}
    for words in [*closed_words(msgspec.structs.replace(space, closed=new)), *inexact_words(space)]:
        setup.run.tell(Note(words))
    return space


def _diagnose(setup: Setup, watch: Watch, seconds: float) -> Diagnosis | None:
    """Return where the time of a step goes and what that says; tell what only the user can set right.

    None, and a note says so, where there is no time for a profile or none could be taken: the training is tuned all the
    same, with no knob closed and nothing known of where the time goes.

    Args:
        setup: Of the run so far.
        watch: What else the machine has done since it was begun.
        seconds: That looking at the training may take once it has warmed up; 0 for no profile.
    """
    run, machine = setup.run, setup.machine
    if not seconds:
        run.tell(
            Note("no profile is taken: even its minimum number of steps would take more than a twentieth of the budget")
        )
        return None
    if not run.clock.left:
        run.tell(Note("no profile is taken: the budget was spent by measuring the baseline"))
        return None
    task = profile_task(machine, min(UNTRACED_SECONDS, UNTRACED_SHARE * seconds), max_seconds=seconds)
    timeout_seconds = run.clock.timeout("the profile was taken", share=2 * PROFILE_SHARE)
    with watch_throttling() as throttling:
        answer = ask_profile(run.starter, task, setup.baseline_settings, timeout_seconds)
    if isinstance(answer, Failure):
        run.tell(Note(f"no profile could be taken, so it is unknown where a step's time goes: {answer.message}"))
        return None
    diagnosis = diagnose(answer, machine, setup.facts, watch.conditions(gpu_throttling=throttling))
    if words := left_out_words(diagnosis.profile):
        run.tell(Note(f"{words}."))
    for finding in diagnosis.findings:
        if not finding.knobs and finding.expected_speedup >= WORTH_TELLING:
            run.tell(Note(f"{finding.title}: at most {finding.bound_speedup:.2f}x faster. {finding.advice}"))
    return diagnosis
