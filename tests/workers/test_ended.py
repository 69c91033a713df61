"""What closed workers leave behind does not pile up: their temporary files go, and of their logs the newest stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoaccel.workers import ended as module
from autoaccel.workers.ended import Ended
from autoaccel.workers.temporary import TemporaryFolder


@pytest.fixture
def temporary() -> Iterator[TemporaryFolder]:
    with TemporaryFolder() as folder:
        yield folder


class Closed(SimpleNamespace):
    """A worker, as far as it is looked at here."""

    __hash__ = object.__hash__


def start(ended: Ended, started: list[Any], log: Path, beside: Any = None) -> tuple[Any, Path]:
    ended.forget(started, log)
    variables = ended.variables(beside)
    log.write_text("x")
    worker: Any = Closed(is_closed=False, log_path=log)
    started.append(worker)
    ended.give(worker, variables)
    folder = Path(variables["TMPDIR"])
    (folder / "pymp-left").mkdir(exist_ok=True)
    return worker, folder


def test_temporary_files_of_a_trial_go_and_those_of_the_living_stay(temporary: TemporaryFolder, tmp_path: Path) -> None:
    ended, started = Ended(temporary), []
    baseline, of_baseline = start(ended, started, tmp_path / "baseline.log")
    trial, of_trial = start(ended, started, tmp_path / "trial-0001.log")
    assert of_trial != of_baseline
    trial.is_closed = True
    start(ended, started, tmp_path / "trial-0002.log")
    assert not of_trial.exists() and (of_baseline / "pymp-left").exists()
    assert baseline in started and trial not in started


def test_ranks_of_one_training_share_a_folder(temporary: TemporaryFolder, tmp_path: Path) -> None:
    ended, started = Ended(temporary), []
    leader, of_leader = start(ended, started, tmp_path / "trial.log")
    assert start(ended, started, tmp_path / "trial-rank1.log", leader)[1] == of_leader


def test_the_newest_logs_stay_and_those_of_the_living(
    temporary: TemporaryFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOGS", 3)
    ended, started = Ended(temporary), []
    start(ended, started, tmp_path / "alive.log")
    first, _ = start(ended, started, tmp_path / "baseline.log")
    first.is_closed = True
    for number in range(6):
        worker, _ = start(ended, started, tmp_path / f"trial-{number}.log")
        worker.is_closed = True
        if number == 1:  # it starts once more, under its old name
            start(ended, started, tmp_path / "baseline.log")
    ended.forget(started, None)
    left = {path.name for path in tmp_path.glob("*.log")}
    assert left == {"alive.log", "baseline.log", "trial-3.log", "trial-4.log", "trial-5.log"}


def test_where_the_user_s_own_are_used_none_is_touched(tmp_path: Path) -> None:
    ended = Ended(None)
    assert ended.variables() == {}
    started: list[Any] = [Closed(is_closed=True, log_path=None)]
    ended.give(started[0], {})
    ended.forget(started, None)
    assert started == [] and tmp_path.exists()
