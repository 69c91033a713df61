"""WorkerStarter: starts workers with the right environment and log, and knows what is still running."""

from __future__ import annotations

import collections
import copy
import hashlib
import itertools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec

from autoaccel.records.base import Record, check_writable
from autoaccel.records.messages import (
    Describe,
    Described,
    Failure,
    Measure,
    Probe,
    Ready,
    TakeProfile,
    Task,
    WarmUp,
    WorkerSpec,
)
from autoaccel.records.protection import Protection
from autoaccel.records.ranks import LaunchedRank, Placement
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings, Value, settings_key
from autoaccel.records.workload import Workload
from autoaccel.space.knobs import (
    KnobContext,
    compiled_part,
    count_processes,
    default_settings,
    environment_of,
    modules_of,
)
from autoaccel.workers.compile_cache import CACHE_VARIABLE
from autoaccel.workers.ended import Ended
from autoaccel.workers.environment import TEMPORARY_VARIABLE, WORKER_MARK, worker_environment
from autoaccel.workers.fork_servers import ForkServers
from autoaccel.workers.forkserver import ForkFailedError
from autoaccel.workers.group import WorkerGroup
from autoaccel.workers.look_wait import LookWait
from autoaccel.workers.measuring import Measuring, Readiness, Settled, SpentOn, failure_of, repeated_if_interrupted
from autoaccel.workers.overlapping import Overlapping
from autoaccel.workers.processes import OUR_PROCESSES, processes_of
from autoaccel.workers.shares import devices_of_ranks, share_of_rank
from autoaccel.workers.temporary import TemporaryFolder
from autoaccel.workers.worker import Worker

AnswerType = TypeVar("AnswerType", bound=Record)


class UnmeasuredRun(NamedTuple):
    """A training for its own sake: as the user's own runs are, and perhaps started by a launcher."""

    launched_as: LaunchedRank | None = None  # the rank that it is; None: as many ranks are started as settings ask for
    compile_cache: Path | None = None  # where compiled code is kept; None: where the user's own would


class WorkerStarter:
    """Starts workers. Leaving the `with` block kills those that still run."""

    def __init__(
        self,
        folder: Path,
        workload: Workload | None = None,
        unmeasured: UnmeasuredRun | None = None,
        in_place: bool = False,
    ) -> None:
        """Work in a folder that exists: logs go to `logs/`, compiled code to `compiled/`.

        Args:
            folder: The folder.
            workload: What every task but a probe is about.
            unmeasured: How tasks run whose output and compiled code are the user's own. None: tasks are measured: their
                output goes to logs, and settings start without compiled code of their model, as a first run does.
            in_place: Whether a script that is measured works on the user's files, not on a view of them.
        """
        self.workload = workload
        self.spent_on: SpentOn = collections.defaultdict(float)
        """Seconds of the workers that measure, by what they were spent on; all other time was spent waiting."""
        self._context: KnobContext | None = None
        self._defaults: Settings = {}
        self._found: Settings | None = None
        self._script: ScriptFacts | None = None
        self._measures = unmeasured is None
        self._launched_as = unmeasured.launched_as if unmeasured else None
        self._compile_cache = unmeasured.compile_cache if unmeasured else None
        self._rendezvous_numbers = itertools.count(1)
        self._logs = folder / "logs"
        self._compiled = folder / "compiled"
        self._logs.mkdir(exist_ok=True)
        self._temporary = TemporaryFolder() if self._measures else None  # else what is temporary is the user's own
        kept = None if in_place or self._temporary is None else (folder, self._temporary.path)
        self._processes = processes_of(workload, kept)
        # Imports make torch create the folder of its cache, in the system's unless it is told another.
        self._ended = Ended(self._temporary)
        self._servers = ForkServers(self._logs, {CACHE_VARIABLE: str(self._compiled), **self._ended.variables()})
        self._started: list[Worker] = []  # those that were not yet seen closed
        self._settled: dict[str, Settled] = {}  # by a digest of the settings
        self._overlapping = Overlapping()

    def __enter__(self) -> WorkerStarter:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._started:
            worker.close()
        self._processes.close()
        self._servers.close()
        if self._temporary is not None:
            self._temporary.close()

    def at(self, context: KnobContext) -> WorkerStarter:
        """Return a copy of the starter for this context, which knows the variables that carry each setting.

        Where the training is known, its workers leave alone what the training's own code makes of the process. What
        it starts ends with the `with` block of this one.
        """
        placed = copy.copy(self)
        placed._context = context
        placed._defaults = default_settings(context)
        placed._found = context.training.found if context.training is not None else None
        placed._script = context.training.script if context.training is not None else None
        return placed

    @property
    def protection(self) -> Protection | None:
        """How the user's files are kept from what trials of a script write; None where no script is measured."""
        return self._processes.protection if self._measures else None

    @property
    def written(self) -> list[Path]:
        """What trials have written that is not kept, or removed; of a new folder nothing within it."""
        return self._processes.written()

    @property
    def on_accelerator(self) -> bool:
        """Whether the workers train on an accelerator, as far as that is known."""
        return self._context is not None and self._context.device != "cpu"

    def check_room(self) -> None:
        """See that the run's folder and those that keep what trials write have room, now that a worker failed.

        Raises:
            OSError: If one cannot, with its name.
        """
        for folder in (self._logs.parent, *self._processes.folders()):
            check_writable(folder)

    def start(self, task: Task, settings: Mapping[str, Value], name: str, fresh: bool = False) -> Worker | WorkerGroup:
        """Start a worker for a task, or one per rank, in the user's environment plus the variables of its settings.

        Args:
            task: What to do.
            settings: The settings to do it under.
            name: Name of its log.
            fresh: Whether to start a new program, as a user does, even where forking one costs less.
        """
        ranks = count_processes(settings)
        if isinstance(task, Probe):
            return self._start_one(WorkerSpec(task=task, settings=dict(settings)), name, fresh)
        if self._launched_as is not None:
            return self._start_as_rank(task, settings, self._launched_as, name)
        if isinstance(task, TakeProfile) and ranks > 1:
            # One process is profiled: looking into a step makes further steps, on which ranks would have to agree.
            parallel = {name: self._defaults[name] for name in settings if name.startswith("parallel.")}
            return self._start_one(
                WorkerSpec(task=task, workload=self.workload, settings={**settings, **parallel}), name, fresh
            )
        if ranks == 1 or isinstance(task, Describe):
            return self._start_one(WorkerSpec(task=task, workload=self.workload, settings=dict(settings)), name, fresh)
        assert self._context is not None  # only a probe is asked for before that is known
        rendezvous_file = self._logs.absolute() / f"rendezvous-{next(self._rendezvous_numbers)}"
        workers = []
        for rank in range(ranks):
            spec = WorkerSpec(
                task=task,
                workload=self.workload,
                settings=share_of_rank(settings, self._context, rank, ranks),
                placement=Placement(rank, ranks, rank, str(rendezvous_file)),
            )
            workers.append(self._start_one(spec, f"{name}-rank{rank}" if rank else name, fresh))
        return WorkerGroup(workers, rendezvous_file)

    def _start_as_rank(self, task: Task, settings: Mapping[str, Value], launched_as: LaunchedRank, name: str) -> Worker:
        assert self._context is not None
        share = share_of_rank(settings, self._context, launched_as.local_rank, launched_as.local_world_size)
        placement = Placement(launched_as.rank, launched_as.world_size, launched_as.local_rank, None)
        spec = WorkerSpec(task=task, workload=self.workload, settings=share, placement=placement)
        return self._start_one(spec, name, fresh=True, more=launched_as.variables)

    def _start_one(
        self, spec: WorkerSpec, name: str, fresh: bool, more: Mapping[str, str] = MappingProxyType({})
    ) -> Worker:
        processes = self._processes if spec.workload is not None else OUR_PROCESSES
        spec, view = processes.prepared(msgspec.structs.replace(spec, found=self._found, script=self._script))
        follows = spec.placement is not None and self._launched_as is None and spec.placement.local_rank > 0
        # The leader prints whatever the other ranks print.
        log_path = self._logs / f"{name}.log" if self._measures or follows else None
        environment = self._environment(spec.settings)
        if spec.placement is not None and self._context is not None:
            environment |= {**devices_of_ranks(self._context, count_processes(spec.settings)), **more}
        self._ended.forget(self._started, log_path)
        temporary = self._ended.variables(self._started[-1] if follows else None)
        environment |= temporary
        if self._measures:
            environment |= processes.variables(spec, environment, Path(temporary[TEMPORARY_VARIABLE]))
        may_fork = self._measures and not (fresh or processes.starts_anew)
        worker = self._fork(spec, log_path, environment) if may_fork else None
        start = view.start if view else ()
        worker = worker or Worker(spec, log_path, environment, adopts=self._measures, start=start)
        self._started.append(worker)
        self._ended.give(worker, temporary)
        processes.give(worker, view)
        return worker

    def _fork(self, spec: WorkerSpec, log_path: Path | None, environment: Mapping[str, str]) -> Worker | None:
        """Return a forked worker, or None where that is not possible."""
        at_start = self._variables(spec.settings, at_start_only=True)
        in_use = [worker.server for worker in self._started if not worker.is_closed]
        server = self._servers.server_for(settings_key(at_start), at_start, in_use)
        if server is None:
            return None
        try:
            modules = (*self._servers.modules, *modules_of(spec.settings))
            return Worker(spec, log_path, environment, server, modules)
        except ForkFailedError:
            self._servers.give_up()
            return None

    def ask(
        self,
        task: Task,
        settings: Mapping[str, Value],
        name: str,
        kind: type[AnswerType],
        timeout_seconds: float,
    ) -> AnswerType | Failure:
        """Return the answer of a task that has one, or the Failure that came instead."""
        worker = self.start(task, settings, name)
        try:
            answer = worker.receive(timeout_seconds)
        finally:
            worker.close()
        if isinstance(answer, kind):
            return answer
        failure = failure_of(answer)
        if self._processes.has_learned(failure):
            return self.ask(task, settings, name, kind, timeout_seconds)
        return self._processes.explained(failure)

    def receive_description(self, worker: Worker | WorkerGroup, waits: float | LookWait) -> Described | Failure:
        """Return what a worker has described; from now on, fork servers import what its training imported.

        The worker is closed: the step that it made may have started loader workers, which would keep loading while
        something is measured.

        Args:
            worker: That has been started for it.
            waits: For so many seconds, or as that says: the worker then tells of its first step.
        """
        try:
            answer = waits.receive(worker) if isinstance(waits, LookWait) else worker.receive(waits)
        finally:
            worker.close()
        if not isinstance(answer, Described):
            failure = failure_of(answer)
            if self._processes.has_learned(failure):
                again = self.start(Describe(tells_first_step=isinstance(waits, LookWait)), {}, "describe")
                return self.receive_description(again, waits)
            return self._processes.explained(failure)
        self._servers.modules.extend(answer.modules)
        return answer

    def start_measuring(
        self, settings: Settings, name: str, timeout_seconds: float, fresh: bool = False
    ) -> Measuring | Failure:
        """Start a worker, wait until it has warmed up, and pause it."""
        return self.start_all_measuring(Measure(), {name: settings}, timeout_seconds, fresh)[0]

    @repeated_if_interrupted
    def start_all_measuring(
        self,
        task: Measure,
        settings: Mapping[str, Settings],
        timeout_seconds: float,
        fresh: bool = False,
    ) -> list[Measuring | Failure]:
        """Start a worker for each of the settings, warm it up and pause it; return the Failure of each that fails.

        They start side by side where that takes less time (see `Overlapping`) and warm up one after the other: threads
        of two trainings that wait for each other on the same cores make steps of a tenth of a second last for seconds.
        The number of steps that settings need to warm up is found out once.

        Args:
            task: What all are to do.
            settings: By the names of their logs.
            timeout_seconds: For all.
            fresh: See `start`.
        """
        began = time.perf_counter()
        deadline = began + timeout_seconds
        starting = (self.start(self._with_known_warmup(task, one), one, name, fresh) for name, one in settings.items())
        workers, built = self._overlapping.start(starting, deadline, fresh)
        self.spent_on["start-up"] += time.perf_counter() - began  # once, where they started side by side
        found = [
            self._warm_up(worker, one, since_start, deadline)
            for worker, one, since_start in zip(workers, settings.values(), built, strict=True)
        ]
        learned = [self._processes.has_learned(one) for one in found if isinstance(one, Failure)]
        if not any(learned):
            return [self._processes.explained(one) if isinstance(one, Failure) else one for one in found]
        for worker in workers:
            worker.close()
        return self.start_all_measuring(task, settings, deadline - time.perf_counter(), fresh)

    def _with_known_warmup(self, task: Measure, settings: Settings) -> Measure:
        known = self._settled.get(_digest(settings))
        return msgspec.structs.replace(task, settling_steps=known.steps) if known else task

    def _warm_up(
        self, worker: Worker | WorkerGroup, settings: Settings, built: float | Failure, deadline: float
    ) -> Measuring | Failure:
        """Let a worker that has built its training warm up, and pause it."""
        if isinstance(built, Failure):
            worker.close()
            return built
        start = time.perf_counter()
        worker.tell(WarmUp())
        answer = worker.receive(deadline - start)
        if not isinstance(answer, Ready):
            worker.close()
            return failure_of(answer)
        since_built = time.perf_counter() - start
        until_ready = built + since_built
        lazily = sum(worker.import_seconds.get(name, 0.0) for name in modules_of(settings))
        at_once = sum(worker.import_seconds.values()) - lazily
        warm_up_seconds = sum(answer.warmup_step_seconds)
        found = Settled(answer.settling_steps, answer.settled_seconds)
        settled = self._settled.setdefault(_digest(settings), found).seconds
        slower_seconds = sum(max(0.0, seconds - settled) for seconds in answer.warmup_step_seconds)
        self.spent_on["start-up"] += since_built - warm_up_seconds
        self.spent_on["compilation and first steps"] += slower_seconds
        self.spent_on["warm-up steps"] += warm_up_seconds - slower_seconds
        readiness = Readiness(
            ready=answer,
            startup_seconds=max(0.0, until_ready - warm_up_seconds) + at_once,
            lazy_import_seconds=lazily,
            ready_seconds=until_ready,
            warm_step_seconds=settled,
        )
        return Measuring(worker, settings, readiness, self.spent_on)

    def environment_of_run(self, settings: Mapping[str, Value]) -> dict[str, str]:
        """Return all variables of a program under these settings that is no worker of ours."""
        return {name: value for name, value in self._environment(settings).items() if name != WORKER_MARK}

    def _environment(self, settings: Mapping[str, Value]) -> dict[str, str]:
        environment = worker_environment(os.environ, self._variables(settings))
        if self._measures:
            # A cache for all settings with the same compiled model: their first process pays for the compilation.
            environment[CACHE_VARIABLE] = str(self._compiled / _digest(compiled_part(settings)))
        elif self._compile_cache is not None:
            environment[CACHE_VARIABLE] = str(self._compile_cache)
        return environment

    def _variables(self, settings: Mapping[str, Value], at_start_only: bool = False) -> dict[str, str]:
        """Return the variables that carry these settings, except those at which the user's own environment starts."""
        if self._context is None:
            return {}
        changed = {name: value for name, value in settings.items() if self._defaults.get(name) != value}
        return environment_of(changed, self._context, at_start_only)


def _digest(settings: Mapping[str, Value]) -> str:
    return hashlib.sha256(settings_key(settings).encode()).hexdigest()[:16]
