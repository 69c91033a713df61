"""Nothing that comes of a process outlives its keeper's work: when a trial ends, and when the tuner is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from autoaccel.workers.forkserver import ForkServer
from autoaccel.workers.kept import KeptProcess, start_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process can adopt orphans")

FAMILY = """
import os, signal, subprocess, sys, time
folder = sys.argv[1]

def note(name):
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)

def stay(name):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note(name)
    time.sleep(600)

if os.fork() == 0:  # a loader worker
    stay("child")
if os.fork() == 0:  # a daemon
    os.setsid()
    if os.fork() == 0:
        code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
        # A server of its own session that forgets its variables, by which it could be known.
        subprocess.Popen([sys.executable, "-c", code, os.path.join(folder, "server")], env={}, start_new_session=True)
        stay("daemon")
    os._exit(0)
while len([name for name in os.listdir(folder) if not name.endswith(".new")]) < 3:
    time.sleep(0.01)
note("self")
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the processes of a family note their numbers; those that are left are killed in the end."""
    folder = tmp_path / "family"
    folder.mkdir()
    yield folder
    for process in living(numbers(folder)):
        process.kill()


def numbers(folder: Path) -> list[int]:
    # What ends in .new gets another name at any moment, also between being listed and being read.
    return [int(text) for path in folder.iterdir() if path.suffix != ".new" and (text := path.read_text())]


def living(pids: Sequence[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            pass
    return found


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return whether it became true in time."""
    deadline = time.perf_counter() + seconds
    while not what():
        if time.perf_counter() > deadline:
            return False
        time.sleep(0.01)
    return True


def start_family(folder: Path) -> KeptProcess:
    kept = start_program([sys.executable, "-c", FAMILY, str(folder)], None, os.environ, str(folder), "")
    assert wait_for(lambda: len(living(numbers(folder))) == 4)
    return kept


def test_daemons_and_servers_end_with_their_process(folder: Path) -> None:
    kept = start_family(folder)
    kept.signal(signal.SIGSTOP)
    assert kept.end(30.0)
    assert not living(numbers(folder))
    assert kept.wait() == -signal.SIGKILL


def test_what_a_process_leaves_behind_ends_once_it_is_not_needed(folder: Path) -> None:
    kept = start_family(folder)
    assert kept.pid is not None
    os.kill(kept.pid, signal.SIGSEGV)
    assert kept.wait(30.0) == -signal.SIGSEGV
    assert kept.end(30.0)
    assert not living(numbers(folder))


def test_the_process_dies_with_its_keeper(folder: Path) -> None:
    kept = start_family(folder)
    assert kept.pid is not None
    keeper = psutil.Process(kept.pid).parent()
    assert keeper is not None
    keeper.kill()
    assert kept.wait(30.0) == -signal.SIGKILL
    assert wait_for(lambda: not living([kept.pid or 0]))
    kept.end(5.0)


TUNER = """
import os, sys, time
from autoaccel.workers.kept import start_program
kept = start_program([sys.executable, "-c", sys.argv[1], sys.argv[2]], None, dict(os.environ), "/", "")
print("started", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("state", ["running", "stopped", "all stopped", "starting"])
def test_all_are_gone_after_their_tuner_was_killed(folder: Path, state: str) -> None:
    command = [sys.executable, "-c", TUNER, FAMILY, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as tuner:
        assert tuner.stdout is not None
        tuner.stdout.readline()
        if state != "starting":
            assert wait_for(lambda: len(living(numbers(folder))) == 4)
        keeper = psutil.Process(tuner.pid).children()
        for process in living(numbers(folder)) if state in ("stopped", "all stopped") else []:
            process.suspend()
        if state == "all stopped":
            keeper[0].suspend()
            tuner.send_signal(signal.SIGSTOP)
        tuner.kill()
    assert wait_for(lambda: not living([process.pid for process in keeper]), 30.0)
    time.sleep(0.3)  # whoever was still starting would note its number
    assert not living(numbers(folder))


def test_a_tuner_whose_own_child_lives_on_is_noticed_too(folder: Path) -> None:
    """A program that calls autotune() may have forked: its child holds the line to the keeper open."""
    program = TUNER.replace("print(", "os.fork() or (time.sleep(600), os._exit(0)); print(")
    command = [sys.executable, "-c", program, FAMILY, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        tuner.stdout.readline()
        assert wait_for(lambda: len(living(numbers(folder))) == 4)
        others = psutil.Process(tuner.pid).children()
        tuner.kill()
        assert wait_for(lambda: not living(numbers(folder)))
        for process in living([other.pid for other in others]):
            process.kill()


def test_a_daemon_of_a_fork_server_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "starts_a_daemon.py").write_text(
        "import subprocess\nprint(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    server = ForkServer(os.environ, tmp_path / "log")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = server.fork(os.environ, ("starts_a_daemon",), theirs, None)
        pid = int((tmp_path / "log").read_text())
        assert living([pid])
        assert process.end(30.0)
    assert living([pid])  # it is the server's
    server.close()
    assert not living([pid])


def test_a_forked_worker_s_daemon_ends_with_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker has a keeper of its own: the daemons of one end while another trains on."""
    (tmp_path / "family.py").write_text(FAMILY.replace("sys.argv[1]", repr(str(folder))))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("TMPDIR", "/tmp")
    server = ForkServer(os.environ, tmp_path / "log")
    ours, theirs = socket.socketpair()
    others, other = socket.socketpair()
    with ours, theirs, others, other:
        staying = server.fork(os.environ, (), other, None)
        process = server.fork(os.environ, (), theirs, None)
        # What the worker decodes fails; meanwhile it has become a process like any other.
        assert process.pid is not None and staying.pid is not None
        keeper = psutil.Process(process.pid).parent()
        assert keeper is not None and keeper.pid != server._process.pid
        assert psutil.Process(staying.pid).parent() != keeper
        assert process.end(30.0)
        assert not living([process.pid]) and living([staying.pid])
        assert staying.end(30.0)
    server.close()


SHARES = """
import os, sys, time
from multiprocessing import shared_memory
import multiprocessing
own = shared_memory.SharedMemory(create=True, size=1000)
semaphore = multiprocessing.get_context("spawn").Semaphore()
for name in (f"torch_{os.getpid()}_1_0", f"__KMP_REGISTERED_LIB_{os.getpid()}_0", f"data_{os.getpid()}_0"):
    open(f"/dev/shm/{name}", "w").close()
print(os.getpid(), own.name, semaphore._semlock.name.replace("/", "sem."), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("paused", [False, True])
def test_named_shared_memory_goes_with_its_process(tmp_path: Path, paused: bool) -> None:
    """Whoever is killed cannot remove it; the helper that knows its names is given the time."""
    shared = Path("/dev/shm")
    stranger = shared / f"torch_{os.getpid()}_1_0"  # of a process that lives
    stranger.touch()
    log = tmp_path / "log"
    kept = start_program([sys.executable, "-c", SHARES], log, os.environ, str(tmp_path), "")
    try:
        assert wait_for(lambda: log.read_text().endswith("\n"))
        pid, *names = log.read_text().split()
        named_after_it = [f"torch_{pid}_1_0", f"__KMP_REGISTERED_LIB_{pid}_0"]
        users = shared / f"data_{pid}_0"
        assert all((shared / name).exists() for name in [*names, *named_after_it])
        if paused:
            kept.signal(signal.SIGSTOP)
        assert kept.end(30.0)
        assert [name for name in [*names, *named_after_it] if (shared / name).exists()] == []
        assert stranger.exists() and users.exists()
        users.unlink()
    finally:
        kept.end(5.0)
        stranger.unlink()


def test_a_helper_that_does_not_end_is_not_waited_for_long(folder: Path) -> None:
    code = "import os, sys, time; open(sys.argv[1] + '/self', 'w').write(str(os.getpid())); time.sleep(600)"
    kept = start_program([sys.executable, "-c", code, str(folder), "resource_tracker"], None, os.environ, "/", "")
    assert wait_for(lambda: bool(numbers(folder)))
    assert kept.end(30.0)
    assert not living(numbers(folder))


def test_a_training_for_its_own_sake_may_leave_a_daemon(folder: Path) -> None:
    code = "import sys; from autoaccel.workers.keeping import main; main(); exec(sys.argv.pop(1))"
    ours, theirs = socket.socketpair()
    with theirs:
        arguments = [str(theirs.fileno()), str(os.getpid()), "False", "False", FAMILY, str(folder)]
        keeper = subprocess.Popen([sys.executable, "-c", code, *arguments], pass_fds=[theirs.fileno()])
    kept = KeptProcess(ours, keeper)
    assert wait_for(lambda: len(living(numbers(folder))) == 4)
    assert kept.end(30.0)
    left = {process.pid for process in living(numbers(folder))}
    assert left == {int((folder / name).read_text()) for name in ("daemon", "server")}


def test_a_process_that_cannot_start_is_told(tmp_path: Path) -> None:
    kept = start_program([str(tmp_path / "missing")], tmp_path / "log", os.environ, str(tmp_path), "")
    assert kept.wait(60.0) == 1
    assert "FileNotFoundError" in (tmp_path / "log").read_text()
    assert kept.end(30.0)


ENDLESS = """
import os, sys
line = b"x" * 99 + b"\\n"
while True:
    os.write(1, line * 1000)
"""


def test_a_log_stays_small_while_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    kept = start_program([sys.executable, "-c", ENDLESS], log, os.environ, str(tmp_path), "")
    assert wait_for(lambda: log.exists() and b"bytes omitted" in log.read_bytes()[:100])
    process = psutil.Process(kept.pid)
    for _ in range(3):  # how often it is cut off, and how much is written until then, other programs decide
        written = process.io_counters().write_chars + (256 << 20)
        assert wait_for(lambda written=written: process.io_counters().write_chars > written)  # type: ignore[misc]
        assert wait_for(lambda: log.stat().st_size < 64 << 20)
    kept.signal(signal.SIGSTOP)
    assert wait_for(lambda: log.stat().st_size <= 8 << 20)
    assert kept.end(30.0)
    _, *lines = log.read_bytes().splitlines()
    assert len(lines) > 1000
    assert sum(line != b"x" * 99 for line in lines) <= 3  # where its beginning was cut off, the last times


def test_the_last_words_stay(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'x' * (20 << 20)); os.write(2, b'the reason'); import time; time.sleep(600)"
    log = tmp_path / "log"
    kept = start_program([sys.executable, "-c", code], log, os.environ, str(tmp_path), "")
    # It may be cut off again when the reason is there.
    assert wait_for(lambda: log.exists() and log.stat().st_size < 2 << 20 and log.read_bytes().endswith(b"the reason"))
    assert b"bytes omitted" in log.read_bytes()[:100]
    assert kept.end(30.0)


def test_what_is_printed_to_the_users_file_stays_whole(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'x' * (20 << 20))"
    program = f"""
import os, sys, time
from autoaccel.workers.kept import start_program
kept = start_program([sys.executable, "-c", {code!r}], None, dict(os.environ), "/", "")
assert kept.wait() == 0
time.sleep(0.8)
assert kept.end(30.0)
"""
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").stat().st_size == 20 << 20
