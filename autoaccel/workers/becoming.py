"""Become a script: this process is replaced by the script's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from autoaccel.records.base import encode
from autoaccel.records.launching import Launched
from autoaccel.records.messages import WorkerSpec
from autoaccel.workers.forking import START
from autoaccel.workers.launchers import command, variables

SCRIPT = "runtime.script.running"
"""The module whose main() runs a script under the settings of its spec."""


def become(spec: WorkerSpec, environment: Mapping[str, str], module: str = SCRIPT) -> NoReturn:
    """Replace this process by one that trains what the spec names, as Python itself would run it.

    Whoever has started this process, a terminal or a launcher, then has to do with that alone.

    Args:
        spec: What to run.
        environment: All variables it gets.
        module: Of ours, whose main() runs it; its launched(), in each process that a launcher starts.
    """
    if spec.workload is not None and spec.workload.stdin:
        with Path(spec.workload.stdin).open("rb") as file:
            os.dup2(file.fileno(), 0)
    if (launcher := spec.launcher) is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, command(launcher), variables(Launched(spec, module=module), environment))
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(encode(spec))  # less than the 64 KiB that a pipe holds before anybody reads
    sys.stdout.flush()
    sys.stderr.flush()
    start = START.format(module=module)
    os.execve(sys.executable, [sys.executable, "-c", start, str(reading)], dict(environment))
