"""Numbers and texts as records hold them: finite, and no larger than what is meant could ever be.

Checked where a record is read, not where it is made. What is beyond these bounds was not written by autoaccel, and
would be met by arithmetic that overflows, divides by zero, or takes years.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from autoaccel.units import MAX_CPUS, MAX_SECONDS

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
SignedSeconds: TypeAlias = Annotated[float, Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]
PositiveSeconds: TypeAlias = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
"""Of a step, or of more: what took no time at all was not measured, and a rate would divide by it."""

Speedup: TypeAlias = Annotated[float, Meta(ge=1e-9, le=1e9)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e200, le=1e200)]
"""Of the user's own, such as a metric: its square, and a sum over runs, are finite."""

NotNegative: TypeAlias = Annotated[float, Meta(ge=0, le=1e200)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
"""Of steps, bytes, samples: what a float holds exactly, too."""

Cores: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_CPUS)]
CpuNumber: TypeAlias = Annotated[int, Meta(ge=0, lt=MAX_CPUS)]
Core: TypeAlias = Annotated[tuple[CpuNumber, ...], Meta(min_length=1)]
"""The logical CPUs of one core."""

Sentence: TypeAlias = Annotated[str, Meta(max_length=4096)]
