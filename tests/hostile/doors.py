"""Give a command something hostile, and hold what must hold then, whatever it was.

It ends soon, in little memory, with one sentence and exit code 2, or with a correct result; it shows no traceback and
nothing that a terminal would obey; and no file is touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from autoaccel.cli import main

MAX_SECONDS = 5.0  # of processor time: a clock would say more of what else the machine is doing
MAX_BYTES = 300 << 20
_STUCK_SECONDS = 120.0


class Shown(NamedTuple):
    """What a command left."""

    code: int
    stdout: str
    stderr: str


def give(arguments: Sequence[str | Path], folder: Path) -> Shown:
    """Return what a command shows in this process, after all that must hold of any was checked.

    Args:
        arguments: Of the command.
        folder: That it runs in, with all that it may find there.
    """
    out, err = io.StringIO(), io.StringIO()
    before, seconds, peak = _tree(folder), time.process_time(), _peak_bytes(resource.RUSAGE_SELF)
    with _restored(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:  # argparse's
            code = error.code if isinstance(error.code, int) else 1
    assert time.process_time() - seconds < MAX_SECONDS
    assert _peak_bytes(resource.RUSAGE_SELF) - peak < MAX_BYTES
    return _checked(Shown(code, out.getvalue(), err.getvalue()), before, folder)


def give_alone(arguments: Sequence[str | Path], folder: Path) -> Shown:
    """Return what a command shows in a process of its own, as a user runs it; checked as `give` does."""
    before = _tree(folder)
    command = [sys.executable, "-c", _LIMITED, *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            shown = process.communicate(timeout=_STUCK_SECONDS)
        finally:
            process.kill()
    return _checked(Shown(process.returncode, *shown), before, folder)


_INTERPRETER_BYTES = 100 << 20
# Limits, for what the largest child took would count what this process had when it was forked.
_LIMITED = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_DATA, ({MAX_BYTES + _INTERPRETER_BYTES},) * 2)
resource.setrlimit(resource.RLIMIT_CPU, ({int(MAX_SECONDS)},) * 2)
runpy.run_module("autoaccel", run_name="__main__")
"""


def refused(shown: Shown, *words: str) -> str:
    """Return the one sentence of an error, of which these words are a part."""
    assert shown.code == 2, shown
    lines = [line for line in shown.stderr.splitlines() if not line.startswith(("usage:", "  "))]  # argparse's own
    assert len(lines) == 1, shown.stderr
    assert len(lines[0]) < 1000, lines[0]
    for word in words:
        assert word in lines[0], lines[0]
    return lines[0]


def _checked(shown: Shown, before: dict[str, str], folder: Path) -> Shown:
    for text in (shown.stdout, shown.stderr):
        assert "Traceback" not in text, text
        obeyed = {character for character in text if not (character.isprintable() or character in "\n\t")}
        assert not obeyed, repr(text)
    assert _tree(folder) == before
    return shown


def _tree(folder: Path) -> dict[str, str]:
    """Return all that is in a folder, by name: its kind and mode, when it was changed, and what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and status.st_size < 1 << 20 else b""
        digest = hashlib.sha256(data).hexdigest()[:8]
        found[str(path)] = f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns} {digest}"
    return found


def _peak_bytes(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextlib.contextmanager
def _restored(folder: Path) -> Iterator[None]:
    """Run in a folder; put back what a command changes of its process."""
    here, numbers = Path.cwd(), (signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
