"""Read the small text files in which a Linux kernel tells about the computer."""

from __future__ import annotations

from pathlib import Path

from autoaccel.units import parse_numbers


def read_text(path: Path) -> str | None:
    """Return the text of a file without surrounding white space, or None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        # Which of these files exist depends on the kernel, the container and the rights: no file, no fact.
        return None


def read_integer(path: Path) -> int | None:
    """Return the number (0 and up) that a file holds, or None if it cannot be read or holds something else."""
    text = read_text(path)
    return int(text) if text is not None and text.isdecimal() else None


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the numbers in a kernel's CPU list, ascending: `0-2,5` is 0, 1, 2, 5 (both ends are included).

    Raises:
        ValueError: If it is no such list.
    """
    return parse_numbers(text) if text.strip() else ()


def read_cpu_list(path: Path) -> tuple[int, ...]:
    """Return the numbers in a file that holds a CPU list, ascending; none if it cannot be read."""
    return parse_cpu_list(read_text(path) or "")


def read_fields(text: str) -> dict[str, str]:
    """Return the `name : value` lines of a text such as a block of /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    return fields
