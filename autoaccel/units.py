"""Read and write durations, shares, sizes, counts and lists of CPUs the way people type them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from autoaccel.errors import BadRequestError

MAX_SECONDS = 1e18
"""Of any record: the age of the universe, twice. Sums and shares of it are finite."""

MAX_WAIT_SECONDS = 1e9
"""Of what somebody types, 30 years: Python waits for no more than 2^63 nanoseconds, which are 292."""

MAX_SEED = 2**32 - 1
"""The largest that NumPy takes, whose generator is seeded beside torch's and Python's own."""

_SECONDS_PER = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|[smhd])")


_MAX_DURATION_TEXT = 100  # characters: the expression tries each part of a row of digits


def parse_duration(text: str) -> float:
    """Return seconds for a text such as `90`, `90s`, `10m` or `1h30m`; a bare number is seconds.

    Raises:
        BadRequestError: If the text is no duration, or not above zero.
    """
    compact = text.strip().lower() if len(text) <= _MAX_DURATION_TEXT else ""
    parts = _DURATION_PART.findall(compact)
    if parts and not _DURATION_PART.sub("", compact).strip():
        seconds = sum(float(amount) * _SECONDS_PER[unit] for amount, unit in parts)
    else:
        try:
            seconds = float(compact)
        except ValueError:
            seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise BadRequestError(f"a duration must be a time above zero such as 90s, 10m or 1h30m, got {excerpt(text)!r}.")
    if seconds > MAX_WAIT_SECONDS:
        raise BadRequestError(f"a duration must be at most {MAX_WAIT_SECONDS:.0f}s, 30 years, got {excerpt(text)}.")
    return seconds


def parse_digits(text: str, max_digits: int) -> int | None:
    """Return the whole number, 0 or above, that a text of digits is; None if it is none, or longer than meant."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= max_digits else None


def check_range(option: str, number: float, least: float, most: float, reason: str = "") -> None:
    """Refuse a number that an option cannot have; both ends are included.

    Args:
        option: As it is typed.
        number: That was typed.
        least: It may be.
        most: It may be.
        reason: Why no less, if that needs a word.

    Raises:
        BadRequestError: Naming the option, what must hold and what was found.
    """
    because = f", {reason}" if reason else ""
    if not number >= least:
        raise BadRequestError(f"{option} must be at least {least:.16g}{because}, got {excerpt(number)}.")
    if not number <= most:
        raise BadRequestError(f"{option} must be at most {most:.16g}, got {excerpt(number)}.")


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


_MAX_DROP = 1e100  # in the metric's own unit, whatever that is


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
    if not 0 <= amount <= _MAX_DROP:
        raise BadRequestError(
            f"--max-drop must be a share of the metric such as 0.5%, or an amount such as 0.005, got {excerpt(text)!r}."
        )
    return amount, relative


_SHOWN_CHARACTERS = 60


def excerpt(found: object, max_characters: int = _SHOWN_CHARACTERS) -> str:
    """Return what was found as an error shows it: in one line, of no more than is needed, with nothing to obey in it.

    A text that is short and printable is shown as it is; in any other, what a terminal would obey is escaped.
    """
    try:
        text = found if isinstance(found, str) and found.isprintable() else repr(found)
    except (ValueError, RecursionError):  # a number of more digits, or lists in more lists, than Python writes
        return f"{type(found).__name__} that is too long to show"
    return text if len(text) <= max_characters else f"{text[:max_characters]}... ({len(text):,} characters)"


MAX_CPUS = 8192
"""CPUs of a computer: the most that Linux is built for (CONFIG_MAXSMP)."""

_MAX_NUMBERS_TEXT = 6 * MAX_CPUS  # characters, of which each number takes four and a comma


def parse_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in a list as Linux writes it, ascending: `0-2,5` is 0, 1, 2, 5 (both ends are included).

    Raises:
        ValueError: If it is no such list, or names a number that no CPU or memory node has.
    """
    if len(text) > _MAX_NUMBERS_TEXT:
        raise ValueError(f"a list of CPUs has at most {_MAX_NUMBERS_TEXT:,} characters, got {len(text):,}")
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        named = range(_cpu_number(first), _cpu_number(last if dash else first) + 1)
        if not numbers.isdisjoint(named):  # as Linux never writes it; and thousands of parts would each name all
            raise ValueError(f"a list of CPUs names each once, got {excerpt(text)}")
        numbers.update(named)
    return tuple(sorted(numbers))


def _cpu_number(text: str) -> int:
    number = parse_digits(text, 5)
    if number is None or number >= MAX_CPUS:
        raise ValueError(f"a CPU has a number from 0 to {MAX_CPUS - 1}, got {excerpt(text)}")
    return number
