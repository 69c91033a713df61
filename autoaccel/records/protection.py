"""Protection: how the user's files are kept from what a trial of a script writes."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record

ProtectionKind = Literal["overlay", "links", "none"]
"""Overlay: a trial sees all files as they are, and what it writes goes with it. Links: it works in a copy of its
working folder, in which large files are links. None: it works in the folder itself."""


class Protection(Record, frozen=True):
    """How the user's files are kept from what a trial of a script writes."""

    kind: ProtectionKind
    guarded: str = ""  # folder in which the kernel forbids writing to what is neither covered nor copied; empty: none
    reason: str = ""  # why there is no overlay
    uncovered: dict[str, str] = {}  # folder that no overlay covers -> why
