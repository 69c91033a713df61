"""Does a claim hold an hour later? Recipes tuned first, their speed-ups measured again in fresh processes.

    python -m benchmarks.studies.claims           # all of this, as far as it can be done by now
    python -m benchmarks.studies.claims tune      # some minutes for each recipe
    python -m benchmarks.studies.claims verify    # at least an hour later
    python -m benchmarks.studies.claims table     # what came of it

Runs lie in autoaccel-runs/claims; results go to benchmarks/results/claims.jsonl. A recipe that comes to nothing is a
row, too. The rows of the first series are in it as well; their intervals had no room for drift.

Recipes that benchmarks.studies.unseen.measure has made with the same code are measured again as well: claims about
steps of up to five seconds.
"""

from __future__ import annotations

import datetime
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from autoaccel.records.settings import changed
from autoaccel.statistics.sequences import t_radius_for
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, latest, read_rows, runs_folder, to_measure
from benchmarks.studies.unseen.measure import kept_folder, name_of
from benchmarks.studies.unseen.suite import workloads

CODE = ("autoaccel", "benchmarks/studies/claims.py", "benchmarks/workloads", "examples")
MIN_AGE = datetime.timedelta(hours=1)
PAIRS = "8"
NOISY = 0.08  # standard deviation from pair to pair

DIGITS, IMAGES = "examples/digits_cnn.py", "examples/image_pipeline.py"
RESNET = "benchmarks/workloads/small_resnet.py"
WIDE = "benchmarks/workloads/wide_mlp.py"
# What is claimed here is speed: a metric that moves by some percent from seed to seed must not take most of the time.
WIDER = ["--max-drop", "10%"]
CLAIMS: dict[str, list[str]] = {
    "digits": [DIGITS],
    "digits-cast-only": [DIGITS, "--exclude", "layout.channels_last", "--exclude", "optimizer.fused"],
    "digits-long": [DIGITS, "--trainings", "1000"],
    "digits-quick": [DIGITS, "--space", "quick"],
    "resnet": [RESNET, *WIDER],
    "resnet-cast-only": [RESNET, *WIDER, "--exclude", "layout.channels_last", "--exclude", "compile.mode"],
    "wide": [WIDE],
    "wide-many": [WIDE, "--trainings", "1000"],
    "wide-cast-only": [WIDE, "--exclude", "optimizer.fused"],
    "wide-fused": [WIDE, "--exclude", "precision.autocast"],
    "images": [IMAGES],
    "images-workers": [IMAGES, "--exclude", "precision.autocast"],
    "images-many": [IMAGES, "--trainings", "1000"],
    "images-quick": [IMAGES, "--space", "quick"],
}
"""Name -> what is typed after `autoaccel tune`."""


class Claim(NamedTuple):
    """A recipe whose speed-up is measured again."""

    arguments: list[str]  # typed after `autoaccel tune`, the training's file first
    path: Path  # of the recipe
    code: tuple[str, ...] = CODE  # that its row speaks of


def all_claims() -> dict[str, Claim]:
    """Return name -> claim: those that are made here, and those of the unseen trainings."""
    here = {name: Claim(CLAIMS[name], runs_folder("claims") / name / "recipe.json") for name in CLAIMS}
    unseen = {
        f"unseen: {name}": Claim(
            [name_of(path)], kept_folder(path, "autoaccel") / "autoaccel" / "recipe.json", (*CODE, name_of(path))
        )
        for name, path in workloads().items()
    }
    return {**here, **unseen}


def autoaccel(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command, showing its progress."""
    print("$ autoaccel", *arguments, flush=True)
    command = [sys.executable, "-m", "autoaccel", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)


def standard_error(comparison: dict[str, Any]) -> float:
    """Return that of the log speed-up, drift left out; an anytime interval is about twice as wide as Student's."""
    z = NormalDist().inv_cdf((1 + comparison["confidence"]) / 2)
    radius = math.log(comparison["high"] / comparison["low"]) / 2
    return math.sqrt(max(0.0, (radius / z) ** 2 - comparison.get("drift", 0.0) ** 2)) / 2


def drift_of(series: dict[str, Any]) -> float:
    """Return the standard deviation of the log errors that the two measurements' own errors leave unexplained."""
    excess = [
        math.log1p(row["error"]) ** 2 - standard_error(row["claimed"]) ** 2 - standard_error(row["measured"]) ** 2
        for row in series.values()
    ]
    return math.sqrt(max(0.0, statistics.fmean(excess)))


def scatter_of(comparison: dict[str, Any]) -> float:
    """Return the standard deviation of the log speed-up from pair to pair, read back from the width of the interval."""
    z = NormalDist().inv_cdf((1 + comparison["confidence"]) / 2)
    radius = math.log(comparison["high"] / comparison["low"]) / 2
    measured = math.sqrt(max(0.0, radius**2 - (z * comparison.get("drift", 0.0)) ** 2))
    return measured / t_radius_for(comparison["process_pairs"], 1.0, 1 - comparison["confidence"])


def show_means(results: Sequence[dict[str, Any]]) -> None:
    """Print by how much claims are too high or too low on average, those from calm and from noisy proofs apart."""
    noisy = [row for row in results if scatter_of(row["claimed"]) >= NOISY]
    calm = [row for row in results if row not in noisy]
    for name, rows in {"all": results, f"scatter below {NOISY}": calm, "the others": noisy}.items():
        if len(rows) >= 2:
            errors = [math.log1p(row["error"]) for row in rows]
            deviation = statistics.stdev(errors) / math.sqrt(len(errors))
            print(
                f"{name}: {len(rows)} recipes, measured over claimed {statistics.fmean(errors):+.1%} +- {deviation:.1%}"
            )


def tune() -> None:
    """Make the recipes that are neither there nor measured again already, by today's code."""
    for name in to_measure("claims", CLAIMS):
        folder = runs_folder("claims") / name
        if not (folder / "recipe.json").exists():
            done = autoaccel("tune", *CLAIMS[name], "--budget", "6m", "--output", str(folder))
            if done.returncode:
                keep_what_failed(name, folder, done.returncode)


def keep_what_failed(name: str, folder: Path, exit_code: int) -> None:
    """Add a row for a recipe that claims nothing: there is nothing to measure again."""
    path = folder / "recipe.json"
    if not path.exists():
        add_row("claims", name, {}, code=CODE, status="failed", reason=f"tune ended with exit code {exit_code}")
        return
    recipe = json.loads(path.read_text())
    found = {"command": ["autoaccel", "tune", *CLAIMS[name]], "search": recipe["search"]}
    add_row("claims", name, found, code=CODE, status="incomplete", reason=recipe["summary"])


def verify() -> None:
    """Measure each claim again that is old enough and was not yet."""
    claims = all_claims()
    for name in to_measure("claims", claims):
        arguments, path, code = claims[name]
        if not path.exists():
            continue
        recipe = json.loads(path.read_text())
        if recipe["settings"] == recipe["baseline"]["settings"]:
            continue
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(recipe["created"])
        if age < MIN_AGE:
            print(f"{name} is only {age} old")
            continue
        done = autoaccel("verify", str(path), arguments[0], "--pairs", PAIRS, "--budget", "1h", "--json")
        claimed, measured = recipe["comparison"], json.loads(done.stdout)["measured"]
        if measured is None:
            add_row("claims", name, {}, code=code, status="incomplete", reason="too few pairs of processes in an hour")
            continue
        row = {
            "command": ["autoaccel", "tune", *arguments],
            "settings": changed(recipe["settings"], recipe["baseline"]["settings"]),
            "hours_between": age.total_seconds() / 3600,
            "claimed": claimed,
            "measured": measured,
            "error": measured["speedup"] / claimed["speedup"] - 1,
            "covered": claimed["low"] <= measured["speedup"] <= claimed["high"],
        }
        add_row("claims", name, row, code=code)


def table() -> None:
    """Print claims and what was measured again: the latest of each, and each that came before."""
    rows = [row for row in read_rows("claims") if row.status == "measured"]
    last = latest(rows)
    show({name: row.found for name, row in last.items()})
    print("before")
    show({f"{row.name} {row.made.date[:10]}": row.found for row in rows if row is not last[row.name]})
    show_means([row.found for row in rows])


def show(results: dict[str, Any]) -> None:
    """Print one series."""
    for name, row in results.items():
        one, other = row["claimed"], row["measured"]
        print(
            f"{name:18} claimed {one['speedup']:.2f} ({one['low']:.2f} to {one['high']:.2f}), "
            f"{row['hours_between']:.1f} h later {other['speedup']:.2f}: {row['error']:+.1%}"
            f"{'' if row['covered'] else '  outside'}"
        )
    if results:
        errors = [abs(math.log1p(row["error"])) for row in results.values()]
        covered = statistics.fmean(row["covered"] for row in results.values())
        print(
            f"{len(results)} recipes, median error {statistics.median(errors):.1%}, covered {covered:.0%}, "
            f"drift {drift_of(results):.1%}"
        )


def main(arguments: Sequence[str]) -> None:
    """Do one part, or all of them."""
    parts = {"tune": tune, "verify": verify, "table": table}
    parser = make_parser(__doc__)
    parser.add_argument("part", nargs="?", choices=list(parts), help="default: all, one after the other")
    parsed = parser.parse_args(arguments)
    for part in [parsed.part] if parsed.part else parts:
        parts[part]()


if __name__ == "__main__":
    main(sys.argv[1:])
