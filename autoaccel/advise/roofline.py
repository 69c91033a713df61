"""What a step attains on this machine, and what it could attain at most."""

from __future__ import annotations

from autoaccel.records.conditions import TrainingConditions
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Profile
from autoaccel.records.rates import Rates, Roofline


def roofline(
    profile: Profile, machine: Machine, rates: Rates, conditions: TrainingConditions | None
) -> Roofline | None:
    """Return the roofline of a step (Williams, Waterman and Patterson, CACM 52(4), 2009); None without its numbers.

    Attainable is the lower of the dtype's measured rate and of what memory delivers to the operators as they are. The
    shortest step has the fastest dtype, and moves nothing but what must be; that counts only as far as it is more than
    the caches hold, which are faster than the memory.
    """
    flops = sum(profile.flops.values())
    if not flops or not profile.moved_bytes or profile.min_bytes is None:
        return None
    peak = rates.best(_dtype(conditions))
    fastest = max((*rates.matmul.values(), *rates.convolution.values()), default=None)
    if peak is None or fastest is None:
        return None
    bandwidth = rates.memory_bytes_per_second
    intensity = flops / profile.moved_bytes
    on_gpu = rates.device != "cpu"
    must_move = profile.min_bytes if on_gpu else max(0, profile.min_bytes - machine.cpu.cache_bytes)
    shortest = max(flops / fastest, must_move / bandwidth)
    return Roofline(
        flops=flops,
        intensity=intensity,
        achieved=flops / profile.step_seconds,
        attainable=min(peak, intensity * bandwidth),
        step_seconds_at_least=shortest,
        max_speedup=max(1.0, profile.step_seconds / shortest),
        limited_by="compute" if peak <= intensity * bandwidth else "memory",
    )


def _dtype(conditions: TrainingConditions | None) -> str:
    """Return the dtype of most parameters; that of the computation under autocast is not recorded."""
    dtypes = conditions.model.dtypes if conditions else {}
    return max(dtypes, key=dtypes.__getitem__, default="float32")
