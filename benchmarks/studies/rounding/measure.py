"""Rounding that is planted in trainings: which of it harms them, and what the evidence called rounding says of it.

    python -m benchmarks.studies.rounding.measure [--only TRAINING ...] [--limits]

Each case is a training (trainings.py) in which numbers are rounded more, or lost, at one place (plants.py). It is
trained to its end from several seeds, beside the same training as it is. It harms if its metric drops by twice what is
allowed, 1 %, and by more than that with 95 % confidence; it is harmless if it drops by less than that with 95 %
confidence. From the first seeds its updates are judged as `autoaccel tune` judges them. The limits were set on one half
of the trainings; the other half only shows how they do. Rows go to benchmarks/results/rounding.jsonl, two a case, so
that a new limit does not train everything again; `--limits` says what the numbers of the first half leave room for.
"""

from __future__ import annotations

import functools
import math
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch

from autoaccel import Training
from autoaccel.bench.limits import BATCHES, LATER_POINTS, POINTS
from autoaccel.records.rounding import RoundingEvidence, UpdatesCompared, UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.randomness import seed_all
from autoaccel.runtime.rounding import compare_updates, record_updates
from autoaccel.statistics.rounding import judge_updates, may_settle
from autoaccel.statistics.student import t_quantile
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import add_row, latest, read_rows, to_measure
from benchmarks.page.rounding import rounding
from benchmarks.studies.rounding.plants import CASES, Case, Plant
from benchmarks.studies.rounding.trainings import HELD_OUT, SETTING

PLANTED = ("benchmarks/studies/rounding/plants.py", "benchmarks/studies/rounding/trainings.py")
JUDGING = (
    "autoaccel/runtime/rounding.py",
    "autoaccel/runtime/trained_state.py",
    "autoaccel/runtime/updates.py",
    "autoaccel/bench/rounding.py",
    "autoaccel/statistics/rounding.py",
)
ALLOWED = 0.01  # of the metric: what may be lost
EVIDENCES = 3  # seeds whose updates are judged
SEEDS = {"friedman_perceptron": 16, "digits_perceptron": 8, "digits_bottlenecks": 4}
"""That are trained, where they are not five: a metric scatters by a percent from run to run, or takes long."""

TRAININGS = {**SETTING, **HELD_OUT}


def _loop(build: Callable[[], Training], plant: Plant, settings: Settings, seed: int) -> Loop:
    seed_all(seed)
    return Loop(plant(build()), Applied(settings, found={}), seed)


@functools.cache
def metric_of(name: str, plant: Plant, case: str, seed: int) -> float:
    """Return the metric at the end of a training; infinite if it diverges.

    Args:
        name: Of the training.
        plant: What is planted in it.
        case: Under whose settings; empty: none.
        seed: Of its weights and the order of its samples.
    """
    settings = CASES[case].settings if case else {}
    loop = _loop(TRAININGS[name], plant, settings, seed)
    for _ in range(loop.planned_steps):
        loop.step()
    metric = loop.evaluate()
    return metric if math.isfinite(metric) else math.inf


def harm_of(name: str, case: Case, case_name: str, seeds: int) -> dict[str, Any]:
    """Return by how much the metric gets worse, of its own size, its 95 % interval (Student's), whether that harms."""
    direction = TRAININGS[name]().metric.direction
    baseline = [metric_of(name, case.baseline, "", seed) for seed in range(seeds)]
    other = [metric_of(name, case.plant, case_name, seed) for seed in range(seeds)]
    sign, size = (1.0 if direction == "maximize" else -1.0), abs(statistics.fmean(baseline))
    drops = [sign * (mine - theirs) / size for mine, theirs in zip(baseline, other, strict=True)]
    found: dict[str, Any] = {
        "seeds": seeds,
        "own_scatter": statistics.stdev(baseline) / size,
        "own": baseline,
        "planted": [metric if math.isfinite(metric) else None for metric in other],
    }
    if not all(map(math.isfinite, drops)):
        return {**found, "drop": None, "low": None, "high": None, "harms": "yes"}
    drop = statistics.fmean(drops)
    radius = t_quantile(0.975, seeds - 1) * statistics.stdev(drops) / math.sqrt(seeds)
    low, high = drop - radius, drop + radius
    harms = "yes" if drop >= 2 * ALLOWED and low > ALLOWED else "no" if high < ALLOWED else "unclear"
    return {**found, "drop": drop, "low": low, "high": high, "harms": harms}


@functools.cache
def recorded_in(name: str, baseline: Plant, seed: int, points: tuple[int, ...]) -> tempfile.TemporaryDirectory[str]:
    """Return the folder with what a training makes of its first batches as it is."""
    folder = tempfile.TemporaryDirectory()
    recorded = record_updates(_loop(TRAININGS[name], baseline, {}, seed), Path(folder.name), points, BATCHES)
    assert isinstance(recorded, UpdatesRecorded), recorded
    return folder


def evidence_of(name: str, case: Case, seed: int) -> RoundingEvidence:
    """Return what updates say of a case, at later points if the first show too large an error."""

    def compared_at(points: tuple[int, ...]) -> UpdatesCompared:
        folder = recorded_in(name, case.baseline, seed, points)
        return compare_updates(_loop(TRAININGS[name], case.plant, case.settings, seed), Path(folder.name))

    found = compared_at(POINTS)
    first = judge_updates(found)
    return judge_updates(compared_at(LATER_POINTS), by_losses=True) if may_settle(found, first) else first


def measure(name: str, case_name: str, what: str) -> None:
    """Add a row of one case: of the harm or of the evidence."""
    found: dict[str, Any] = {
        "training": name,
        "case": case_name,
        "set": "setting" if name in SETTING else "held out",
    }
    if what == "harm":
        found |= harm_of(name, CASES[case_name], case_name, SEEDS.get(name, 5))
    else:
        judged = [evidence_of(name, CASES[case_name], seed) for seed in range(EVIDENCES)]
        found["evidence"] = [msgspec.to_builtins(one) for one in judged]
    add_row("rounding", _name(name, case_name, what), found, code=PLANTED if what == "harm" else (*JUDGING, *PLANTED))
    said = found["harms"] if what == "harm" else [one["verdict"] for one in found["evidence"]]
    print(f"{_name(name, case_name, what)}: {said}", flush=True)


def _name(training: str, case: str, what: str) -> str:
    return f"{training}: {case}: {what}"


NUMBERS = (
    "error_share",
    "worst_error_share",
    "systematic_share",
)


def limits() -> None:
    """Print, for each number, where it lies in the setting cases that harm and in those that do not."""
    found = {name: row.found for name, row in latest(read_rows("rounding")).items()}
    setting = [row for name, row in found.items() if name.endswith(": harm") and row["set"] == "setting"]
    for number in NUMBERS:
        for harms in ("no", "unclear", "yes"):
            values = sorted(
                one[number]
                for row in setting
                if row["harms"] == harms
                for one in found[_name(row["training"], row["case"], "evidence")]["evidence"]
            )
            print(f"{number} where it harms: {harms}: " + " ".join(f"{value:.2g}" for value in values))


def main() -> None:
    """Measure what today's code has not measured."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="*", default=[*TRAININGS])
    parser.add_argument("--limits", action="store_true")
    parsed = parser.parse_args()
    torch.set_num_threads(1)  # small operators; and sums come out alike on every machine of a kind
    if parsed.limits:
        limits()
        return
    names = {
        _name(training, case, what): (training, case, what)
        for training in parsed.only
        for case, planted in CASES.items()
        if planted.only(TRAININGS[training]())
        for what in ("harm", "evidence")
    }
    for name in to_measure("rounding", names):
        measure(*names[name])
    print("\n".join(rounding({name: row.found for name, row in latest(read_rows("rounding")).items()})))


if __name__ == "__main__":
    main()
