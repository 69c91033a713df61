"""The port to the training of a user, where its processes are started: a function's are ours, a script is its own.

`processes_of` alone asks which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from autoaccel.records.messages import Failure, KeepPromise, WorkerSpec
from autoaccel.records.protection import Protection
from autoaccel.records.seen import seen_of
from autoaccel.records.workload import Script, Workload
from autoaccel.space.knobs import arguments_with
from autoaccel.space.knobs.arguments import check_declared
from autoaccel.workers.becoming import SCRIPT, become
from autoaccel.workers.trackers import libraries_apart, trackers_offline
from autoaccel.workers.views.views import View, Views
from autoaccel.workers.worker import Worker

WholeRun = tuple[WorkerSpec, dict[str, str]]
"""What a program is to train from its first line to its last, and all variables that it gets."""

TUNED_SCRIPT, TUNED_FUNCTION = "live.running", "live.building"
"""The modules whose main() trains to the end, and tunes meanwhile."""
WATCHED_SCRIPT = "live.keeping"
"""The same of a script that trains with a recipe, whose promise is watched."""


class FunctionProcesses:
    """Processes that call a function, or none of the user's code: whoever has written build() knows of us."""

    starts_anew: bool = False
    """Whether each must be a new program, even where forking one costs less."""
    protection: Protection | None = None
    """How the user's files are kept from what trials write; None where nobody has to be told of that."""

    def prepared(self, spec: WorkerSpec) -> tuple[WorkerSpec, View | None]:
        """Return what a worker is told, and its view of the user's files; None: it sees them as they are."""
        return spec, None

    def variables(self, spec: WorkerSpec, environment: Mapping[str, str], temporary: Path) -> dict[str, str]:
        """Return the variables that a trial needs besides those of its environment.

        Args:
            spec: What it is told.
            environment: All variables that it would have.
            temporary: Its folder for temporary files.
        """
        return {}

    def give(self, worker: Worker, view: View | None) -> None:
        """The view is this worker's."""

    def become(self, whole_run: Callable[[], WholeRun]) -> None:
        """Replace this process by the program that trains, if the user's training is one; else return.

        Args:
            whole_run: Returns what that program is told.
        """

    def become_tuned(self, whole_run: WholeRun) -> NoReturn:
        """Replace this process by one that trains, and is tuned meanwhile."""
        become(*whole_run, TUNED_FUNCTION)

    def has_learned(self, failure: Failure) -> bool:
        """Whether a trial was refused to write to the user's files, and the next would not be; see `Views.learn`."""
        return False

    def explained(self, failure: Failure) -> Failure:
        """Return a failure that says what to do if the trial was refused to write to a file."""
        return failure

    def written(self) -> list[Path]:
        """Return what trials have written that is not kept, or removed; of a new folder nothing within it."""
        return []

    def folders(self) -> list[Path]:
        """Return the folders that keep what trials write."""
        return []

    def close(self) -> None:
        """Remove what trials have written."""


class ScriptProcesses(FunctionProcesses):
    """Processes that run a script, which has never heard of us and works on the user's files."""

    starts_anew = True  # it may set variables before it imports torch, and import other modules first

    def __init__(self, script: Script, kept: Sequence[Path] | None) -> None:
        """Find out how the user's files can be kept apart.

        Args:
            script: What is run.
            kept: Folders of ours, which all trials share; None: they work on the user's files, not on a view of them.
        """
        self._script = script
        self._views = Views(script, tuple(kept)) if kept is not None else None
        self.protection = self._views.protection if self._views is not None else Protection("none")

    def prepared(self, spec: WorkerSpec) -> tuple[WorkerSpec, View | None]:
        """Return it with the arguments that its settings say, and a new view.

        Raises:
            BadRequestError: If they say one that nobody has asked for.
        """
        check_declared(spec.settings, seen_of(spec.script).arguments)
        script = msgspec.structs.replace(self._script, arguments=arguments_with(self._script.arguments, spec.settings))
        spec = msgspec.structs.replace(spec, workload=script)
        if self._views is None:
            return spec, None
        view = self._views.new()
        scratch = str(view.scratch) if view.scratch else None
        return msgspec.structs.replace(spec, scratch=scratch, covered=scratch is None), view

    def variables(self, spec: WorkerSpec, environment: Mapping[str, str], temporary: Path) -> dict[str, str]:
        """Return those by which trackers reach no server, and what libraries write is the trial's own."""
        offline = trackers_offline(environment, self._script.folder)
        return {**offline, **libraries_apart({**environment, **offline}, temporary, spec.covered)}

    def give(self, worker: Worker, view: View | None) -> None:
        """The view is this worker's; what was written to it is removed some time after the worker was closed."""
        if self._views is not None and view is not None:
            self._views.give(worker, view)

    def become(self, whole_run: Callable[[], WholeRun]) -> NoReturn:
        """Replace this process by the script: streams, signals and exit code are its own."""
        spec, environment = whole_run()
        become(spec, environment, WATCHED_SCRIPT if isinstance(spec.task, KeepPromise) else SCRIPT)

    def become_tuned(self, whole_run: WholeRun) -> NoReturn:
        """Replace this process by the script, tuned while it trains."""
        become(*whole_run, TUNED_SCRIPT)

    def has_learned(self, failure: Failure) -> bool:
        """Whether the next trial has a copy of what this one was refused to write to."""
        return self._views is not None and self._views.learn(failure)

    def explained(self, failure: Failure) -> Failure:
        """Return it with a hint at --in-place if that would help."""
        return failure if self._views is None else self._views.explained(failure)

    def written(self) -> list[Path]:
        """Return what they have written to their views, or removed."""
        return self._views.written() if self._views is not None else []

    def folders(self) -> list[Path]:
        """Return where the views lie."""
        return self._views.folders() if self._views is not None else []

    def close(self) -> None:
        """Remove the views."""
        if self._views is not None:
            self._views.close()


OUR_PROCESSES = FunctionProcesses()


def processes_of(workload: Workload | None, kept: Sequence[Path] | None = None) -> FunctionProcesses:
    """Return how processes of a workload are started; None: no task is about one. See `ScriptProcesses`."""
    return ScriptProcesses(workload, kept) if isinstance(workload, Script) else OUR_PROCESSES
