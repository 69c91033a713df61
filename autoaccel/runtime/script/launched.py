"""What a process does that a script's launcher has started: it is heard, and trains under the settings.

Imports no torch: the script imports it when it likes.
"""

from __future__ import annotations

import atexit
import importlib
import os
import socket
import sys
from functools import partial
from types import TracebackType

from autoaccel.records.base import decode
from autoaccel.records.launching import COUNTED, LAUNCHED, LAUNCHER, OWN_PATH, PATH, Launched
from autoaccel.records.messages import Describe, Failure, Measure, WorkerSpec
from autoaccel.runtime.script.children import count_updates
from autoaccel.runtime.script.private_copies import copy_before_writing
from autoaccel.runtime.script.serving import Attached, attach_of, fail
from autoaccel.runtime.script.torch_import import when_torch_is_imported
from autoaccel.runtime.worker import Channel, die_with_parent


def join_training() -> None:
    """Do what the launcher was told for its processes: rank 0 answers the tuner, the others follow it."""
    told = _take_variables()
    if not told:
        return  # somebody of ours was here before: this is a helper of a process that is heard
    launched = decode(told, Launched)
    copy_before_writing(launched.spec.scratch)
    if launched.line is None:
        importlib.import_module(f"autoaccel.{launched.module}").launched(launched.spec)
        return
    die_with_parent(os.getppid())  # which the tuner may have killed with all of its session, but not this one
    if int(os.environ.get("RANK", "0")) == 0:
        _Leader(launched.spec, launched.line)
    else:
        when_torch_is_imported(partial(_follow, launched.spec))


def join_script() -> None:
    """Count the updates of this process, which a script has started itself, for the process that it was started by."""
    path = os.environ.pop(COUNTED)
    _take_variables()
    count_updates(path)


def _take_variables() -> str:
    """Return what this process was told, and put its variables back: what it starts itself is not heard."""
    told = os.environ.pop(LAUNCHED, "")
    os.environ.pop(LAUNCHER, None)
    if own := os.environ.pop(OWN_PATH, ""):
        os.environ[PATH] = own
    else:
        os.environ.pop(PATH, None)
    return told


def _apply(spec: WorkerSpec) -> None:
    from autoaccel.runtime.script.whole_run import apply_to_run

    apply_to_run(spec)


def _follow(spec: WorkerSpec) -> None:
    """Train as rank 0 does: it sets the pace, because all wait for one another wherever gradients meet."""
    if isinstance(spec.task, Describe):
        return
    if isinstance(spec.task, Measure) and spec.task.steps is not None:
        from autoaccel.runtime.script.seeds import shift_seeds

        shift_seeds(spec.task.seed)
    _apply(spec)


class _Leader:
    """Rank 0, which answers the tuner from within the script's calls."""

    def __init__(self, spec: WorkerSpec, path: str) -> None:
        self._spec = spec
        self._path = path
        self._attached: Attached | None = None
        self._line: Channel | None = None
        when_torch_is_imported(self._begin)

    def _begin(self) -> None:
        """Connect, now that this is a process that may train."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        self._line = Channel(connection.detach())
        failed = partial(fail, self._spec, self._line)
        attach = attach_of(self._spec, self._line)
        self._attached = attach(failed)
        show = sys.excepthook

        def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            show(kind, error, trace)
            failed(error)

        sys.excepthook = shown
        atexit.register(self._ended)

    def _ended(self) -> None:
        assert self._attached is not None and self._line is not None
        if self._attached.ended():
            message = "it ended before enough of its steps were seen, and its launcher starts it only once"
            self._line.write(Failure(kind="invalid", message=f"{message}. Give it more epochs: `-- --epochs 100`."))
