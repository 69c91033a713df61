"""What picks are worth by what was measured of them side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from autoaccel.errors import AutoaccelError
from autoaccel.records.options import DEFAULT_TRAININGS
from autoaccel.records.settings import describe_change
from autoaccel.space.knobs import slow_starting_knobs
from autoaccel.statistics.runs import WARM_SHARE, CompileSeconds
from benchmarks.harness.side_by_side import Pick, Taken, mean_and_radius

Ratio = list[float | None]
"""A geometric mean, and the ends of its 95 % interval; None where there are too few values for one."""


def baseline_step_seconds(taken: Sequence[Mapping[str, Taken]]) -> float:
    """Return the step time under the user's own settings, the median over rounds.

    Raises:
        AutoaccelError: If they failed in every round.
    """
    found = [one["own"].step_seconds for one in taken if "own" in one]
    if not found:
        raise AutoaccelError("the user's own settings failed in every round")
    return statistics.median(found)


def scored(
    picks: Mapping[str, Pick], taken: Sequence[Mapping[str, Taken]], planned_steps: int, startup_seconds: float
) -> dict[str, dict[str, Any]]:
    """Return for each pick what it is worth over the user's own settings, and over the grid's best.

    `steps` and `steps_over_grid` are ratios of step times with Student's 95 % interval over rounds; `run` and
    `run_over_grid` are those of the whole planned run, start-up included, on average over 20 of which only the first
    compiles. A pick that never worked has none.

    Args:
        picks: Name -> pick, `baseline` and `grid's best` among them.
        taken: What each round of processes showed of each pick.
        planned_steps: Of the training.
        startup_seconds: Of a process, without compilation.
    """
    baseline, baseline_seconds = picks["own"].settings, baseline_step_seconds(taken) * planned_steps
    rows: dict[str, dict[str, Any]] = {}
    run_seconds: dict[str, float] = {}
    for who, pick in picks.items():
        rows[who] = {"settings": describe_change(pick.settings, baseline)}
        if pick.environment:
            rows[who]["environment"] = dict(pick.environment)
        found = [one for one in taken if who in one]
        if not found:
            continue
        compiles = pick.settings != baseline and slow_starting_knobs(pick.settings)
        first_seconds = sorted(one[who].first_seconds for one in found) if compiles else [0.0, 0.0]
        cold_seconds = first_seconds.pop()
        warm_seconds = statistics.median(first_seconds) if first_seconds else WARM_SHARE * cold_seconds
        start_seconds = CompileSeconds(cold_seconds, warm_seconds).average(DEFAULT_TRAININGS)
        steps = ratio([one[who].log_speedup for one in found])
        assert steps[0] is not None  # there is one value at least
        run_seconds[who] = startup_seconds + start_seconds + baseline_seconds / steps[0]
        run = (startup_seconds + baseline_seconds) / run_seconds[who]
        rows[who] |= {
            "rounds": len(found),
            "cold_seconds": cold_seconds,
            "warm_seconds": warm_seconds,
            "steps": steps,
            "run": run,
        }
        both = [one[who].log_speedup - one["grid's best"].log_speedup for one in found if "grid's best" in one]
        if both:
            rows[who]["steps_over_grid"] = ratio(both)
    if "grid's best" in run_seconds:
        for who, seconds in run_seconds.items():
            rows[who]["run_over_grid"] = run_seconds["grid's best"] / seconds
    return rows


def ratio(logs: Sequence[float]) -> Ratio:
    """Return the geometric mean of ratios, given their logarithms, with its interval."""
    mean, radius = mean_and_radius(logs)
    ends = [math.exp(mean - radius), math.exp(mean + radius)] if math.isfinite(radius) else [None, None]
    return [math.exp(mean), *ends]
