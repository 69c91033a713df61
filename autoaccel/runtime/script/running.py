"""A script's whole run under settings: this process is the script's own, its streams, signals and exit code included.

Imports no torch: the script imports it when it likes.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable

from autoaccel.records.base import decode
from autoaccel.records.messages import WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.runtime.script.entry import enter
from autoaccel.runtime.script.entry import main as run
from autoaccel.runtime.script.torch_import import when_torch_is_imported
from autoaccel.runtime.vision import watch_for_torchvision
from autoaccel.text import one_line, say


def entered() -> tuple[WorkerSpec, Script]:
    """Return the spec that waits at the descriptor that is the first argument, and its script, which is to be run."""
    with os.fdopen(int(sys.argv[1]), "rb") as pipe:
        spec = decode(pipe.read(), WorkerSpec)
    script = spec.workload
    assert isinstance(script, Script)
    enter(script.imports_from, script.program, script.arguments)
    watch_for_torchvision()
    return spec, script


def main(attach: Callable[[WorkerSpec], Callable[[], bool]] | None = None) -> None:
    """Run the script that waits, under the settings of its spec.

    Args:
        attach: Applies them once torch was imported, and returns what tells whether an update was heard since; None: as
            `apply_to_run` does.
    """
    spec, script = entered()
    heard: list[Callable[[], bool]] = []  # once torch is there: whether an update was
    when_torch_is_imported(lambda: heard.append((attach or _attach)(spec)))
    process = os.getpid()
    try:
        run(script.path, script.module)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        has_trained = any(has_heard() for has_heard in heard)
        if os.getpid() == process and has_trained:
            tell_effects(script.program)
    if os.getpid() == process and not has_trained:
        say(f"autoaccel: {script.program}: {_UNHEARD}", to_stderr=True)
        sys.exit(2)


_UNHEARD = (
    "the recipe took no effect on a training: this program ended without an update of an optimizer of torch.optim in "
    "its own process. If processes that it starts train, start it with torchrun; else run it without the recipe."
)


def tell_effects(program: str) -> None:
    """Tell at the end of a training which settings took effect in it and which did not, unless all did.

    Args:
        program: What was run, as a person typed it.
    """
    from autoaccel.runtime.script.install import effects_at_end

    took, not_taken = effects_at_end()
    if not_taken:
        did = f"{', '.join(took)} took effect" if took else "nothing of the recipe took effect"
        did_not = "; ".join(f"{name} did not ({reason})" for name, reason in not_taken.items())
        say(one_line(f"autoaccel: {program}: {did}; {did_not}"), to_stderr=True)


def launched(spec: WorkerSpec) -> None:
    """Train under the settings of a spec in this process, which the script's launcher has started."""
    when_torch_is_imported(lambda: _attach_launched(spec))


def _attach_launched(spec: WorkerSpec) -> None:
    _attach(spec)
    if leads():
        # The launcher's own file is the workload's; a person knows the one that this process runs.
        at_its_end(lambda: tell_effects(sys.argv[0]))


def leads() -> bool:
    """Whether this process is the one that tells, of those that a launcher has started: rank 0."""
    return os.environ.get("RANK", "0") == "0"


def at_its_end(call: Callable[[], None]) -> None:
    """Make a call when this process ends; not at the end of one that the script has forked."""
    process = os.getpid()
    atexit.register(lambda: call() if os.getpid() == process else None)


def _attach(spec: WorkerSpec) -> Callable[[], bool]:
    from autoaccel.runtime.script.whole_run import apply_to_run

    return apply_to_run(spec)
