"""`make results` measures all that the page needs, goes on where it was, and keeps what is finished."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import report
import rows
import stages
from stages import STAGES, Stage


@pytest.fixture(autouse=True)
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commands that were started, in a repository of their own; each adds its row, but for the one called bad."""
    (tmp_path / "autoaccel").mkdir()
    (tmp_path / "autoaccel" / "code.py").write_text("1\n")
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(stages, "write_page", lambda: None)
    found: list[str] = []

    def start(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if command[0] == "git":
            return subprocess.CompletedProcess(command, 128, "", "")
        name = command[-1]
        found.append(name)
        if name == "stopped" and found.count(name) == 1:
            raise KeyboardInterrupt
        if name != "bad":
            rows.add_row(name, "all", {})
        return subprocess.CompletedProcess(command, int(name == "bad"))

    monkeypatch.setattr(subprocess, "run", start)
    return found


def use(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these be the stages."""
    monkeypatch.setattr(stages, "STAGES", tuple(Stage(name, {name: 1}, 1) for name in names))


def test_a_stage_that_is_complete_is_left_out(
    started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours were measured anew after an interruption."""
    use(monkeypatch, "one", "stopped", "two")
    assert stages.main([]) == stages.INTERRUPTED
    assert stages.main([]) == 0
    assert started == ["one", "stopped", "stopped", "two"]
    (tmp_path / "autoaccel" / "code.py").write_text("2\n")
    assert stages.main(["--only", "two"]) == 0
    assert started[4:] == ["two"]


def test_a_stage_that_fails_is_a_row_and_the_others_run(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed stage left no trace."""
    use(monkeypatch, "bad", "two")
    assert stages.main([]) == 1
    assert started == ["bad", "two"]
    assert [row.outcome for row in rows.read_rows("bad")] == ["failed"]
    assert "exit code 1" in rows.read_rows("bad")[0].reason


def test_the_list_runs_nothing(
    started: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, "one", "two")
    assert stages.main(["--list"]) == 0
    assert not started
    assert "one.jsonl" in capsys.readouterr().out


def test_every_section_of_the_page_has_a_stage_and_every_stage_a_command() -> None:
    measured = {result for stage in STAGES for result in stage.results}
    assert measured <= report.SECTIONS.keys()
    assert report.SECTIONS.keys() - measured <= {"live_rescored", "gpu", "versions"}  # of what is there, or elsewhere
    makefile = (Path(stages.__file__).parents[1] / "Makefile").read_text()
    commands = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {stage.name for stage in STAGES} <= commands
