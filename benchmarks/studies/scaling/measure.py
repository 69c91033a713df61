"""How well are run times with more GPUs predicted? Compared with a published series.

    python -m benchmarks.studies.scaling.measure

EfficientNet on CIFAR-10, 25 epochs, on A100 GPUs: one to eight in one machine, sixteen in two. Some of the times are
fitted, the others predicted; each is left out once; and the two machines are predicted from published figures of links.
The batch size and the network behind the series are not known: that prediction is made for several of each. A simulated
cluster goes on to hundreds of ranks, which nobody measured. Results go to benchmarks/results/scaling.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoaccel.advise.all_reduce import find_link
from autoaccel.advise.run_times import scale_runs
from autoaccel.records.scaling import Cluster, Exchange, RunScaling
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import add_row
from benchmarks.studies.scaling.cluster import ScalingPlan, StepCost, simulate

CODE = ("autoaccel/advise", "benchmarks/studies/scaling/measure.py", "benchmarks/studies/scaling/cluster.py")

MEASURED = {1: 707.0, 2: 393.0, 3: 276.0, 4: 208.0, 5: 172.0, 6: 142.0, 7: 122.0, 8: 109.0, 16: 64.0}  # seconds by GPUs
ONE_MACHINE = tuple(range(1, 9))
FITS = ((1, 2, 4), (1, 2, 3), (1, 4, 8), (1, 2))

SAMPLES = 25 * 50_000
# EfficientNet-B0 has 5,288,548 parameters with ImageNet's 1,000 classes (Tan and Le, 2019), 1,268,190 fewer with ten:
# 1,281 for each class. float32. Which of the family it was is not known; B0 is the smallest.
GRADIENT_BYTES = 4 * (5_288_548 - 990 * 1_281)
BATCH_SIZES = (32, 64, 128)  # per GPU
NETWORKS = ("25 GbE", "100 GbE", "HDR")

Row = dict[str, Any]


def exchange(batch_size: int, network: str) -> Exchange:
    """Return what the published run exchanged, had it had this batch size and this network."""
    return Exchange(
        GRADIENT_BYTES, SAMPLES // batch_size, find_link("nvlink3", "within"), find_link(network, "between")
    )


def rows(scaling: RunScaling) -> list[Row]:
    """Return what was predicted of what was measured."""
    return [
        {
            "ranks": point.ranks,
            "measured": MEASURED[point.ranks],
            "predicted": round(point.seconds, 1),
            "low": round(point.low, 1),
            "high": round(point.high, 1),
            "error": round(point.seconds / MEASURED[point.ranks] - 1, 4),
            "covered": point.low <= MEASURED[point.ranks] <= point.high,
            "limit": point.bottleneck,
        }
        for point in scaling.points
        if point.predicted
    ]


def fitted_on(ranks: Sequence[int]) -> list[Row]:
    """Return the predictions for the other numbers of GPUs in one machine."""
    others = [other for other in ONE_MACHINE if other not in ranks]
    return rows(scale_runs({one: MEASURED[one] for one in ranks}, others, machines_of=8))


def leave_one_out(ranks: Sequence[int]) -> list[Row]:
    """Return the prediction for each of these from the others; two machines are not predicted from one."""
    found = []
    for left_out in ranks:
        others = {one: MEASURED[one] for one in ranks if one != left_out}
        if left_out <= 8:
            found += rows(scale_runs(others, [left_out], machines_of=8))
    return found


def two_machines(ranks: Sequence[int]) -> list[Row]:
    """Return the predictions for sixteen GPUs in two machines, by batch size and network."""
    measured = {one: MEASURED[one] for one in ranks}
    return [
        {"batch_size": size, "network": network, **row}
        for size in BATCH_SIZES
        for network in NETWORKS
        for row in rows(scale_runs(measured, [16], machines_of=8, exchange=exchange(size, network)))
    ]


def hundreds() -> list[Row]:
    """Return the simulated steps of up to 512 GPUs with 64 samples each, nobody's measurement.

    A step's compute is that of the published run; every rank's step varies by a tenth, an assumption.
    """
    plan = ScalingPlan(
        cost=StepCost(0.0, MEASURED[1] / SAMPLES),
        batch_size=64,
        gradient_bytes=GRADIENT_BYTES,
        cluster=Cluster(8, find_link("nvlink3", "within"), find_link("100 GbE", "between")),
        world_sizes=(1, 2, 8, 16, 64, 128, 256, 512),
        samples=SAMPLES,
        step_deviation=0.1,
    )
    return [
        {
            "ranks": step.ranks,
            "step_seconds": round(step.step_seconds, 5),
            "slowest_rank_seconds": round(step.slowest_rank_seconds, 5),
            "all_reduce_seconds": round(step.all_reduce_seconds, 5),
            "efficiency": round(step.efficiency, 4),
        }
        for step in simulate(plan)
    ]


def show(title: str, found: Sequence[Row]) -> None:
    """Print a table of predictions."""
    print(f"\n{title}")
    for row in found:
        where = f"  batch {row['batch_size']:>3}, {row['network']:<8}" if "network" in row else ""
        missed = "" if row["covered"] else "  not covered"
        print(
            f"  {row['ranks']:>3} GPUs{where}  measured {row['measured']:>5.0f} s  predicted {row['predicted']:>6.1f} s"
            f"  ({row['low']:.1f} to {row['high']:.1f})  error {row['error']:+.1%}{missed}"
        )


def main() -> None:
    """Predict, compare, keep and print."""
    make_parser(__doc__).parse_args()
    fits = [{"fitted_on": list(ranks), "predictions": fitted_on(ranks)} for ranks in FITS]
    results = {
        "measured": {str(ranks): seconds for ranks, seconds in MEASURED.items()},
        "fits": fits,
        "leave_one_out": leave_one_out(tuple(MEASURED)),
        "two_machines": [
            {"fitted_on": list(one), "predictions": two_machines(one)} for one in ((1, 2, 4), ONE_MACHINE)
        ],
        "simulated": hundreds(),
    }
    add_row("scaling", "all", results, code=CODE)
    for fit in fits:
        show(f"Fitted on {fit['fitted_on']}", fit["predictions"])
    show("Each left out once", results["leave_one_out"])
    for fit in results["two_machines"]:
        show(f"Two machines, fitted on {fit['fitted_on']}", fit["predictions"])
    print("\nSimulated, 64 samples per GPU, 8 GPUs per machine, 100 GbE")
    for row in results["simulated"]:
        print(f"  {row['ranks']:>3} GPUs  step {row['step_seconds'] * 1e3:.1f} ms  efficiency {row['efficiency']:.0%}")


if __name__ == "__main__":
    main()
