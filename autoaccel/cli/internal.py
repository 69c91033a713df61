"""Tell of a failure of autoaccel's own: one sentence for the person, the traceback in a file."""

from __future__ import annotations

import os
from pathlib import Path

from autoaccel import __version__

EXIT_INTERNAL = 4

_LOG = "internal-error.log"


def internal_failure_words(error: Exception, folder: Path | None) -> str:
    """Return what to say of an error that nobody has foreseen; its traceback is in the file that this names.

    Args:
        error: What was raised.
        folder: Of the run that it ended; None: it ended no run.
    """
    import platform
    import traceback

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    words = f"internal failure ({type(error).__name__}): this is a mistake of autoaccel's, not of your training."
    header = f"autoaccel {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n"
    try:
        log = _write(header + text, folder)
    except OSError as unwritten:
        return f"{words} Its traceback could not be written to a file ({unwritten.strerror}):\n{text}"
    return f"{words} Please report it with the traceback, which is in {log}"


def _write(text: str, folder: Path | None) -> Path:
    """Write the log where only this user can read it: a traceback may quote what the person's files say."""
    if folder is not None and folder.is_dir():
        log = folder / _LOG
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    else:
        import tempfile

        descriptor, name = tempfile.mkstemp(prefix="autoaccel-error-", suffix=".log")
        log = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return log
