"""Which knobs can be had together: every two of them in one real process, or the reason why they are never tried.

    python -m benchmarks.checks.knobs [--workload MODEL.py]

Each knob that is available on this machine has the first of its values that is not the default, and whatever it needs.
A pair works if a worker trains under both, and both show that they took effect. Results go to
benchmarks/results/pairs.jsonl, a row for each knob with those after it; what is there of today's code is not measured
again. About an hour.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Failure, GiveTurn
from autoaccel.records.settings import Settings, describe_change
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KNOBS, Knob, KnobContext, clash_holds, default_settings
from autoaccel.space.search_space import load_space
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure

WORKLOADS = ROOT / "benchmarks" / "workloads"
WORKLOAD = WORKLOADS / "every_knob.py"
CODE = ("autoaccel/runtime", "autoaccel/space", "benchmarks/checks/knobs.py", "benchmarks/workloads")
TIMEOUT_SECONDS = 240.0

BY_HAND: Settings = {
    "threads.affinity": "compact",
    "model.attention": "flash",
    "precision.float32_matmul": "medium",
}
"""What to try of knobs that have a value here, though perhaps none that a search would try."""


def wish(knob: Knob, context: KnobContext) -> Settings | None:
    """Return a value of the knob that is not the default, with what it needs; None if that cannot be had here."""
    if knob.why_unavailable(context):
        return None
    first = next((value for value in knob.values(context) if value != knob.default(context)), BY_HAND.get(knob.name))
    if first is None:
        return None
    found: Settings = {knob.name: first}
    for need in knob.needs:
        other = KNOBS[need.knob]
        if other.passes(need.suits, other.default(context)):
            continue
        if other.why_unavailable(context):
            return None
        suiting = [value for value in other.values(context) if other.passes(need.suits, value)]
        if not suiting:
            return None
        found[other.name] = suiting[0]
    for clash in knob.clashes:
        other, baseline = KNOBS[clash.knob], KNOBS[clash.knob].default(context)
        fitting = [
            value
            for value in (baseline, *other.values(context))
            if not clash_holds(clash, knob, {**found, other.name: value}, context)
        ]
        if not fitting:
            return None
        if fitting[0] != baseline:
            found[other.name] = fitting[0]
    return found


def forbidden_because(settings: Settings, context: KnobContext) -> str:
    """Return why these settings are never tried together; empty if they are."""
    baseline = default_settings(context)
    for name in settings:
        for clash in KNOBS[name].clashes:
            if clash_holds(clash, KNOBS[name], {**baseline, **settings}, context):
                return clash.reason
    asked = [f"{name}={_typed(value)}" for name, value in settings.items() if value != baseline[name]]
    try:
        load_space("everything", context, fixed=asked)
    except BadRequestError as error:
        return str(error)
    return ""


def _typed(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def try_together(starter: WorkerStarter, settings: Settings, context: KnobContext, name: str) -> dict[str, str]:
    """Return what came of a process under these settings."""
    if reason := forbidden_because(settings, context):
        return {"outcome": "forbidden", "reason": reason}
    measuring = starter.start_measuring(default_settings(context) | settings, name, TIMEOUT_SECONDS)
    if isinstance(measuring, Failure):
        return {"outcome": measuring.kind, "reason": measuring.message}
    turn = measuring.take_turn(GiveTurn(0.05), TIMEOUT_SECONDS)
    measuring.close()
    return {"outcome": turn.kind, "reason": turn.message} if isinstance(turn, Failure) else {"outcome": "works"}


OTHERS = {"model.pruning_library": WORKLOADS / "every_knob_convolutions.py"}
"""Knob -> what to train where it is one of the pair: NNI does not prune around attention."""


def main() -> None:
    """Try each pair that was not tried."""
    parser = make_parser(__doc__)
    parser.add_argument("--workload", default=str(WORKLOAD))
    rest = set(KNOBS) - OTHERS.keys()
    try_pairs(Path(parser.parse_args().workload), lambda first, second: {first, second} <= rest, "knobs")
    for name, path in OTHERS.items():
        try_pairs(path, lambda first, second, name=name: name in (first, second), f"knobs with {name}")


def try_pairs(path: Path, wanted: Callable[[str, str], bool], row: str) -> None:
    """Try the wanted pairs of knobs on a workload; `row` says what can be had here."""
    workload = find_workload(str(path))
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), workload) as starter:
        context = KnobContext(*probe_and_describe(starter, workload, TIMEOUT_SECONDS))
        starter = starter.at(context)
        wishes = {name: found for name, knob in KNOBS.items() if (found := wish(knob, context)) is not None}
        unavailable = {
            name: knob.why_unavailable(context) or knob.why_untried(context) or "what it needs is not to be had here"
            for name, knob in KNOBS.items()
            if name not in wishes
        }
        for first in wishes:
            seconds = list(wishes)[list(wishes).index(first) + 1 :]
            tried = [second for second in seconds if wanted(first, second)]
            name = first if row == "knobs" else f"{first}, {row}"
            if tried and to_measure("pairs", [name]):
                found = {f"{first} + {second}": try_pair(starter, wishes, (first, second), context) for second in tried}
                add_row("pairs", name, {"pairs": found}, code=CODE)
        if to_measure("pairs", [row]):
            values = {name: describe_change(found, {}) for name, found in wishes.items()}
            add_row("pairs", row, {"values": values, "unavailable": unavailable}, code=CODE)


def try_pair(
    starter: WorkerStarter, wishes: Mapping[str, Settings], pair: tuple[str, str], context: KnobContext
) -> dict[str, str]:
    """Return what came of two knobs together."""
    one, other = (wishes[name] for name in pair)
    clashing = [name for name in one.keys() & other.keys() if one[name] != other[name]]
    if clashing:
        found = {"outcome": "forbidden", "reason": f"they need different values of {clashing[0]}"}
    else:
        found = try_together(starter, one | other, context, "pair")
    print(f"{' + '.join(pair):64} {found['outcome']} {found.get('reason', '')}"[:180], flush=True)
    return found


if __name__ == "__main__":
    main()
