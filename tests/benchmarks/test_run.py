"""The runner measures all that the page needs, resumes, and keeps what is finished; every script is declared."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks import run as runner
from benchmarks.catalogue import BENCHMARKS, Benchmark
from benchmarks.harness import rows
from benchmarks.harness.rows import ROOT
from benchmarks.page.sections import SECTIONS, command_of

FOLDERS = ROOT / "benchmarks"
PARTS = {
    "studies.first_runs.train",
    "studies.harms.train",
    "studies.live_neighbour.train",
    "studies.unseen.plain",
    "checks.packages.ask",
    "checks.packages.count",
    "checks.public_scripts.counting",
}
"""Scripts that another one starts."""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commands that were started, in a repository of their own; each adds its row, but for the one called bad."""
    (tmp_path / "autoaccel").mkdir()
    (tmp_path / "autoaccel" / "code.py").write_text("1\n")
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "write_page", lambda: None)
    found: list[str] = []

    def start(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if command[0] == "git":
            return subprocess.CompletedProcess(command, 128, "", "")
        if command[0] != sys.executable or command[2] == "pip":
            found.append(" ".join(command).replace(sys.executable, "python"))
            return subprocess.CompletedProcess(command, 0)
        name = command[2].rpartition(".")[2]
        found.append(" ".join([name, *command[3:]]))
        if name == "stopped" and found.count(name) == 1:
            raise KeyboardInterrupt
        if name == "elsewhere":
            return subprocess.CompletedProcess(command, 2)
        if name != "bad":
            rows.add_row(name, "all", {})
        return subprocess.CompletedProcess(command, int(name == "bad"))

    monkeypatch.setattr(subprocess, "run", start)
    return found


def use(monkeypatch: pytest.MonkeyPatch, *names: str, **options: object) -> None:
    """Let these be all benchmarks."""
    declared = tuple(Benchmark(name, f"checks.{name}", name, {name: 1}, 10, **options) for name in names)  # type: ignore[arg-type]  # options of many types
    monkeypatch.setattr(runner, "BENCHMARKS", declared)


def test_what_is_complete_is_left_out(started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours were measured anew after an interruption."""
    use(monkeypatch, "one", "stopped", "two")
    assert runner.main([]) == runner.INTERRUPTED
    assert runner.main([]) == 0
    assert started == ["one", "stopped", "stopped", "two"]
    (tmp_path / "autoaccel" / "code.py").write_text("2\n")
    assert runner.main([]) == 0
    assert started[4:] == ["one", "stopped", "two"]


def test_what_is_named_runs_in_any_case_and_alone(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "one", "two", "three", is_asked_for=True)
    assert runner.main([]) == 0 and not started
    for _ in range(2):
        assert runner.main(["three", "one"]) == 0
    assert runner.main(["two", "--", "--half", "first"]) == 0
    assert started == ["three", "one", "three", "one", "two --half first"]


def test_what_fails_is_a_row_and_the_others_run(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that failed left no trace."""
    use(monkeypatch, "bad", "two")
    assert runner.main([]) == 1
    assert started == ["bad", "two"]
    assert [row.status for row in rows.read_rows("bad")] == ["failed"]
    assert rows.read_rows("bad")[0].reason == "`python -m benchmarks.checks.bad` ended with exit code 1"


def test_what_cannot_run_here_or_as_it_was_told_is_no_row(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU is no result."""
    use(monkeypatch, "bad", "elsewhere")
    assert runner.main(["elsewhere"]) == 2
    assert runner.main(["bad", "--", "--typing-error"]) == 1
    assert not rows.read_rows("elsewhere") and not rows.read_rows("bad")


def test_the_second_half_of_a_benchmark_runs_after_all_others(
    started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_rows = Benchmark("twofold", "studies.twofold", "", {"twofold": 2}, 1, is_twofold=True)
    monkeypatch.setattr(runner, "BENCHMARKS", (two_rows, Benchmark("one", "studies.one", "", {"one": 1}, 1)))
    assert runner.main([]) == 0
    assert started == ["twofold", "one", "twofold"]


def test_minutes_are_told_to_scripts_that_can_end_in_time_and_others_run_only_if_they_fit(
    started: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, "one", "two")
    assert runner.main(["--minutes", "9"]) == 0 and not started
    assert "one: left for another time: it takes about 10 min" in capsys.readouterr().out
    assert runner.main(["--minutes", "11"]) == 0
    assert started == ["one", "two"]
    use(monkeypatch, "three", ends_in_time=True)
    assert runner.main(["--minutes", "9"]) == 0
    assert re.fullmatch(r"three --minutes (9\.00|8\.9\d)", started[-1])


def test_what_it_needs_is_installed_first(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "one", packages=("postgresql",), extra="unseen")
    assert runner.main(["one"]) == 0
    assert started[0] == "apt-get install -y --no-install-recommends postgresql"
    assert started[1].startswith("python -m pip install ") and started[1].endswith("--editable .[unseen]")
    assert started[2:] == ["one"]


def test_the_list_runs_nothing_and_names_everything(started: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["--list"]) == 0
    assert not started
    said = capsys.readouterr().out
    assert all(re.search(rf"^{one.kind} +{one.name} ", said, re.MULTILINE) for one in BENCHMARKS)
    assert all(f"{result}.jsonl" in said for one in BENCHMARKS for result in one.rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["nobody"], "there is no nobody; there are advice, "), (["live", "gpu", "--", "-x"], "name one check or study")],
)
def test_what_is_not_there_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        runner.main(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_every_script_is_declared_once() -> None:
    scripts = {
        ".".join(path.relative_to(FOLDERS).with_suffix("").parts)
        for folder in ("checks", "studies")
        for path in (FOLDERS / folder).rglob("*.py")
        if '__name__ == "__main__"' in path.read_text()
    }
    declared = [one.module for one in BENCHMARKS]
    assert sorted(declared) == sorted(scripts - PARTS)
    assert len({one.name for one in BENCHMARKS}) == len(BENCHMARKS)


def test_every_section_of_the_page_has_a_benchmark_and_every_result_a_section() -> None:
    measured = [result for one in BENCHMARKS for result in one.rows]
    assert sorted({*measured, "live_rescored"}) == sorted(SECTIONS) and len(set(measured)) == len(measured)
    assert command_of("pairs") == "make benchmark NAME=knobs"


def test_the_readme_has_the_tables_of_the_catalogue() -> None:
    written = runpy.run_path(str(ROOT / "tools" / "write_benchmarks.py"))
    text = written["PAGE"].read_text("utf-8")
    assert text == written["page"](text), "run: python tools/write_benchmarks.py"
    assert all(f"| [{one.name}](" in text for one in BENCHMARKS)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_each_script_says_what_it_takes_and_how_it_is_started(
    benchmark: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it began to measure")

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(rows, "RESULTS", tmp_path)
    path = FOLDERS.joinpath(*benchmark.module.split(".")).with_suffix(".py")
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert not ended.value.code and not list(tmp_path.iterdir())
    assert f"python -m benchmarks.{benchmark.module}" in said


def test_make_passes_names_and_arguments_on() -> None:
    def shown(*words: str) -> str:
        done = subprocess.run(
            ["make", "--no-print-directory", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[-1]

    assert shown("benchmark").endswith("python -m benchmarks.run --list")
    assert shown("benchmark", "NAME=unseen", "ARGS=--half first").endswith("benchmarks.run unseen -- --half first")
    assert shown("results", "ARGS=--minutes 60").endswith("benchmarks.run --minutes 60")
