"""Where the roofs and the step lie in a roofline plot: geometry only, the template draws it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from autoaccel.records.rates import Ceilings
from autoaccel.report.chart import Tick
from autoaccel.units import format_flops

WIDTH, HEIGHT = 480.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 96.0, 116.0, 14.0, 40.0
_ROOM = 4.0  # times what is outermost
_LABEL_DISTANCE = 13.0  # pixels between the names of two roofs


@dataclass(frozen=True)
class Roof:
    """The rate that no program exceeds with one dtype: from where memory no longer limits it, to the right."""

    start_x: float
    y: float
    name: str  # with those of the roofs just below, for which there is no room; theirs are empty


@dataclass(frozen=True)
class RooflinePlot:
    """Floating-point operations per second over those per byte moved, both logarithmic, in pixels from the top left."""

    slope: str  # SVG path of what memory delivers
    roofs: tuple[Roof, ...]
    x: float  # of the step
    achieved_y: float
    attainable_y: float
    left: float
    right: float
    top: float
    bottom: float
    intensities: tuple[Tick, ...]
    rates: tuple[Tick, ...]


def plot_roofline(ceilings: Ceilings | None) -> RooflinePlot | None:
    """Return the plot (Williams, Waterman and Patterson, CACM 52(4), 2009); None without its numbers."""
    if ceilings is None or ceilings.roofline is None:
        return None
    line, bandwidth = ceilings.roofline, ceilings.rates.memory_bytes_per_second
    dtypes = {*ceilings.rates.matmul, *ceilings.rates.convolution}
    peaks = {dtype: peak for dtype in dtypes if (peak := ceilings.rates.best(dtype))}
    ridges = [peak / bandwidth for peak in peaks.values()]
    x_of = _scale(min(line.intensity, *ridges) / _ROOM, max(line.intensity, *ridges) * _ROOM, _LEFT, WIDTH - _RIGHT)
    lowest = min(line.achieved, line.attainable, *peaks.values()) / _ROOM
    highest = max(*peaks.values(), line.attainable, line.achieved) * 1.5
    y_of = _scale(lowest, highest, HEIGHT - _BOTTOM, _TOP)
    # The slope enters at the left edge or at the bottom, whichever comes first.
    start = max(min(line.intensity, *ridges) / _ROOM, lowest / bandwidth)
    end = max(ridges)
    return RooflinePlot(
        slope=f"M{x_of(start)} {y_of(start * bandwidth)}L{x_of(end)} {y_of(end * bandwidth)}",
        roofs=_roofs(peaks, bandwidth, x_of, y_of),
        x=x_of(line.intensity),
        achieved_y=y_of(line.achieved),
        attainable_y=y_of(line.attainable),
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=_TOP,
        bottom=HEIGHT - _BOTTOM,
        intensities=_powers(start, max(line.intensity, end) * _ROOM, x_of, lambda power: f"{power:g}"),
        rates=_powers(lowest, highest, y_of, lambda power: f"{format_flops(power)}/s"),
    )


def _roofs(
    peaks: dict[str, float], bandwidth: float, x_of: Callable[[float], float], y_of: Callable[[float], float]
) -> tuple[Roof, ...]:
    """Return the roofs, the highest first; those whose names would collide have one for all, at the highest."""
    roofs: list[Roof] = []
    named = 0  # the last that has a name
    for dtype, peak in sorted(peaks.items(), key=lambda entry: -entry[1]):
        roof = Roof(x_of(peak / bandwidth), y_of(peak), dtype)
        if roofs and roof.y - roofs[named].y < _LABEL_DISTANCE:
            roofs[named] = replace(roofs[named], name=f"{roofs[named].name}, {dtype}")
            roof = replace(roof, name="")
        else:
            named = len(roofs)
        roofs.append(roof)
    return tuple(roofs)


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the function from numbers to pixels that takes `low` to `start` and `high` to `end`, logarithmically."""
    factor = (end - start) / math.log(high / low)
    return lambda number: round(start + factor * math.log(number / low), 1)


def _powers(low: float, high: float, at: Callable[[float], float], word: Callable[[float], str]) -> tuple[Tick, ...]:
    """Return the powers of ten in a range, ends included."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    return tuple(Tick(at(10.0**power), word(10.0**power)) for power in powers)
