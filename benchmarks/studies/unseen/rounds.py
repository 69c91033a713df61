"""All picks for one workload side by side, in rounds of fresh processes that are kept one by one."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import NamedTuple

from autoaccel.records.base import Record, decode, encode
from autoaccel.statistics.turn_plan import plan_turns, turns_worth
from autoaccel.workers.starter import WorkerStarter
from benchmarks.harness.side_by_side import Pick, RoundPlan, Taken, measure_round
from benchmarks.studies.unseen.searches import Case

ROUNDS, MIN_ROUNDS = 6, 3
ROUNDS_SECONDS = 900.0  # once they have taken so long, no other begins after the first few
START_SECONDS = 600.0  # until a process has warmed up, a first compilation included
_FIRST_STEPS = 3  # that a process makes until it has warmed up, about


class Round(Record, frozen=True):
    """What fresh processes of all picks showed, alive together and measured in turns."""

    seconds: float
    taken: dict[str, Taken]
    """Without picks that failed; empty if the user's own settings did."""


class Expected(NamedTuple):
    """What a process takes under the user's own settings, in seconds."""

    step: float
    startup: float


def compare(
    starter: WorkerStarter,
    case: Case,
    picks: Mapping[str, Pick],
    seconds: Expected,
    rounds: int = ROUNDS,
) -> list[Round]:
    """Return rounds of all picks side by side; those that were measured before are taken as they are.

    Args:
        starter: That starts processes.
        case: The workload.
        picks: Name -> pick, `baseline` first.
        seconds: What a process takes, about.
        rounds: At most; fewer, but three, where they take longer than `ROUNDS_SECONDS`.
    """
    path = case.folder / f"rounds-{_key(picks)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = [decode(line, Round) for line in lines[:rounds]]
    plan = plan_turns(seconds.step)
    turns = turns_worth(plan, 2 * (seconds.startup + _FIRST_STEPS * seconds.step), plan.usual_deviation)
    of_round = RoundPlan(plan.order, turns, case.steps_per_epoch, START_SECONDS)
    for number in range(len(found), rounds):
        if number >= MIN_ROUNDS and sum(one.seconds for one in found) >= ROUNDS_SECONDS:
            break
        # A pick that has failed does not cost each round its ten minutes.
        before = [one.taken for one in found if one.taken]
        left = {who: pick for who, pick in picks.items() if who == "own" or all(who in taken for taken in before)}
        start = time.perf_counter()
        taken = measure_round(starter, left, number, of_round)
        found.append(Round(time.perf_counter() - start, taken))
        with path.open("ab") as file:
            file.write(encode(found[-1]) + b"\n")
        told = ", ".join(f"{who} {math.exp(one.log_speedup):.2f}x" for who, one in taken.items())
        number_of = f"round {number + 1} of at most {rounds}"
        print(f"{case.name} side by side, {number_of}: {told or 'own settings failed'}", flush=True)
    return found


def _key(picks: Mapping[str, Pick]) -> str:
    """Return a digest of what is compared, whoever picked it."""
    told = json.dumps({who: asdict(pick) for who, pick in picks.items()}, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
