"""Forked workers: as good as new, and gone when they should be."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autoaccel.records.messages import Describe, Described, Failure, GiveTurn
from autoaccel.runs.workloads import find_workload
from autoaccel.workers import worker as launch_worker
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.forkserver import ForkFailedError, ForkServer
from autoaccel.workers.kept import KeptProcess
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.worker import Worker

WriteModel = Callable[..., Path]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every worker is a program of its own")


@pytest.fixture
def starter_for(tmp_path: Path) -> Iterator[Callable[[Path], WorkerStarter]]:
    """Return a function that gives the starter for a model file."""
    starters = []

    def start(model: Path) -> WorkerStarter:
        (tmp_path / "run").mkdir()
        starters.append(WorkerStarter(tmp_path / "run", find_workload(str(model))))
        return starters[-1]

    yield start
    for starter in starters:
        starter.__exit__()


def test_workers_leave_nothing_among_temporary_files(
    write_model: WriteModel,
    starter_for: Callable[[Path], WorkerStarter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even the empty folder of torch's cache, which some of its modules make when they are imported."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    starter = starter_for(write_model())
    assert starter.workload is not None
    probe_and_describe(starter, starter.workload, 300.0)  # by which it learns what the server should import
    measuring = starter.start_measuring({}, "measured", 300.0)
    assert isinstance(measuring, Measuring), measuring
    assert not isinstance(measuring.take_turn(GiveTurn(0.05), 300.0), Failure)
    measuring.close()
    assert starter._temporary is not None
    assert [path for path in starter._temporary.path.glob("*/*") if not path.name.startswith("pymp-")] == []


class InterruptedSocket:
    """A connection on which a Ctrl-C comes after the first half of a request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def sendmsg(self, *arguments: Any) -> int:
        return self._connection.sendmsg(*arguments)

    def sendall(self, data: bytes) -> None:
        raise KeyboardInterrupt

    def close(self) -> None:
        self._connection.close()


def test_an_interrupt_amid_a_request_does_not_leave_others_waiting(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    """The server waits for the other half by then, so it must not be asked how the first worker ended."""
    starter = starter_for(write_model())
    first = starter.start(Describe(), {}, "first")
    assert isinstance(first, Worker)
    assert isinstance(first.receive(300.0), Described)
    (server,) = starter._servers.running()
    server._connection = InterruptedSocket(server._connection)  # type: ignore[assignment]  # a stand-in for a socket
    with pytest.raises(KeyboardInterrupt):
        starter.start(Describe(), {}, "second")
    closing = threading.Thread(target=first.close, daemon=True)
    closing.start()
    closing.join(300.0)
    assert not closing.is_alive()


def describe(starter: WorkerStarter, name: str = "describe", fresh: bool = False) -> str:
    """Return what a worker that describes the training prints meanwhile."""
    worker = starter.start(Describe(), {}, name, fresh)
    answer = worker.receive(300.0)
    worker.close()
    assert isinstance(answer, Described), answer
    return (starter._logs / f"{name}.log").read_text()


def test_a_forked_worker_is_like_a_new_program(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    model = write_model(
        """
        import multiprocessing, os, random, signal, threading
        print("variables", sorted(name for name in os.environ if name not in ("_", "LC_CTYPE")))
        print("group", os.getpgrp() == os.getpid(), "threads", threading.active_count())
        print("signals", signal.getsignal(signal.SIGCHLD), signal.getsignal(signal.SIGINT))
        print("main", __import__("__main__").__name__, sys.argv, sys.stdout.isatty())
        print("torch threads", torch.get_num_threads(), torch.initial_seed())
        """
    )
    starter = starter_for(model)
    forked, fresh = describe(starter, "forked"), describe(starter, "fresh", fresh=True)
    assert forked == fresh
    assert "group True threads 1" in forked


@pytest.mark.long
def test_workers_of_one_server_share_no_random_numbers(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    starter = starter_for(write_model("import random, numpy\nprint(random.random(), numpy.random.random())\n"))
    first, second = describe(starter, "one").split(), describe(starter, "two").split()
    assert first[0] != second[0]
    assert first[1] != second[1]


@pytest.mark.long
def test_what_the_users_file_imports_is_imported_once_for_all(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    starter = starter_for(write_model("print('had', 'sklearn.datasets' in sys.modules)\nimport sklearn.datasets\n"))
    answer = starter.receive_description(starter.start(Describe(), {}, "first"), 300.0)
    assert isinstance(answer, Described)
    assert "sklearn.datasets" in answer.modules
    assert describe(starter, "second") == "had True\n"
    assert describe(starter, "fresh", fresh=True) == "had False\n"


@pytest.mark.long
def test_a_file_that_sets_variables_first_is_left_to_import_for_itself(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    starter = starter_for(write_model("import os\nos.environ['X_THREADS'] = '3'\nimport sklearn.datasets\n"))
    answer = starter.ask(Describe(), {}, "describe", Described, 300.0)
    assert isinstance(answer, Described)
    assert answer.modules == ()


@pytest.mark.long
def test_a_worker_that_imports_left_unfit_begins_anew(
    write_model: WriteModel,
    starter_for: Callable[[Path], WorkerStarter],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "threaded_library.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"), prepend=os.pathsep)
    starter = starter_for(write_model("import threading\nprint(threading.active_count(), 'torch' in sys.modules)\n"))
    starter._servers.modules.append("threaded_library")
    assert describe(starter) == "1 True\n"


def test_exit_codes_and_signals_are_told(tmp_path: Path) -> None:
    server = ForkServer(os.environ, tmp_path / "log")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = server.fork(os.environ, (), theirs, tmp_path / "worker.log")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.signal(signal.SIGSEGV)
        assert process.wait(300.0) == -signal.SIGSEGV
        assert process.wait(300.0) == -signal.SIGSEGV
        assert process.end(300.0)
    server.close()


def test_a_child_of_some_module_may_end_beside_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that an import had started ended, the server did not know it, and died with all its workers."""
    (tmp_path / "starts_a_process.py").write_text(
        "import signal, subprocess\nprocess = subprocess.Popen(['sleep', '1'])\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_DFL)\nsignal.set_wakeup_fd(-1)\n"  # as some libraries do
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = ForkServer(os.environ, tmp_path / "log")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = server.fork(os.environ, ("starts_a_process",), theirs, tmp_path / "worker.log")
        child = next(child for child in psutil.Process(server._process.pid).children() if child.name() == "sleep")
        with contextlib.suppress(psutil.NoSuchProcess):
            while child.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
        process.signal(signal.SIGSEGV)
        assert process.wait(300.0) == -signal.SIGSEGV, (tmp_path / "log").read_text()
        assert process.end(300.0)
    server.close()


def test_a_worker_whose_end_is_never_told_is_not_waited_for_for_ever(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process that a driver keeps from ending held up the tuner without bound; so does a stopped keeper."""
    monkeypatch.setattr(launch_worker, "_END_SECONDS", 0.2)
    starter = starter_for(write_model())
    worker = starter.start(Describe(), {}, "stuck")
    assert isinstance(worker, Worker)
    assert isinstance(worker.receive(300.0), Described)
    assert worker._process.pid is not None
    keeper = psutil.Process(worker._process.pid).parent()
    assert keeper is not None
    keeper.suspend()
    closing = threading.Thread(target=worker.close, daemon=True)
    closing.start()
    closing.join(300.0)
    keeper.resume()
    assert worker._process.end(300.0)
    assert not closing.is_alive()
    assert "did not end within 0.2 s of being killed" in (starter._logs / "stuck.log").read_text()


def test_a_status_above_descriptor_1023_is_heard() -> None:
    """`select` cannot watch such descriptors, which a program with many open files has."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 1500:
        pytest.skip(f"no process may have more than {hard} descriptors here")
    ours, theirs = socket.socketpair()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 1501), hard))
    try:
        os.dup2(ours.fileno(), 1500)
        with socket.socket(fileno=1500) as control:
            process = KeptProcess(control)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.0)
            theirs.sendall(b"17\n3\n")
            assert process.pid == 17
            assert process.wait(1.0) == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        ours.close()
        theirs.close()


@pytest.mark.long
@pytest.mark.parametrize("fresh", [False, True])
def test_programs_of_the_user_inherit_no_descriptor_of_ours(
    fresh: bool, write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    """One that outlived its worker held the channel open, and the tuner waited for the dead worker's answer."""
    shown = describe(starter_for(write_model("os.system('ls -l /proc/$$/fd')")), fresh=fresh)
    assert "/dev/null" in shown
    assert "socket:" not in shown
    assert "pipe:" not in shown


def test_a_worker_s_descendants_keep_descriptors_that_have_the_channel_s_number() -> None:
    """What each fork closed by number was, in a child of a child, a file of the user's."""
    program = """
import os, socket
from autoaccel.runtime.worker import Channel
ours, theirs = socket.socketpair()
number = theirs.fileno()
channel = Channel(theirs.detach())

def in_child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def open_a_file():
    taken = os.open("/dev/null", os.O_RDONLY)
    assert taken == number  # so the channel was closed
    in_child(lambda: os.fstat(taken))

in_child(open_a_file)
channel._socket.getpeername()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_end_with_their_server(tmp_path: Path) -> None:
    server = ForkServer(os.environ, tmp_path / "log")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = server.fork(os.environ, (), theirs, None)
        assert process.pid is not None
        server.close()
        assert process.wait(300.0) == -signal.SIGKILL
        process.close()
        deadline = time.perf_counter() + 60
        while psutil.pid_exists(process.pid) and time.perf_counter() < deadline:
            time.sleep(0.05)
        assert not psutil.pid_exists(process.pid)
        with pytest.raises(ForkFailedError):
            server.fork(os.environ, (), theirs, None)


@pytest.mark.long
def test_without_its_server_a_starter_starts_programs(
    write_model: WriteModel, starter_for: Callable[[Path], WorkerStarter]
) -> None:
    starter = starter_for(write_model())
    describe(starter, "one")
    for server in starter._servers.running():
        server.close()
    assert not isinstance(starter.ask(Describe(), {}, "two", Described, 300.0), Failure)


def test_a_worker_whose_server_died_before_it_could_be_watched_ends_too() -> None:
    somebody_else = os.getppid()
    code = f"from autoaccel.runtime.worker import die_with_parent; die_with_parent({somebody_else})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


def test_what_a_worker_that_begins_anew_imports_is_not_added_to_its_start_again(tmp_path: Path) -> None:
    """A module that asks the GPU's driver anything, or starts a thread, makes forking useless: its imports were
    counted twice, once as they happened and once as what was spared."""
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n"
    )
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    server = ForkServer({**os.environ, "PYTHONPATH": path}, tmp_path / "log")
    try:
        for modules, spared in ((("colorsys",), {"colorsys"}), (("colorsys", "starts_a_thread"), set())):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                forked = server.fork(dict(os.environ), modules, theirs, None)
                assert forked.import_seconds.keys() == spared
            forked.wait(300.0)  # its channel is closed: it ends
            assert forked.end(300.0)
    finally:
        server.close()
