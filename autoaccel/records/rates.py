"""Rates: what this machine can do at most, as measured here."""

from __future__ import annotations

import msgspec

from autoaccel.records.base import Record


class Rates(Record, frozen=True):
    """Highest rates that were measured on the device that trains, with the user's own number of threads.

    A missing dtype cannot be used here. Floating-point operations: a multiplication and an addition count as two.
    """

    device: str
    threads: int
    matmul: dict[str, float]  # dtype -> floating-point operations per second
    convolution: dict[str, float]  # channels last
    memory_bytes_per_second: float  # read and written, copying arrays too large for the caches
    array_bytes: int  # of each of these arrays
    pageable_bytes_per_second: float | None = None  # from the host to the device
    pinned_bytes_per_second: float | None = None
    all_reduce_bytes_per_second: float | None = None  # of a vector that all processes add up
    measured_seconds: float = 0.0
    channels_first: float | None = None  # of float32 convolutions that get images channel by channel

    def best(self, dtype: str) -> float | None:
        """Return the higher of the two rates for a dtype; None if neither is known."""
        return max((rate for kind in (self.matmul, self.convolution) if (rate := kind.get(dtype))), default=None)


class Roofline(Record, frozen=True):
    """What a step attains and could attain (Williams, Waterman and Patterson, CACM 52(4), 2009)."""

    flops: int  # of a step
    intensity: float  # floating-point operations per byte moved
    achieved: float  # floating-point operations per second
    attainable: float  # with its dtype and the bytes that its operators move
    step_seconds_at_least: float  # with the fastest dtype, if nothing but what must be is moved
    max_speedup: float = msgspec.field(name="most_speedup")
    limited_by: str  # "compute" or "memory": what the attainable rate is limited by


class Ceilings(Record, frozen=True):
    """What this machine can do at most, and what follows for the step."""

    rates: Rates
    roofline: Roofline | None  # None where the step's floating-point operations could not be counted
