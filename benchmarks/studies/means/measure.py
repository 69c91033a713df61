"""Do proofs speak of the mean step time? Simulated proofs of processes whose mean is known, a row for each case.

    python -m benchmarks.studies.means.measure [--proofs 400] [CASE ...]

Each process is simulated step by step: its luck, long steps that come now and then, steps that settle or become slower,
and what else the machine does, which hits whoever runs just then. The turns are those of the project's turn taker, and
the decisions those of its prover; only the steps are made up. The truth is the ratio of the mean step times in a long
run, which is what a run pays. Cases that no proof of some minutes can see are simulated as well, and say so. Takes half
an hour. Results go to benchmarks/results/means.jsonl; what is there of today's code is not simulated again.
"""

from __future__ import annotations

import functools
import math
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from autoaccel.proof.course import Proof
from autoaccel.proof.proof import Prover
from autoaccel.records.progress import ignore
from autoaccel.records.workload import TrainingFacts
from autoaccel.statistics.comparison import NOISE_THRESHOLD, SHARED_DRIFT
from autoaccel.statistics.deciding import rule_for
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import at_least
from benchmarks.harness.rows import add_row, to_measure
from benchmarks.harness.table import TABLES, read_table
from benchmarks.studies.means.cases import CASES, Case

CODE = ("autoaccel/proof", "autoaccel/bench", "autoaccel/statistics", "benchmarks/studies/means")
PROOFS = 400


@functools.cache
def any_facts() -> TrainingFacts:
    """Return facts of some training: a proof names its metric, and decides by nothing of it."""
    return read_table(TABLES / "digits_cnn.jsonl.gz").head.facts


def prove(case: Case, seed: int) -> tuple[Proof, float]:
    """Return one proof, and how long it took by the simulated clock."""
    pairs = case.pairs(seed)
    prover = Prover(pairs.compare, any_facts(), pairs.computer.clock, ignore)
    rule = rule_for(1, 1 + NOISE_THRESHOLD, drift=SHARED_DRIFT if case.is_virtual else 0.0)
    return prover.prove({}, rule, None, is_spared=case.spares_system), pairs.computer.clock.spent


def simulated(case: Case, proofs: int) -> dict[str, Any]:
    """Return what came of so many proofs of a case."""
    outcomes: dict[str, int] = {}
    errors, claims, covered, pairs, seconds = [], [], 0, 0, 0.0
    for seed in range(proofs):
        proof, spent = prove(case, seed)
        found = proof.comparison
        outcomes[proof.result] = outcomes.get(proof.result, 0) + 1
        pairs += len(proof.pairs)
        seconds += spent
        if found is None:
            continue
        error = math.log(found.speedup / case.truth)
        errors.append(error)
        covered += found.low <= case.truth <= found.high
        if proof.result == "proven":
            claims.append(error)
    return {
        "truth": case.truth,
        "step_seconds": case.step_seconds,
        "virtual": case.is_virtual,
        "seen": case.seen,
        "proofs": proofs,
        "compared": len(errors),
        "outcomes": outcomes,
        "proven": outcomes.get("proven", 0),
        "covered_share": covered / max(1, len(errors)),
        "mean_error": statistics.fmean(errors) if errors else None,
        "mean_error_of_claims": statistics.fmean(claims) if claims else None,
        "mean_pairs": pairs / proofs,
        "mean_seconds": seconds / proofs,
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print what came of one case."""
    errors = [found["mean_error"], found["mean_error_of_claims"]]
    one, other = ("    -" if error is None else f"{error:+6.1%}" for error in errors)
    print(
        f"{name:44} truth {found['truth']:.2f}  proven {found['proven']:3} of {found['proofs']}  "
        f"covered {found['covered_share']:6.1%}  error {one}, of claims {other}  "
        f"{found['mean_pairs']:4.1f} pairs, {found['mean_seconds']:4.0f} s{'' if found['seen'] else '  (not seen)'}",
        flush=True,
    )


def main(arguments: Sequence[str]) -> None:
    """Simulate the cases that are not there yet; write the results."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument("--proofs", type=at_least(1), default=PROOFS)
    parser.add_argument("--list", action="store_true", help="print the cases, and end")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(CASES)):
        parser.error(f"there is no case {', '.join(unknown)}; --list prints them")
    if parsed.list:
        print("\n".join(CASES))
        return
    start = time.perf_counter()
    names = parsed.names or list(CASES)
    for name in to_measure("means", names) if parsed.proofs == PROOFS else names:
        found = simulated(CASES[name], parsed.proofs)
        show(name, found)
        if parsed.proofs == PROOFS:  # fewer are a look
            add_row("means", name, found, code=CODE)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
