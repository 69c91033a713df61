"""A whole run of autoaccel, replayed from a table: the search, and the proof of what it found in pairs of processes."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import NamedTuple

from autoaccel.records.options import OWN_SAMPLER, TuneOptions
from autoaccel.records.progress import Event, TrialFinished
from autoaccel.records.settings import Settings
from autoaccel.session.proof_loop import search_and_prove
from benchmarks.harness.recorded import prepare_recorded
from benchmarks.harness.replay import TRAININGS, Facts, Replay, SimulatedClock
from benchmarks.harness.table import TableHead

_PASSES = 20  # of single readings, whose mean is what one costs

History = list[tuple[float, Settings]]
"""When a search held which settings to be the best, in seconds."""


class ReplayTask(NamedTuple):
    """What a search is given to replay."""

    facts: Facts
    planned_steps: int
    budget_seconds: float
    seed: int

    @property
    def head(self) -> TableHead:
        """What is known before any search."""
        return self.facts.table.head


def run(task: ReplayTask, sampler: str = OWN_SAMPLER) -> History:
    """Search and prove as `autoaccel tune` does, of whole epochs; what cannot be proven is not held in the end."""
    own, history = task.head.baseline_settings, History()

    def watch(event: Event) -> None:
        if isinstance(event, TrialFinished):
            history.append((setup.run.clock.spent, event.best.settings if event.best else own))

    epochs = math.ceil(task.planned_steps / task.head.facts.steps_per_epoch)
    options = TuneOptions(budget=task.budget_seconds, trainings=TRAININGS, seed=task.seed, sampler=sampler)
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare_recorded(task.facts, Path(folder), epochs, options, watch)
        result = search_and_prove(setup)
    assert result is not None  # no other worker takes part
    return [*history, (setup.run.clock.spent, result.best.settings)]


def seconds_of_single_pass(facts: Facts) -> float:
    """Return what it takes to measure every setting once, alone: the mean of its visits, each compilation paid once.

    That is what whoever measures the whole space as a plain script does has to pay. A table of several rounds, each
    visit in turns with the baseline, costs many times as much, and nobody needs it but whoever asks for the truth.
    """
    clock = SimulatedClock(math.inf)
    for seed in range(_PASSES):
        replay = Replay(facts, clock, random.Random(seed))
        for settings in facts.settings.values():
            replay.read_alone(settings)
    return clock.spent / _PASSES
