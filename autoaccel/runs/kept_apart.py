"""Tell how the user's files are kept from what trials of a script write, and what they have written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autoaccel.records.progress import Event, Note
from autoaccel.report.kept_apart import protection_words, written_words
from autoaccel.workers.starter import WorkerStarter


def tell_protection(starter: WorkerStarter, tell: Callable[[Event], None]) -> None:
    """Tell what a person must know before the first trial of a script; nothing where all is kept apart."""
    for words in protection_words(starter.protection) if starter.protection else []:
        tell(Note(words))


def tell_written(starter: WorkerStarter, tell: Callable[[Event], None]) -> None:
    """Tell what trials of a script have written or removed that is not kept."""
    for words in written_words(starter.written, Path(starter.workload.folder)) if starter.workload else []:
        tell(Note(words))
