"""Start the search of a run: its study, what experts would try first, and the trials that there are already."""

from __future__ import annotations

from dataclasses import replace

from autoaccel.records.progress import Note, StageStarted
from autoaccel.runs.sharing import begin_study
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments
from autoaccel.search.loop import Search
from autoaccel.search.starts import start_of
from autoaccel.search.task import SearchTask, expect
from autoaccel.session.setup import Setup


def start_search(setup: Setup) -> Search:
    """Return the search, which knows the trials of an earlier part of the run."""
    run, space, baseline_settings, options = setup.run, setup.space, setup.baseline_settings, setup.run.request.options
    knobs = f"{space.size:,} combinations of {len(space.open)} knobs"
    run.tell(StageStarted("search", f"{space.title}: {knobs}"))
    if setup.facts.shapes_change and "compile.mode" in space.open:
        run.tell(Note("batches change their shapes, so code is compiled for any shape: compile.dynamic=on"))
    prior = expect(space, setup.context, baseline_settings, setup.findings)
    remembered = space.settle({**baseline_settings, **space.fixed, **setup.remembered})
    if setup.remembered and space.allows(remembered):
        prior = replace(prior, candidates=[remembered, *(one for one in prior.candidates if one != remembered)])
    economy = Economy(
        trainings=options.trainings,
        planned_steps=setup.facts.planned_steps,
        step_seconds=setup.baseline.step_seconds,
        startup_seconds=setup.baseline.measurement.startup_seconds,
        compile_seconds=start_of(baseline_settings, setup.baseline.measurement).average(options.trainings),
        trial_seconds=setup.baseline.trial_seconds(),
    )
    task = SearchTask(space, baseline_settings, economy, prior, options.seed, options.trials, options.sampler)
    study = setup.study or begin_study(run.folder.study, run.folder.study_name)
    search = Search(task, Instruments(setup.baseline.compare, run.clock, run.folder.add_trial, run.tell), study)
    if setup.study:
        run.folder.save_trials(())  # the study has them all
    else:
        search.take_over(run.folder.load_trials())
    return search
