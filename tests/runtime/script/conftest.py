"""Scripts in folders of their own, and workers that run them."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoaccel.records.workload import Script
from autoaccel.workers.starter import WorkerStarter
from tests.shared_servers import SharedServer

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # several threads on a busy machine wait for one another
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


@pytest.fixture
def script(folder: Path) -> Callable[..., Script]:
    def named(source: str, *arguments: str) -> Script:
        path = folder / "train.py"
        if source.endswith(".py"):
            shutil.copy(SCRIPTS / source, path)
        else:
            path.write_text(textwrap.dedent(source))
        return Script(str(path), "train.py", str(folder), "0" * 64, arguments)

    return named


@pytest.fixture
def starter_of(tmp_path: Path) -> Iterator[Callable[..., WorkerStarter]]:
    started: list[WorkerStarter] = []

    def start(script: Script, in_place: bool = False) -> WorkerStarter:
        (tmp_path / "run").mkdir(exist_ok=True)
        started.append(WorkerStarter(tmp_path / "run", script, in_place=in_place))
        return started[-1]

    yield start
    for starter in started:
        starter.__exit__()


@pytest.fixture
def forking_starter_of(
    starter_of: Callable[..., WorkerStarter], script_server: SharedServer
) -> Callable[[Script], WorkerStarter]:
    """Return a function that gives a starter whose workers find torch imported, and work on the script's own files."""
    return lambda script: script_server.serve(starter_of(script, in_place=True))
