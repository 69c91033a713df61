"""What a remedy could win at most."""

from __future__ import annotations


def bound_of_share(share: float) -> float:
    """Return the speed-up if a share of the step vanished (Amdahl, 1967), capped at 1000."""
    return 1 / max(1e-3, 1 - share)


OTHERS_SPEEDUP = 3.0
"""By how much other remedies may shorten the rest of the step; what is a hundredth of the step now is then three.
From the benchmark's own workloads: the best joint settings win 1.14 to 2.33-fold on its six tables (CPU, two cores),
and three leaves room above. A GPU that leaves its tensor cores unused, or a training that wastes more, can win more:
then a knob may be closed that would have mattered beside the others. It costs little to raise: fewer knobs are
closed."""


def bound_beside_others(bound_speedup: float, waiting_speedup: float = 1.0) -> float:
    """Return the most that a remedy could win once others have shortened everything else, given what it could alone.

    Args:
        bound_speedup: What it could win alone.
        waiting_speedup: What could be won if no step waited for data, for a remedy that has no part in that. Loader
            workers do not shorten such a wait but remove it: OTHERS_SPEEDUP is that of the rest of the step.
    """
    share = 1 - 1 / bound_speedup
    rest = max(0.0, 1 / waiting_speedup - share)
    return bound_of_share(share / (share + rest / OTHERS_SPEEDUP))
