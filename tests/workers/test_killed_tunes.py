"""A tune that is killed leaves no process, and its temporary files go with the next run of the same user."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autoaccel.workers.temporary import TemporaryFolder

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process can adopt orphans"),
]

SCRIPTS = Path(__file__).parents[1] / "scripts"
GONE_SECONDS = 60.0  # on an idle computer a fraction of a second


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's folder for temporary files, by which the processes of a tune can be found."""
    tmp_path_factory.getbasetemp()  # its own is not to lie in it
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def processes_in(place: Path) -> list[psutil.Process]:
    """Return the living processes whose temporary files are in this place, this one apart."""
    found = []
    for process in psutil.process_iter():
        try:
            inside = process.environ().get("TMPDIR", "").startswith(str(place))
            if inside and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            pass
    return found


def command_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):  # it has just ended
        return process.cmdline()
    return []


def kill_after(command: list[str], folder: Path, place: Path, began: Callable[[], bool], seconds: float) -> int:
    """Kill a tune some time after something began; return how many processes it had."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tune:
        deadline = time.perf_counter() + 300
        while not began():
            assert tune.poll() is None and time.perf_counter() < deadline
            time.sleep(0.02)
        time.sleep(seconds)
        assert tune.poll() is None
        count = len(processes_in(place))
        tune.kill()
    return count


def assert_gone(place: Path) -> None:
    deadline = time.perf_counter() + GONE_SECONDS
    while (left := processes_in(place)) and time.perf_counter() < deadline:
        time.sleep(0.1)
    shown = [(process.pid, command_of(process)) for process in left]
    for process in left:
        process.kill()
    assert shown == []
    TemporaryFolder().close()
    assert [path for path in place.iterdir() if path.name.startswith("autoaccel-")] == []


@pytest.mark.parametrize(
    ("log", "seconds"), [("probe", 0.0), ("describe", 1.5), ("baseline", 0.3), ("trial-0001", 0.5)]
)
def test_a_tune_that_is_killed_leaves_no_process(
    place: Path, tmp_path: Path, write_model: Callable[..., Path], log: str, seconds: float
) -> None:
    model = write_model(
        """
        import subprocess
        subprocess.Popen(["sleep", "600"], start_new_session=True)  # a server that it never ends

        plain = build

        def build():
            return plain(epochs=5000, settings={"threads.intra_op": 1, "loader.workers": 1})
        """
    )
    command = [sys.executable, "-m", "autoaccel", "tune", model.name, "--budget", "5m", "--trainings", "100000"]
    log_path = tmp_path / "run" / "logs" / f"{log}.log"
    count = kill_after([*command, "--output", "run"], tmp_path, place, log_path.exists, seconds)
    assert count >= 2  # the tuner and a worker, at least
    assert_gone(place)


@pytest.mark.parametrize("log", ["describe", "baseline"])
def test_nor_do_the_ranks_of_a_launcher_stay(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    shutil.copy(SCRIPTS / "ddp.py", tmp_path / "train.py")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    command = [sys.executable, "-m", "autoaccel", "tune", "torchrun", "--budget", "5m", "--output", "run", "--"]
    command += ["--standalone", "--nproc_per_node", "2", "train.py", "--epochs", "500"]
    log_path = tmp_path / "run" / "logs" / f"{log}.log"

    def ranks_began() -> bool:
        commands = [command_of(process) for process in processes_in(place)] if log_path.exists() else []
        return sum("train.py" in one and "--nproc_per_node" not in one for one in commands) > 1

    kill_after(command, tmp_path, place, ranks_began, 0.5)
    assert_gone(place)
