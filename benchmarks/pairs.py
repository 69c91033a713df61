"""Which knobs can be had together: every two of them in one real process, or the reason why they are never tried.

    python benchmarks/pairs.py [--workload MODEL.py]

Each knob that is available on this machine has the first of its values that is not the default, and whatever it needs.
A pair works if a worker trains under both, and both show that they took effect. Results go to
benchmarks/results/pairs.json; what is there already is not measured again. About an hour.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

from autoaccel.errors import BadRequestError
from autoaccel.launch.runner import Runner
from autoaccel.records.settings import Settings, describe_change
from autoaccel.records.trial import Failure
from autoaccel.session.workers import probe_and_describe
from autoaccel.session.workloads import find_workload
from autoaccel.space.knobs import KNOBS, Knob, Place, default_settings
from autoaccel.space.search_space import load_space

ROOT = Path(__file__).parents[1]
WORKLOADS = ROOT / "benchmarks" / "workloads"
WORKLOAD = WORKLOADS / "every_knob.py"
RESULTS = ROOT / "benchmarks" / "results" / "pairs.json"
TIMEOUT_SECONDS = 240.0


def wish(knob: Knob, place: Place) -> Settings | None:
    """Return a value of the knob that is not the default, with what it needs; None if that cannot be had here."""
    if knob.why_unavailable(place):
        return None
    found: Settings = {knob.name: next(value for value in knob.values(place) if value != knob.default(place))}
    for need in knob.needs:
        other = KNOBS[need.knob]
        if need.suits(other.default(place)):
            continue
        if other.why_unavailable(place):
            return None
        suiting = [value for value in other.values(place) if need.suits(value)]
        if not suiting:
            return None
        found[other.name] = suiting[0]
    return found


def forbidden_because(settings: Settings, place: Place) -> str:
    """Return why these settings are never tried together; empty if they are."""
    own = default_settings(place)
    asked = [f"{name}={_typed(value)}" for name, value in settings.items() if value != own[name]]
    try:
        load_space("everything", place, own, fixed=asked)
    except BadRequestError as error:
        return str(error).removeprefix("--set: ")
    return ""


def _typed(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def try_together(runner: Runner, settings: Settings, place: Place, name: str) -> dict[str, str]:
    """Return what came of a process under these settings."""
    if reason := forbidden_because(settings, place):
        return {"outcome": "forbidden", "reason": reason}
    measuring = runner.start_measuring(default_settings(place) | settings, name, TIMEOUT_SECONDS)
    if isinstance(measuring, Failure):
        return {"outcome": measuring.kind, "reason": measuring.message}
    turn = measuring.take_turn(0.05, TIMEOUT_SECONDS)
    measuring.close()
    return {"outcome": turn.kind, "reason": turn.message} if isinstance(turn, Failure) else {"outcome": "works"}


OTHERS = {"model.pruning_library": WORKLOADS / "every_knob_convolutions.py"}
"""Knob -> what to train where it is one of the pair: NNI does not prune around attention."""


def main() -> None:
    """Try each pair that was not tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default=str(WORKLOAD))
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"pairs": {}}
    try_pairs(Path(parser.parse_args().workload), set(KNOBS) - OTHERS.keys(), results)
    for name, path in OTHERS.items():
        try_pairs(path, set(KNOBS), results, only=name)


def try_pairs(path: Path, names: set[str], results: dict[str, Any], only: str = "") -> None:
    """Try the pairs of these knobs on a workload, or those of one with all others."""
    workload = find_workload(str(path))
    with tempfile.TemporaryDirectory() as folder, Runner(Path(folder), workload) as runner:
        place = Place(*probe_and_describe(runner, workload, TIMEOUT_SECONDS))
        runner.enter(place)
        knobs = [knob for knob in KNOBS.values() if knob.name in names]
        wishes = {knob.name: found for knob in knobs if (found := wish(knob, place)) is not None}
        unavailable = {
            knob.name: knob.why_unavailable(place) or "what it needs is not to be had here"
            for knob in knobs
            if knob.name not in wishes and knob.name not in results.get("values", {})  # as it was on another machine
        }
        results.setdefault("unavailable", {}).update({} if only and only in wishes else unavailable)
        values = {name: describe_change(found, {}) for name, found in wishes.items() if only in ("", name)}
        results.setdefault("values", {}).update(values)
        for first, second in itertools.combinations(wishes, 2):
            key = f"{first} + {second}"
            if key in results["pairs"] or only not in ("", first, second):
                continue
            one, other = wishes[first], wishes[second]
            clashing = [name for name in one.keys() & other.keys() if one[name] != other[name]]
            if clashing:
                found = {"outcome": "forbidden", "reason": f"they need different values of {clashing[0]}"}
            else:
                found = try_together(runner, one | other, place, "pair")
            results["pairs"][key] = found
            print(f"{key:64} {found['outcome']} {found.get('reason', '')}"[:180], flush=True)
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
