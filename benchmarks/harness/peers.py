"""Optuna as a peer that gets what autoaccel gets: the same objective and budget, own settings first, the best repeated.

It measures as a plain script does, one process alone, and minimises the projected time of the whole planned run. A
compiled model that was compiled before starts warm; whoever trains with it pays for the first compilation all the
same, so that is what counts for every setting with the same compiled model.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import optuna

from autoaccel.records.settings import Settings, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import compiled_part, slow_starting_knobs
from autoaccel.statistics.runs import WARM_SHARE, CompileSeconds

Reading = tuple[float, float]
"""Step seconds, and slower first steps in seconds."""

FINALISTS = 2
"""So many of the best are measured again, and the user's own settings. What repeating takes is lost for trying: on the
tables, two of them once more cost the peer the least (a mean regret of 3.9 %, three of them twice 10.7 %)."""

_FINALS_SHARE = 0.5  # of the budget at most


@dataclass
class ProjectedRun:
    """How long the planned run takes, by what was measured of it."""

    planned_steps: int
    startup_seconds: float
    trainings: int
    """How many will be made: all but the first find what it has compiled."""
    cold_seconds: dict[str, float] = field(default_factory=dict)
    """Compiled part of the settings -> the longest compilation seen: the first, which found nothing compiled."""

    def seconds(self, settings: Settings, reading: Reading) -> float:
        """Return the time of an average run."""
        step_seconds, first_seconds = reading
        if slow_starting_knobs(settings):
            part = settings_key(compiled_part(settings))
            cold = self.cold_seconds[part] = max(first_seconds, self.cold_seconds.get(part, 0.0))
            warm = first_seconds if first_seconds < cold else WARM_SHARE * cold
            first_seconds = CompileSeconds(cold, warm).average(self.trainings)
        return self.startup_seconds + first_seconds + self.planned_steps * step_seconds


@dataclass
class Tried:
    """Some settings, and all readings of them."""

    settings: Settings
    readings: list[Reading]

    def seconds(self, run: ProjectedRun) -> float:
        """Return the median of the projected runs."""
        return statistics.median(run.seconds(self.settings, reading) for reading in self.readings)


class PeerTask(NamedTuple):
    """What a peer is given."""

    space: SearchSpace
    """Open knobs with their values."""
    baseline: Settings
    """The user's settings, which are measured first."""
    read: Callable[[Settings], Reading | None]
    """Measures settings once; None if they failed."""
    run: ProjectedRun
    """The objective."""
    budget_seconds: float
    """For all readings, those that are repeated included; the last may take longer."""
    now: Callable[[], float]
    """Seconds on the clock that the readings move."""


def search_with_optuna(
    task: PeerTask,
    sampler: optuna.samplers.BaseSampler,
    held: Callable[[Settings], None] = lambda settings: None,
    finalists: int = FINALISTS,
) -> Settings:
    """Return the settings that a study ends with.

    Args:
        task: What is searched, and how it is measured.
        sampler: Optuna's.
        held: Told the best settings so far, whenever they change.
        finalists: How many are measured again before one is chosen; 0: single readings are believed.
    """
    space, baseline, read, run, budget_seconds, now = task
    start = now()
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial({name: baseline[name] for name in space.open})
    tried: dict[str, Tried] = {}
    readings, best = 0, baseline
    while True:
        spent = now() - start
        finals = (finalists + 1) * spent / readings if readings and finalists else 0.0
        if spent + min(finals, _FINALS_SHARE * budget_seconds) >= budget_seconds:
            break
        trial = study.ask()
        suggested = {name: trial.suggest_categorical(name, values) for name, values in space.open.items()}
        settings = {**space.fixed, **suggested}
        reading = read(settings)
        readings += 1
        if reading is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        study.tell(trial, run.seconds(settings, reading))
        tried.setdefault(settings_key(settings), Tried(settings, [])).readings.append(reading)
        if (found := _best(tried, run, baseline).settings) != best:
            best = found
            held(best)
    ranked = sorted(tried.values(), key=lambda one: one.seconds(run))
    last = ranked[:finalists] + [one for one in ranked[finalists:] if finalists and one.settings == baseline]
    for one in last:
        if now() - start < budget_seconds and (reading := read(one.settings)):
            one.readings.append(reading)
    best = min(last or ranked[:1], key=lambda one: one.seconds(run), default=Tried(baseline, [])).settings
    held(best)
    return best


def _best(tried: dict[str, Tried], run: ProjectedRun, baseline: Settings) -> Tried:
    return min(tried.values(), key=lambda one: one.seconds(run), default=Tried(baseline, [(math.inf, 0.0)]))
