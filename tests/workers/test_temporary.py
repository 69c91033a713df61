"""One temporary folder a run: workers' files land in it; it goes with the run, or after a kill with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import Describe, Described
from autoaccel.runs.workloads import find_workload
from autoaccel.workers.starter import UnmeasuredRun, WorkerStarter
from autoaccel.workers.temporary import MAX_TMPDIR_BYTES, TemporaryFolder
from tests.cases import rest_is_long

HOLDER = """
import time
from autoaccel.workers.temporary import TemporaryFolder
folder = TemporaryFolder()
(folder.new() / "pymp-left").mkdir()
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's folder for temporary files, at a path as short as usual."""
    tmp_path_factory.getbasetemp()  # its own is not to lie in it
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def holder() -> tuple[subprocess.Popen[str], Path]:
    """Start a process that holds a temporary folder; return both."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_it_is_for_this_user_alone_and_goes_with_the_run(place: Path) -> None:
    with TemporaryFolder() as folder:
        assert folder.path.parent == place
        assert folder.path.stat().st_mode & 0o777 == 0o700
        (folder.new() / "file").write_text("x")
    assert list(place.iterdir()) == []


def leave_one_with_closed_folders(users: Path) -> None:
    """Leave a temporary folder in which are folders that nobody may look into or write to, and a link to the user's."""
    users.mkdir(0o500)
    with TemporaryFolder() as folder:
        closed = folder.new() / "closed"
        (closed / "inner").mkdir(parents=True)
        (closed / "inner" / "file").write_text("x")
        (closed / "link").symlink_to(users)
        (closed / "inner").chmod(0)
        closed.chmod(0o500)


def test_folders_without_permission_go_as_well(place: Path) -> None:
    """Root needs no permission, so an ordinary user tries it."""
    place.chmod(0o777)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(12345)
            leave_one_with_closed_folders(place / "users")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    (users,) = place.iterdir()
    assert users.stat().st_mode & 0o777 == 0o500


def test_that_of_a_killed_run_goes_with_the_next_and_that_of_a_living_one_stays(place: Path) -> None:
    alive, living = holder()
    killed, left = holder()
    try:
        assert left.parent == living.parent == place
    finally:
        kill(killed)
    assert left.exists()
    with TemporaryFolder():
        assert not left.exists()
        assert (living / "1" / "pymp-left").exists()
    kill(alive)


def test_nothing_else_of_that_name_is_removed(place: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "lock").write_text("")
    (place / "autoaccel-run-linked").symlink_to(users)
    own = place / "autoaccel-run-own"  # of the user's, without a lock of ours
    own.mkdir()
    (own / "weights").write_text("x")
    (place / "autoaccel-run-file").write_text("x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    (place / "autoaccel-run-other").mkdir()
    (place / "autoaccel-run-other" / "lock").symlink_to(elsewhere)
    with TemporaryFolder():
        pass
    assert (users / "lock").exists() and (own / "weights").exists() and (place / "autoaccel-run-file").exists()
    assert (place / "autoaccel-run-other" / "lock").is_symlink() and elsewhere.exists()


def test_what_links_in_it_lead_to_stays(place: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "inner").mkdir(parents=True)
    (data / "file").write_text("x")
    data.chmod(0o500)
    (data / "inner").chmod(0o500)
    with TemporaryFolder() as folder:
        for where in (folder.path, folder.new()):
            (where / "link").symlink_to(data)
            (where / "file").symlink_to(data / "file")
    assert (data / "file").read_text() == "x" and list(place.iterdir()) == []
    assert data.stat().st_mode & 0o777 == (data / "inner").stat().st_mode & 0o777 == 0o500
    data.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_that_of_another_user_stays(place: Path) -> None:
    killed, left = holder()
    kill(killed)
    os.chown(left, 12345, 12345)
    with TemporaryFolder():
        pass
    assert (left / "1" / "pymp-left").exists()


def test_runs_that_begin_and_end_at_once_keep_their_own(place: Path) -> None:
    """Each looks through the folders of all others while these are made, locked and removed."""
    failures: list[object] = []

    def work() -> None:
        for number in range(150):
            try:
                with TemporaryFolder() as folder:
                    own = folder.new()
                    (own / str(number)).write_text("x")
                    assert [path.name for path in own.iterdir()] == [str(number)]
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and list(place.iterdir()) == []


SHARES_A_SOCKET = """
import os, tempfile
from multiprocessing.connection import Client, Listener
from multiprocessing.util import get_temp_dir

plain = build

def build():
    listener = Listener(family="AF_UNIX")
    Client(listener.address).close()
    print(f"{tempfile.gettempdir()} {get_temp_dir()}", flush=True)
    return plain()
"""


@pytest.mark.parametrize("fresh", rest_is_long([False, True]))
def test_what_workers_put_aside_is_in_it_and_sockets_have_room(
    write_model: Callable[..., Path], tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as outer:
        room = MAX_TMPDIR_BYTES - len(f"{outer}//autoaccel-run-xxxxxxxx/99999")
        long = Path(outer, "x" * room)  # the longest place whose workers' sockets still have room
        long.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(long))
        (tmp_path / "run").mkdir()
        with WorkerStarter(tmp_path / "run", find_workload(str(write_model(SHARES_A_SOCKET)))) as starter:
            worker = starter.start(Describe(), {}, "describe", fresh=fresh)
            assert isinstance(worker.receive(300.0), Described)
            worker.close()
            told, sockets = (tmp_path / "run" / "logs" / "describe.log").read_text().split()
            assert len(told) == MAX_TMPDIR_BYTES - 4
            assert Path(told).is_relative_to(long) and Path(sockets).is_relative_to(told)
        assert list(long.iterdir()) == []


def test_a_usual_place_leaves_more_room_than_most_need(place: Path) -> None:
    with TemporaryFolder() as folder:
        assert len(str(Path("/tmp") / folder.new().relative_to(place))) <= 40


def test_a_place_too_long_for_sockets_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with TemporaryFolder() as folder:
        assert folder.path.parent == Path("/tmp")


def test_a_training_for_its_own_sake_keeps_the_users_temporary_files(tmp_path: Path, place: Path) -> None:
    (tmp_path / "run").mkdir()
    with WorkerStarter(tmp_path / "run", None, UnmeasuredRun()) as starter:
        assert starter.environment_of_run({}).get("TMPDIR") == str(place)
    assert list(place.iterdir()) == []


def test_where_none_can_be_made_is_said_in_one_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "gone"))
    with pytest.raises(BadRequestError, match=r"gone: a folder for temporary files cannot be made .*TMPDIR=FOLDER"):
        TemporaryFolder()
