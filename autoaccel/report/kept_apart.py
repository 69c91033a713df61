"""How the user's files are kept from what trials of a script write, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autoaccel.records.protection import Protection

_MAX_PATHS = 5


def protection_words(protection: Protection) -> list[str]:
    """Return what a person must know of it before the first trial; nothing where all is kept apart."""
    guarded, others = protection.guarded, ", ".join(sorted(protection.uncovered))
    if protection.kind == "none":
        return ["Trials work in your own folder: what they write stays, and later ones find it."]
    if protection.kind == "overlay":
        if not others:
            return []
        what = "Trials cannot write there." if guarded else "What trials write there stays."
        return [f"What lies in {others} cannot be covered by an overlay. {what}"]
    words = f"Trials work in a copy of your folder, in which large files are links: {protection.reason}."
    if guarded:
        words += (
            f" The kernel refuses to let them write to any of your files in {guarded}, but lets them change modes, "
            "owners and times."
        )
    else:
        words += " Nothing keeps libraries and programs from writing through these links."
    return [f"{words} To have them work in your own folder instead: --in-place."]


def written_words(paths: Sequence[Path], folder: Path) -> list[str]:
    """Return what trials have written or removed that is not kept; nothing if that is nothing.

    Args:
        paths: All of it.
        folder: In which the script works.
    """
    if not paths:
        return []
    names = [str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path) for path in paths]
    more = f" and {len(names) - _MAX_PATHS} more" if len(names) > _MAX_PATHS else ""
    return [f"Trials wrote or removed {', '.join(names[:_MAX_PATHS])}{more}. Your own files are as they were."]
