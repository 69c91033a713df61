"""A script's whole run under settings: this process is the script's own, its streams, signals and exit code included.

Imports no torch: the script imports it when it likes.
"""

from __future__ import annotations

import os
import sys

from autoaccel.records.base import decode
from autoaccel.records.messages import WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.runtime.script.entry import enter
from autoaccel.runtime.script.entry import main as run
from autoaccel.runtime.script.torch_import import when_torch_is_imported
from autoaccel.runtime.vision import watch_for_torchvision


def main() -> None:
    """Run the script of the spec that waits at the descriptor that is the first argument."""
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        spec = decode(pipe.read(), WorkerSpec)
    script = spec.workload
    assert isinstance(script, Script)
    enter(script.imports_from, script.program, script.arguments)
    watch_for_torchvision()
    when_torch_is_imported(lambda: _attach(spec))
    run(script.path, script.module)


def _attach(spec: WorkerSpec) -> None:
    from autoaccel.runtime.script.whole_run import apply_to_run

    apply_to_run(spec)
