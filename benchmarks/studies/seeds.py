"""How a metric's drop scatters from seed to seed, beside what its evaluation samples alone let expect.

    python -m benchmarks.studies.seeds [NAME ...]    # measure; an hour
    python -m benchmarks.studies.seeds table         # what the rows say

Pairs of trainings from the same seeds, the user's own settings against one that only rounds differently and one that
trains with larger batches: whole planned runs, and their first fifth. `accuracy.SAMPLE_DEGREES` says how few runs the
samples' word counts as, because it is wrong by the factor that is told here. `replayed`: proofs of the metric on these
pairs in random orders, their mean drop taken off and another planted: how often each is accepted. What only rounds
differently is judged by updates where runs leave it open: these are recorded, too, and "harmless, then updates" says
how often such settings are accepted by either; "then resumed" says so of proofs that three pairs of a part of the run
leave open and up to six decide, when a run is resumed. Results go to benchmarks/results/seeds.jsonl.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from autoaccel.bench.rounding import judge_rounding
from autoaccel.commands.checking import train_pair
from autoaccel.proof.limits import MAX_TIMES, RESUMED
from autoaccel.proof.metric import MetricProof, UpdateSource
from autoaccel.records.accuracy import MetricEvidence
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.messages import Failure
from autoaccel.records.progress import ignore
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.runs.clock import BudgetClock
from autoaccel.runs.run_folder import RunFolder
from autoaccel.runs.tuning_run import TuningRun
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.accuracy import metric_drops
from autoaccel.statistics.sequences import deviation_of
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, latest, read_rows, to_measure
from benchmarks.page.seeds import METRIC_UNITS

CODE = ("autoaccel/runtime", "autoaccel/statistics/accuracy.py", "benchmarks/studies/seeds.py", "examples")
UPDATES_CODE = (*CODE, "autoaccel/bench/rounding.py", "autoaccel/statistics/rounding.py")
PAIRS = 12
MIN_PAIRS = 3  # of a proof, as `--metric-repeats` asks for where nobody says otherwise
START_SECONDS = 300.0
ERROR = 0.025  # of a first contender
REPLAYED = 400  # proofs of each kind
ALLOWED = (0.005, 0.01, 0.02, 0.05)  # shares of the baseline's metric

ROUNDS = "bfloat16"  # the change that only rounds differently
CHANGES: dict[str, Settings] = {
    ROUNDS: {"precision.autocast": "bfloat16"},
    "batches of twice the size": {"optimizer.batch_factor": 2.0},
}
MODELS = ("examples/digits_cnn.py", "examples/tabular_mlp.py", "examples/char_gpt.py")


class Case(NamedTuple):
    """What is trained."""

    model: str
    change: str
    share: float


CASES = {
    f"{Path(model).stem}, {change}, {'whole' if share == 1 else 'a fifth'}": Case(model, change, share)
    for model in MODELS
    for change in CHANGES
    for share in (1.0, 0.2)
}
UPDATES = {f"{Path(model).stem}, {ROUNDS}, updates": model for model in MODELS}


@contextmanager
def running(model: str) -> Iterator[tuple[TuningRun, TrainingFacts, Settings]]:
    """Yield a run without end, and of its training the facts and the user's own settings."""
    workload = find_workload(str(ROOT / model))
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), workload) as starter:
        machine, facts = probe_and_describe(starter, workload, START_SECONDS)
        context = KnobContext(machine, facts)
        starter = starter.at(context)
        request = Request(workload=workload, budget_seconds=math.inf, constraint=Constraint(0.01, True))
        run = TuningRun(request, RunFolder(Path(folder)), starter, BudgetClock(math.inf), ignore)
        yield run, facts, baseline_settings(context)


def measure(case: Case) -> dict[str, Any]:
    """Return what pairs of trainings came to."""
    with running(case.model) as (run, facts, baseline):
        steps = max(1, round(case.share * facts.planned_steps))
        pairs = []
        for seed in range(PAIRS):
            pair = train_pair(run, (baseline, baseline | CHANGES[case.change]), steps, seed)
            if isinstance(pair, Failure):
                raise SystemExit(f"{case}: {pair.message}")
            pairs.append(msgspec.to_builtins(pair))
            print(case, pair, flush=True)
    return {"facts": msgspec.to_builtins(facts), "share": steps / facts.planned_steps, "pairs": pairs}


def measure_updates(model: str) -> dict[str, Any]:
    """Return what a training's updates say of the change that only rounds."""
    with running(model) as (run, _, baseline):
        found = judge_rounding(run, baseline, baseline | CHANGES[ROUNDS], lambda steps: True)
    if isinstance(found, Failure):
        raise SystemExit(f"{model}: {found.message}")
    return {"evidence": msgspec.to_builtins(found)}


def summary(found: dict[str, Any], updates: RoundingEvidence | None = None) -> dict[str, Any]:
    """Return how drops scatter, beside what the samples let expect, and what proofs on such pairs come to.

    Args:
        found: The pairs.
        updates: What updates say, where they may decide what runs leave open.
    """
    facts = msgspec.convert(found["facts"], TrainingFacts)
    pairs = msgspec.convert(found["pairs"], list[TrainedPair])
    drops = metric_drops(facts.direction, pairs, METRIC_UNITS)
    errors = [pair.sample_error for pair in pairs if pair.sample_error is not None]
    expected = math.sqrt(statistics.fmean(error**2 for error in errors)) if errors else None
    return {
        "own": statistics.fmean(pair.metrics[0] for pair in pairs),
        "own deviation": deviation_of([pair.metrics[0] for pair in pairs]),
        "drop": statistics.fmean(drops),
        "deviation": deviation_of(drops),
        "over the samples'": deviation_of(drops) / expected if expected else None,
        "accepted": {str(allowed): replayed(facts, pairs, found["share"], allowed, updates) for allowed in ALLOWED},
    }


def replayed(
    facts: TrainingFacts,
    pairs: Sequence[TrainedPair],
    share: float,
    allowed: float,
    updates: RoundingEvidence | None = None,
) -> dict[str, float]:
    """Return how often proofs accept settings that scatter so and drop by nothing, or by twice what is allowed.

    Where three pairs of a part of the run leave it open, either of these may decide: updates, if they are given, or the
    rest of six pairs when the proof is resumed. Updates are not those of settings with a planted drop: what they say of
    harmful ones is told by the study `rounding`.
    """
    steps = round(share * facts.planned_steps)
    evidence: MetricEvidence = "whole" if share == 1 else "share"
    most = MAX_TIMES * MIN_PAIRS
    plan = MetricPlan(evidence, steps, MIN_PAIRS, most if share == 1 else MIN_PAIRS)
    drops = {"harmless": 0.0, "harmful": 2 * allowed * abs(statistics.fmean(pair.metrics[0] for pair in pairs))}
    centered = {name: planted(facts, pairs, drop) for name, drop in drops.items()}

    def accepted(kind: str, source: UpdateSource | None = None, resumed: bool = False) -> float:
        generator, holding = random.Random(0), 0
        for _ in range(REPLAYED):
            drawn = generator.sample(centered[kind], most)
            result = _result(MetricProof(facts, Constraint(allowed, True), plan, ERROR, source), drawn)
            if resumed and result == "unclear":
                rest = MetricProof(facts, Constraint(allowed, True), plan._replace(max_pairs=most), RESUMED * ERROR)
                result = _result(rest, drawn)
            holding += result == "holds"
        return holding / REPLAYED

    found = {kind: accepted(kind) for kind in drops}
    if share < 1:
        found |= {f"{kind}, then resumed": accepted(kind, resumed=True) for kind in drops}
    if updates:
        found["harmless, then updates"] = accepted("harmless", lambda: updates)
    return found


def _result(proof: MetricProof, pairs: Sequence[TrainedPair]) -> Literal["holds", "drops", "unclear"]:
    """Return what a proof comes to that trains as many of these pairs as it may."""
    for pair in pairs:
        proof.add(pair)
        given_up = None if proof.status == "holds" else proof.given_up(proof.plan.max_pairs - proof.trained)
        if given_up is not None:
            proof.compare_updates()
        if proof.status == "holds":
            return "holds"
        if given_up is not None:
            return given_up
    return "unclear"


def planted(facts: TrainingFacts, pairs: Sequence[TrainedPair], drop: float) -> list[TrainedPair]:
    """Return the pairs with this mean drop of the metric, and no mean rise of the loss."""
    worse = 1.0 if facts.direction == "maximize" else -1.0
    shift = worse * (drop - statistics.fmean(metric_drops(facts.direction, pairs, METRIC_UNITS)))
    rises = [pair.losses[1] - pair.losses[0] for pair in pairs if pair.losses]
    rise = statistics.fmean(rises) if rises else 0.0
    return [
        msgspec.structs.replace(
            pair,
            metrics=(pair.metrics[0], pair.metrics[1] - shift),
            losses=(pair.losses[0], pair.losses[1] - rise) if pair.losses else None,
        )
        for pair in pairs
    ]


def main(arguments: Sequence[str]) -> None:
    """Measure these cases, or all that are not there yet; then say what the rows say."""
    parser = make_parser(__doc__)
    names = [*CASES, *UPDATES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"table, or any of: {'; '.join(names)}")
    parsed = parser.parse_args(arguments)
    if parsed.names != ["table"]:
        for name in parsed.names or to_measure("seeds", names):
            if name in UPDATES:
                add_row("seeds", name, measure_updates(UPDATES[name]), code=UPDATES_CODE)
            else:
                add_row("seeds", name, measure(CASES[name]), code=CODE)
    rows = {name: row.found for name, row in latest(read_rows("seeds")).items()}
    for name in [one for one in CASES if one in rows]:
        beside = rows.get(f"{name.rpartition(', ')[0]}, updates")
        updates = msgspec.convert(beside["evidence"], RoundingEvidence) if beside else None
        print(name, msgspec.json.encode(summary(rows[name], updates)).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
