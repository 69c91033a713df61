"""What is simulated: two sides, a machine, and what is known of their mean step times."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from benchmarks.studies.means.processes import Computer, Luck, Neighbour, Side, SimulatedPairs, Wander


class Case(NamedTuple):
    """What a proof meets."""

    baseline: Side = Side()
    candidate: Side = Side()
    step_seconds: float = 0.05  # of the baseline's usual step
    luck: Luck = Luck()
    neighbour: Neighbour | None = None
    wander: Wander | None = None
    hour: float = 0.0  # standard deviation of what all pairs share of the log speed-up
    walk: float = 0.0  # of the same from pair to pair
    is_virtual: bool = False  # whether the machine is known to be a virtual one, which may drift from hour to hour
    spares_system: bool = False  # whether all that the candidate changes is that the operating system does less
    seen: bool = True  # whether the design can see what decides; else the case only tells what it cannot

    @property
    def truth(self) -> float:
        """The speed-up in a long run, at an average hour."""
        return self.baseline.mean / self.candidate.mean

    @property
    def is_null(self) -> bool:
        """Whether nothing is gained."""
        return math.isclose(self.truth, 1.0)

    def pairs(self, seed: int) -> SimulatedPairs:
        """Return the pairs of one proof."""
        generator = random.Random(seed)
        computer = Computer(generator, self.neighbour, self.wander)
        offset = generator.gauss(0, self.hour) if self.hour else 0.0
        return SimulatedPairs(self.baseline, self.candidate, self.step_seconds, computer, self.luck, offset, self.walk)


def _luck(deviation: float, degrees: float = math.inf) -> Luck:
    return Luck(deviation, degrees)


_NULL = {
    **{f"null, luck {one}": Case(luck=_luck(one)) for one in (0.04, 0.08, 0.12, 0.2, 0.3)},
    **{f"null, luck t3 x {one}": Case(luck=_luck(one, 3.0)) for one in (0.1, 0.2)},
    "null, bursts of 0.1 s, x3": Case(neighbour=Neighbour(0.1, 0.2, 3.0)),
    "null, bursts of 1 s, x3": Case(neighbour=Neighbour(1.0, 2.0, 3.0)),
    "null, bursts of 30 s, x1.4": Case(neighbour=Neighbour(30.0, 30.0, 1.4)),
    "null, frequency for 5 s, x1.35": Case(neighbour=Neighbour(5.0, 5.0, 1.35)),
    "null, frequency for 20 s, x1.6": Case(neighbour=Neighbour(20.0, 20.0, 1.6)),
    "null, speed wanders by 0.3": Case(wander=Wander(0.3, 0.7)),
    "null, every 10th x5 on both": Case(Side(every=10, long=5.0), Side(every=10, long=5.0)),
    "null, every 10th x5 on both, 0.5 s": Case(Side(every=10, long=5.0), Side(every=10, long=5.0), 0.5),
    "null, 15 of 100 steps x8 by chance": Case(
        Side(every=7, long=8.0, at_random=True), Side(every=7, long=8.0, at_random=True)
    ),
    **{
        f"null, hour {one}": Case(luck=_luck(0.03), hour=one, is_virtual=True, seen=one <= 0.08)
        for one in (0.04, 0.06, 0.08, 0.1)
    },
    "null, offset walks by 0.05": Case(luck=_luck(0.03), walk=0.05, is_virtual=True, seen=False),
}
_SETTLES = {
    **{f"baseline settles over {one} steps": Case(Side(settling=0.3, settling_steps=one)) for one in (20, 100)},
    "candidate settles over 50 steps": Case(candidate=Side(0.8, settling=0.4, settling_steps=50.0)),
    "candidate slows down over 30 steps": Case(candidate=Side(0.8, settling=-0.4, settling_steps=30.0)),
    "candidate slows down over 2,000 steps": Case(
        candidate=Side(0.8, settling=-0.4, settling_steps=2000.0), seen=False
    ),
}
_STALLS = {
    "0.8, every 10th 4.5, 0.5 s": Case(candidate=Side(0.8, 10, 4.5), step_seconds=0.5),
    "0.7, every 20th 9, 0.5 s": Case(candidate=Side(0.7, 20, 9.0), step_seconds=0.5),
    "0.7, every 10th 5, 2 s": Case(candidate=Side(0.7, 10, 5.0), step_seconds=2.0),
    "0.8, every 40th 20": Case(candidate=Side(0.8, 40, 20.0)),
    "0.75, every 50th 15 by chance": Case(candidate=Side(0.75, 50, 15.0, at_random=True)),
    "0.6, every 13th 4 by chance, 0.1 s": Case(candidate=Side(0.6, 13, 4.0, at_random=True), step_seconds=0.1),
    "0.8, every 100th 40": Case(candidate=Side(0.8, 100, 40.0), seen=False),
    "removes every 10th 5, 0.5 s": Case(Side(1.0, 10, 5.0), step_seconds=0.5),
    "removes every 10th 5": Case(Side(1.0, 10, 5.0)),
    "removes every 25th 11 by chance": Case(Side(1.0, 25, 11.0, at_random=True)),
    "2x, every 10th +4": Case(Side(1.0, 10, 5.0), Side(0.5, 10, 4.5)),
    "2x, every 10th +4, 0.5 s": Case(Side(1.0, 10, 5.0), Side(0.5, 10, 4.5), 0.5),
    "2x, every 20th +4, 0.5 s": Case(Side(1.0, 20, 5.0), Side(0.5, 20, 4.5), 0.5),
    "2x, every 10th +4, 2 s": Case(Side(1.0, 10, 5.0), Side(0.5, 10, 4.5), 2.0),
}
_TRUE = {
    **{
        f"true {speedup}, luck {luck}": Case(candidate=Side(1 / speedup), luck=_luck(luck))
        for speedup in (1.05, 1.1, 1.2, 1.5, 2.0)
        for luck in (0.04, 0.12, 0.2)
    },
    **{
        f"true {speedup}, luck 0.03, hour 0.06": Case(
            candidate=Side(1 / speedup), luck=_luck(0.03), hour=0.06, is_virtual=True
        )
        for speedup in (1.1, 1.2, 1.5)
    },
    "true 1.2, bursts of 1 s, x3": Case(candidate=Side(1 / 1.2), neighbour=Neighbour(1.0, 2.0, 3.0)),
    "true 1.1, neighbour x1.4, candidate x1.1": Case(
        candidate=Side(1 / 1.1), neighbour=Neighbour(30.0, 30.0, 1.4, 1.1), seen=False
    ),
}
_SYSTEM = {
    f"{name}, hour {hour}": Case(
        Side(system=system),
        Side(step, system=left),
        luck=_luck(0.03),
        hour=hour,
        is_virtual=True,
        seen=seen,
        spares_system=True,
    )
    for name, system, step, left, seen in (
        ("null, the system does as much", 0.3, 1.0, 0.3, True),
        ("null, its thread waits for others instead", 0.3, 1.0, 0.01, False),
        ("true 1.1 by the system", 0.1, 1 / 1.1, 0.01, True),
        ("true 1.25 by the system", 0.21, 1 / 1.25, 0.01, True),
    )
    for hour in (0.04, 0.06, 0.08)
}

CASES: dict[str, Case] = {**_NULL, **_SETTLES, **_STALLS, **_TRUE, **_SYSTEM}
"""Name -> what is simulated; lengths in steps of the baseline's usual length."""
