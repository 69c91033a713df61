"""Simulated trainings that are tuned while they run: what is kept, what it costs, and whether the end's claim is true.

    python -m benchmarks.studies.replays [--trainings N] [CASE ...]

Each training is simulated step by step: what a step takes under which settings is known, with noise, rare long steps,
slow beginnings, drift, a neighbour that comes and goes, and batches of different sizes. What decides is the project's
own tuner; only the steps are made up, and updates are taken to be harmless. Where nothing helps, whatever is kept is a
false win. Takes a quarter of an hour. Results go to benchmarks/results/replays.jsonl; what is there of today's code is
not simulated again. Another number of trainings adds no row.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from autoaccel.live.allowance import Allowance
from autoaccel.live.blocks import StepTaken, StepWanted
from autoaccel.live.found import claimed
from autoaccel.live.searching import LivePlan, Tried
from autoaccel.live.tuner import LiveTuner
from autoaccel.records.rounding import UpdateError, UpdatesCompared
from autoaccel.records.settings import Settings, changed
from autoaccel.records.space import SearchSpace
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import at_least
from benchmarks.harness.rows import add_row, to_measure

CODE = ("autoaccel/live", "autoaccel/statistics", "benchmarks/studies/replays.py")
NULLS, OTHERS = 2_000, 400  # trainings of a case in which nothing helps, and of another
STEP = 0.05  # seconds
STEPS = 6_000  # five minutes
LONG_STEP, LONG_STEPS = 1.0, 1_200  # the same of other trainings, of twenty
OWN: Settings = {"layout.channels_last": False, "optimizer.fused": False, "threads.intra_op": 2,
                 "memory.keep_freed": False}  # fmt: skip
SPACE = SearchSpace(
    name="simulated",
    open={name: (value, 1 if value == 2 else True) for name, value in OWN.items()},
    fixed={},
    closed={},
)
PLAN = LivePlan(
    own=OWN,
    guesses=({**OWN, "layout.channels_last": True, "optimizer.fused": True},),
    space=SPACE,
    lasting=("memory.keep_freed",),
)
HARMLESS = UpdatesCompared(
    True, False, (), 3,
    (UpdateError("weight", "parameter", 1, 10, 10, gradient=1.0, error=1e-9, systematic=0.0, repeat_error=0.0,
                 noise=1.0, mean=1.0),),
    (1.0, 0.5), (1.0, 0.5),
)  # fmt: skip

Machine = Callable[[int], float]
"""Returns what the n-th step of a training takes times as long, whatever the settings."""


class Case(NamedTuple):
    """A training, and what settings do to it."""

    machine: Callable[[random.Random], Machine] = lambda chance: lambda number: chance.lognormvariate(0.0, 0.05)
    factors: Mapping[str, float] = {}  # setting -> what its steps take times as long
    stalls: int = 0  # of the settings that have factors, every n-th step takes 8 more times as long; 0: none
    slow_after: int = STEPS  # steps of the training, from where on these take twice as long
    sizes: Sequence[float] = ()  # of batches, in the mean 1; empty: all are alike
    step: float = STEP  # seconds
    system: float = 0.0  # share of an own step that the operating system takes
    saved: float = 1.0  # of that, by kept memory

    @property
    def steps(self) -> int:
        """How many it makes."""
        return STEPS if self.step == STEP else LONG_STEPS

    @property
    def helps(self) -> bool:
        """Whether some setting is faster over the whole training."""
        return any(factor < 1 for factor in self.factors.values()) and not self.stalls and self.slow_after == STEPS


def _noisy(chance: random.Random) -> Machine:
    return lambda number: chance.lognormvariate(0.0, 0.3)


def _rare(every: int, times: float) -> Callable[[random.Random], Machine]:
    def machine(chance: random.Random) -> Machine:
        return lambda number: chance.lognormvariate(0.0, 0.05) + times * (chance.random() < 1 / every)

    return machine


def _settling(chance: random.Random) -> Machine:
    return lambda number: chance.lognormvariate(0.0, 0.05) * (1 + math.exp(-number / 60))


def _drifting(chance: random.Random) -> Machine:
    return lambda number: chance.lognormvariate(0.0, 0.05) * (1 + 0.5 * number / STEPS)


def _walking(chance: random.Random) -> Machine:
    place = 0.0

    def machine(number: int) -> float:
        nonlocal place
        place = 0.99 * place + chance.gauss(0.0, 0.03)
        return chance.lognormvariate(place, 0.05)

    return machine


def _with_neighbour(chance: random.Random) -> Machine:
    left = 0

    def machine(number: int) -> float:
        nonlocal left
        left = left - 1 if left else chance.randrange(5, 60) if chance.random() < 0.01 else 0
        return chance.lognormvariate(0.0, 0.05) * (1.8 if left else 1.0)

    return machine


_PADDED = (0.4, 0.7, 1.1, 1.8)
_ONE: Mapping[str, float] = {"layout.channels_last": 0.8}
_ALL: Mapping[str, float] = {"layout.channels_last": 0.7, "optimizer.fused": 0.95, "memory.keep_freed": 0.7}
_SLOWER: Mapping[str, float] = {"layout.channels_last": 1.3, "optimizer.fused": 1.2, "threads.intra_op": 1.9}
CASES: Mapping[str, Case] = {
    "nothing helps": Case(),
    "nothing helps, all are slower": Case(factors=_SLOWER),
    "nothing helps, noise of 0.3": Case(_noisy),
    "nothing helps, every 20th step is 6x": Case(_rare(20, 5.0)),
    "nothing helps, every 50th step is 11x": Case(_rare(50, 10.0)),
    "nothing helps, a slow beginning": Case(_settling),
    "nothing helps, drift by half": Case(_drifting),
    "nothing helps, a walk": Case(_walking),
    "nothing helps, a neighbour": Case(_with_neighbour),
    "nothing helps, padded batches": Case(sizes=_PADDED),
    "nothing helps, steps of a second": Case(step=LONG_STEP),
    "nothing helps, steps of a second, noise of 0.3": Case(_noisy, step=LONG_STEP),
    "nothing helps, steps of a second, a neighbour": Case(_with_neighbour, step=LONG_STEP),
    "nothing helps, the system takes a third of a step": Case(system=0.3, saved=0.0),
    "nothing helps, the system takes a third of a step, a walk": Case(_walking, system=0.3, saved=0.0),
    "one of 1.25x": Case(factors=_ONE),
    "one of 1.25x, noise of 0.3": Case(_noisy, _ONE),
    "one of 1.25x, every 50th step is 11x": Case(_rare(50, 10.0), _ONE),
    "one of 1.25x, a neighbour": Case(_with_neighbour, _ONE),
    "one of 1.25x, padded batches": Case(factors=_ONE, sizes=_PADDED),
    "one of 1.25x, steps of a second": Case(factors=_ONE, step=LONG_STEP),
    "three of 2.1x together": Case(factors=_ALL, system=0.3),
    "three of 2.1x together, a slow beginning": Case(_settling, _ALL, system=0.3),
    "three of 2.1x together, a neighbour": Case(_with_neighbour, _ALL, system=0.3),
    "three of 2.1x together, steps of a second": Case(factors=_ALL, step=LONG_STEP, system=0.3),
    "one of 1.25x that stalls every 20th step": Case(factors=_ONE, stalls=20),
    "one of 1.25x that becomes slow": Case(factors=_ONE, slow_after=1_500),
}


class Trained(NamedTuple):
    """What came of a training."""

    best: Settings
    kept: bool  # whether anything was in use but for a try
    seconds: float
    plain: float  # seconds of the same steps under the user's own settings
    fastest: float  # under the settings that are faster
    after: int  # steps, from where on what is faster was in use; as many as there are if never
    errors: tuple[float, bool] | None  # of the claim's logarithm, and whether its interval covers the truth


def train(case: Case, seed: int) -> Trained:
    """Simulate a training."""
    chance = random.Random(seed)
    machine = case.machine(chance)
    sizes = [chance.choice(case.sizes) for _ in range(case.steps)] if case.sizes else []
    tried: list[Tried] = []
    tuner = LiveTuner(PLAN, Allowance(case.steps), tried.append, random.Random(seed))
    steps = tuner.steps()
    wanted: StepWanted | None = next(steps)
    seconds = plain = fastest = 0.0
    after = case.steps
    faster = {name for name, factor in case.factors.items() if factor < 1}
    for number in range(case.steps):
        settings = wanted.settings if wanted is not None else tuner.best
        base = case.step * machine(number) * (0.2 + 0.8 * sizes[number] if sizes else 1.0)
        taken = base * _factor(case, changed(settings, OWN), number)
        seconds, plain = seconds + taken, plain + base
        fastest += base * math.prod(case.factors[name] for name in faster)
        if faster and faster <= changed(tuner.best, OWN).keys():
            after = min(after, number)
        if wanted is None:
            continue
        size = round(1_000 * sizes[number]) if sizes else 0
        system = base * case.system * (1 - case.saved * bool(settings["memory.keep_freed"]))
        try:
            wanted = steps.send(StepTaken(taken, HARMLESS if wanted.beside else None, size=size, system=system))
        except StopIteration:
            wanted = None
    return Trained(
        tuner.best, any(one.is_kept for one in tried), seconds, plain, fastest, after, _errors(case, tuner, tried)
    )


def _factor(case: Case, settings: Settings, number: int) -> float:
    names = [name for name in settings if name in case.factors]
    factor = math.prod(case.factors[name] for name in names)
    if not names:
        return factor
    if number >= case.slow_after:
        factor *= 2
    return factor + (8.0 if case.stalls and number % case.stalls == 0 else 0.0)


def _errors(case: Case, tuner: LiveTuner, tried: Sequence[Tried]) -> tuple[float, bool] | None:
    """Return what is wrong with what a run claims at its end; None where it claims nothing."""
    given_up = max((number for number, one in enumerate(tried, 1) if one.became == "given up"), default=0)
    found = claimed(tuner, [one for one in tried[given_up:] if one.is_kept])
    if found is None or not case.helps:
        return None
    truth = 1 / math.prod(case.factors.get(name, 1.0) for name in changed(tuner.best, OWN))
    return math.log(found.speedup / truth), found.low <= truth <= found.high


def simulated(case: Case, trainings: int) -> dict[str, Any]:
    """Return what came of so many trainings of a case."""
    all_of_them = [train(case, seed) for seed in range(trainings)]
    claims = [one.errors for one in all_of_them if one.errors is not None]
    gained = [(one.plain - one.seconds) / (one.plain - one.fastest) for one in all_of_them if one.fastest < one.plain]
    return {
        "trainings": trainings,
        "helps": case.helps,
        "kept_share": sum(one.kept for one in all_of_them) / trainings,
        "in_use_at_end_share": sum(one.best != OWN for one in all_of_them) / trainings,
        "lost_share": statistics.fmean(one.seconds / one.plain - 1 for one in all_of_them),
        "most_lost_share": max(one.seconds / one.plain - 1 for one in all_of_them),
        "gained_share": statistics.fmean(gained) if case.helps else None,
        "found_share": sum(one.after < case.steps for one in all_of_them) / trainings if case.helps else None,
        "median_seconds_until": case.step * statistics.median(one.after for one in all_of_them) if case.helps else None,
        "claims": len(claims),
        "covered_share": sum(covers for _, covers in claims) / len(claims) if claims else None,
        "mean_error": statistics.fmean(error for error, _ in claims) if claims else None,
    }


def main(arguments: Sequence[str]) -> int:
    """Simulate what is asked for and was not simulated with today's code; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="as a row names it")
    parser.add_argument("--trainings", type=at_least(2), help="of each case; adds no row")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - CASES.keys()):
        parser.error(f"there is no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    names = parsed.names or list(CASES)
    for name in names if parsed.trainings else to_measure("replays", names):
        case = CASES[name]
        found = simulated(case, parsed.trainings or (OTHERS if case.factors else NULLS))
        if not parsed.trainings:
            add_row("replays", name, found, code=CODE)
        gained = "" if found["gained_share"] is None else f", {found['gained_share']:.2f} of what could be saved"
        print(
            f"{name}: kept in {found['kept_share']:.3f}, {found['lost_share']:+.2%} of the time, "
            f"at most {found['most_lost_share']:+.2%}{gained}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
