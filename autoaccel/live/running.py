"""A script's whole run, tuned while it trains: this process is the script's own, its streams and exit code included.

Imports no torch: the script imports it when it likes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from autoaccel.records.messages import WorkerSpec
from autoaccel.runtime.hosting import host
from autoaccel.runtime.script.entry import main as run
from autoaccel.runtime.script.running import at_its_end, entered, leads
from autoaccel.runtime.script.torch_import import when_torch_is_imported
from autoaccel.text import one_line, say

if TYPE_CHECKING:
    from autoaccel.live.trainings import LiveTraining


def main() -> None:
    """Run the script that waits, and tune it."""
    spec, script = entered()
    live: list[LiveTraining] = []  # once torch is there
    when_torch_is_imported(lambda: live.append(_attach(spec)))
    process = os.getpid()
    try:
        run(script.path, script.module)
    finally:
        if os.getpid() == process and live:
            _say(live[0].summary())


def launched(spec: WorkerSpec) -> None:
    """Tune what this process trains, which the script's launcher has started."""
    host()
    when_torch_is_imported(lambda: _attach_launched(spec))


def _attach_launched(spec: WorkerSpec) -> None:
    live = _attach(spec)
    at_its_end(lambda: _say(live.summary()))


def _attach(spec: WorkerSpec) -> LiveTraining:
    from autoaccel.live.trainings import LiveTraining

    return LiveTraining(spec, _say)


def _say(line: str) -> None:
    if line and leads():
        say(one_line(f"autoaccel: {line}"), to_stderr=True)
