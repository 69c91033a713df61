"""Start a launcher's command, pass on its exit code, and end all of it when interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

import psutil

_POLITE_SECONDS = 10.0  # for a launcher to end its ranks, after SIGTERM


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command whose output is shown; return its exit code, 128 + the number if a signal ended it.

    Interrupted, everything that descends from it is gone before this returns.
    """
    # A session of its own: Ctrl-C reaches us alone, and we end the job in order.
    # Not in a `with` block, which waits for its end whatever it takes.
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait()
    except BaseException:
        _end(process)
        raise
    return status if status >= 0 else 128 - status


def ask(command: Sequence[str], text: str = "") -> tuple[int, str, str]:
    """Return a command's exit code, and what it wrote to stdout and stderr; the text is what it reads."""
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Waiting:
    """An sbatch that waits for the job it submitted. Leaving the `with` block ends the waiting, not the job."""

    def __init__(self, command: Sequence[str], script: str) -> None:
        """Submit the script.

        Args:
            command: `sbatch --parsable --wait`.
            script: What it reads.
        """
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(script)
        self._process.stdin.close()
        self.job = self._process.stdout.readline().strip()  # the first it writes, long before the job ends

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *exception: object) -> None:
        _end(self._process)

    def wait(self) -> int:
        """Return the job's exit code, when it has ended."""
        return self._process.wait()


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a command and all that descends from it: politely first, because a launcher then ends its ranks itself."""
    descendants = []
    with contextlib.suppress(psutil.NoSuchProcess):
        # torchrun's ranks are in sessions of their own: killing its group would miss them.
        descendants = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_POLITE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_POLITE_SECONDS)
    for one in descendants:
        if one.is_running():
            one.kill()
    psutil.wait_procs(descendants, timeout=_POLITE_SECONDS)
