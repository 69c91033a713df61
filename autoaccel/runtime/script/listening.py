"""Listen to what a script prints, and look at a file that it writes, for numbers. Imports no torch."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoaccel.errors import BadRequestError
from autoaccel.records.files import read_text

_ENDS = re.compile(r"[\r\n]+")
_MAX_FILE_BYTES = 64 << 20  # of a metric in each of a million steps
_MAX_LINE = 10_000  # characters of a line that has no end


def listen_to_output(pattern: re.Pattern[str], hear: Callable[[float], None]) -> None:
    """Hear the first match of each line that this process prints from now on; what it prints stays as it is.

    Not heard are programs that it starts, processes that it forks, and what is written past Python's own streams.
    """
    process = os.getpid()
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            lines = Lines(pattern, hear)
            stream.write = _heard(stream.write, lines, process)  # type: ignore[method-assign]  # replaced for as long as this process lives


def _heard(own: Callable[[str], int], lines: Lines, process: int) -> Callable[[str], int]:
    def write(text: str) -> int:
        if isinstance(text, str) and os.getpid() == process:
            lines.add(text)
        return own(text)

    return write


class Lines:
    """Puts together what is printed piece by piece."""

    def __init__(self, pattern: re.Pattern[str], hear: Callable[[float], None]) -> None:
        self._pattern = pattern
        self._hear = hear
        self._rest = ""
        self._heard = ""  # in the line that has no end yet

    def add(self, text: str) -> None:
        """Take in a piece. A line is searched as it grows: the end of one may be printed much later."""
        *whole, rest = _ENDS.split(self._rest + text)
        for line in whole:
            self._search(line)
            self._heard = ""
        self._rest = rest[-_MAX_LINE:]
        self._search(self._rest)

    def _search(self, line: str) -> None:
        found = self._pattern.search(line)
        if found is None or found[1] is None or found[1] == self._heard:
            return
        self._heard = found[1]
        if (value := _number(found[1])) is not None:
            self._hear(value)


def _number(text: str) -> float | None:
    """Return what a group of digits says, also at the end of a sentence."""
    try:
        return float(text.strip().rstrip(".,;%"))
    except ValueError:
        return None


class WatchedFile:
    """A JSON file that a script writes, or one of JSON lines."""

    def __init__(self, path: Path, key: str, hear: Callable[[float], None]) -> None:
        """Begin with what is there: a number of an earlier run does not count."""
        self._path = path
        self._key = key
        self._hear = hear
        self._seen = self._signature()

    def look(self) -> None:
        """Hear the number if the file has changed."""
        signature = self._signature()
        if signature is None or signature == self._seen:
            return
        try:
            value = find_number(read_text(self._path, "a metric", _MAX_FILE_BYTES), self._key)
        except (BadRequestError, ValueError):
            return  # half written
        self._seen = signature
        if value is not None:
            self._hear(value)

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def find_number(text: str, key: str) -> float | None:
    """Return the number under a key in JSON, of a list or of lines of JSON in the last element; None if there is none.

    Args:
        text: Of the file.
        key: Of an object; of nested ones the keys with dots between them.

    Raises:
        ValueError: If it is not JSON.
    """
    try:
        found: Any = _loaded(text)
    except ValueError:
        found = _loaded([line for line in text.splitlines() if line.strip()][-1] if text.strip() else "")
    for part in [key] if isinstance(found, dict) and key in found else key.split("."):
        found = found[-1] if isinstance(found, list) and found else found
        found = found.get(part) if isinstance(found, dict) else None
    found = found[-1] if isinstance(found, list) and found else found
    try:
        return float(found) if isinstance(found, (int, float)) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
