"""Read and write durations, shares, sizes, counts and lists of CPUs the way people type them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from autoaccel.errors import BadRequestError

_SECONDS_PER = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|[smhd])")


def parse_duration(text: str) -> float:
    """Return seconds for a text such as `90`, `90s`, `10m` or `1h30m`; a bare number is seconds.

    Raises:
        BadRequestError: If the text is no duration, or not above zero.
    """
    compact = text.strip().lower()
    parts = _DURATION_PART.findall(compact)
    if parts and not _DURATION_PART.sub("", compact).strip():
        seconds = sum(float(amount) * _SECONDS_PER[unit] for amount, unit in parts)
    else:
        try:
            seconds = float(compact)
        except ValueError:
            seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise BadRequestError(f"a duration must be a time above zero such as 90s, 10m or 1h30m, got {text!r}.")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration in the units that matter: `830 ms`, `12.3 s`, `4 min 05 s`, `2 h 10 min`."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def round_duration(seconds: float) -> str:
    """Return a duration as people type it, at least as long and never more exact than they plan: `90s`, `6m`, `3h`."""
    if seconds <= 120:
        return f"{10 * math.ceil(seconds / 10)}s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes}m" if minutes <= 120 else f"{math.ceil(minutes / 60)}h"


def two_digits(number: float) -> str:
    """Return a number with two significant digits, or all before the point: `0.038`, `1.7`, `42`, `125`."""
    return f"{number:.2g}" if abs(number) < 99.5 else f"{number:.0f}"


def format_bytes(count: float) -> str:
    """Return a size in binary units with three significant digits: `1.41 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def format_flops(count: float) -> str:
    """Return a number of floating-point operations with three significant digits: `4.31 GFLOP`."""
    for unit in ("", "k", "M", "G", "T"):
        if count < 999.5:
            return f"{count:.3g} {unit}FLOP"
        count /= 1000
    return f"{count:.3g} PFLOP"


def format_numbers(numbers: Sequence[int]) -> str:
    """Return ascending numbers as Linux lists CPUs, both ends included: `0-19,40-59`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def format_share(fraction: float) -> str:
    """Return a fraction as percent: `0.123` becomes `12.3 %`."""
    return f"{fraction * 100:.1f} %"


def parse_max_drop(text: str) -> tuple[float, bool]:
    """Return (amount, whether it is a share of the baseline's metric) for `0.5%` or `0.005`.

    Raises:
        BadRequestError: If it is neither, or below zero.
    """
    compact = text.strip()
    relative = compact.endswith("%")
    try:
        amount = float(compact.removesuffix("%")) / (100 if relative else 1)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise BadRequestError(
            f"--max-drop must be a share of the metric such as 0.5%, or an amount such as 0.005, got {text!r}."
        )
    return amount, relative
