"""A tune that is killed at any moment goes on by the command that it printed first, and keeps what was finished."""

from __future__ import annotations

import collections
import json
import math
import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.session.killing import RESUME, is_kept, kept_lines, left_after, run_part
from tests.session.samples import WAITING

pytestmark = pytest.mark.end_to_end
WriteModel = Callable[..., Path]

THREE = 'title = "three"\n[knobs]\n"loader.workers" = [0, 1, 2]\n'
SECRETS = {"an argument": "args-s3cret", "a variable": "variable-s3cret"}
ENVIRONMENT = {"PLANTED_TOKEN": SECRETS["a variable"]}


def begin(write_model: WriteModel, folder: Path, budget: str) -> list[str]:
    write_model(WAITING)
    (folder / "three.toml").write_text(THREE)
    return [
        "tune", "model.py", "--budget", budget, "--trials", "2", "--trainings", "1000000", "--space", "three.toml",
        "--output", "my run", "--", "--token", SECRETS["an argument"],
    ]  # fmt: skip


def secrets_in(folder: Path) -> list[str]:
    """Return which files hold which secrets, but for the file of arguments."""
    return [
        f"{kind} in {path.relative_to(folder)}"
        for path in folder.rglob("*")
        if path.is_file() and path.name != "arguments.json"
        for kind, secret in SECRETS.items()
        if secret.encode() in path.read_bytes()
    ]


def repeated(run: Path) -> list[int]:
    numbers = [json.loads(line)["number"] for line in kept_lines(run)["trials.jsonl"]]
    return [number for number, times in collections.Counter(numbers).items() if times > 1]


@pytest.mark.long
def test_a_run_that_is_killed_goes_on_by_its_printed_command(write_model: WriteModel, tmp_path: Path) -> None:
    """At once, in the baseline, and after each trial; and what may be secret is in one file alone."""
    arguments, run = begin(write_model, tmp_path, "10m"), tmp_path / "my run"
    kept = kept_lines(run)
    for moment in (RESUME, "] stage baseline", "] trial 1 ", "] trial 2 "):
        part = run_part(arguments, tmp_path, ENVIRONMENT, lambda output, passed, moment=moment: moment in output)
        assert moment in part.output and part.resume == ["tune", "model.py", "--output", "my run", "--resume"]
        arguments, before, kept = part.resume, kept, kept_lines(run)
        assert is_kept(before, kept)
        assert not left_after(part.pids, 5.0)
        assert not any(secret in part.output for secret in SECRETS.values())
    assert "start trial 1 " not in part.output and "budget 10 min" in part.output
    assert len(kept["trials.jsonl"]) == 2 and repeated(run) == []
    assert 0 < json.loads((run / "spent.json").read_text())["seconds"] < 600
    assert secrets_in(tmp_path) == []
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "arguments.json").stat().st_mode) == 0o600


def test_what_people_share_of_a_run_holds_no_secret(write_model: WriteModel, tmp_path: Path) -> None:
    """Nor does anything else in its folder, but for the file of arguments. A run of milliseconds is soon at its end."""
    write_model()
    arguments = ["tune", "model.py", "--output", "run", "--", "--token", SECRETS["an argument"]]
    part = run_part(arguments, tmp_path, ENVIRONMENT, lambda output, passed: False)
    assert part.exit_code == 1, part.output
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"recipe.json", "report.html", "arguments.json", "request.json"} <= names
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["workload"]["arguments"] == ["..."]
    assert secrets_in(tmp_path) == [] and not any(secret in part.output for secret in SECRETS.values())
    assert not [name for name in names if name == "lock" or name.startswith(".")]


def test_the_same_command_begins_anew_where_nothing_was_found_yet(write_model: WriteModel, tmp_path: Path) -> None:
    arguments = begin(write_model, tmp_path, "10m")
    for _ in range(2):
        part = run_part(arguments, tmp_path, ENVIRONMENT, lambda output, passed: "stage hardware" in output)
        assert "stage hardware" in part.output


def test_a_second_tune_in_the_folder_is_refused_at_once(write_model: WriteModel, tmp_path: Path) -> None:
    refused: list[subprocess.CompletedProcess[str]] = []

    def second(output: str, passed: float) -> bool:
        for more in (["--resume"], []):
            command = [sys.executable, "-m", "autoaccel", "tune", "model.py", "--output", "my run", *more]
            refused.append(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300))
        return True

    run_part(begin(write_model, tmp_path, "10m"), tmp_path, ENVIRONMENT, second)
    for one in refused:
        assert one.returncode == 2 and "is tuning in this folder. Wait until it has ended" in one.stderr
        assert len(one.stderr.splitlines()) == 1


@pytest.mark.long
def test_a_file_that_was_edited_since_is_told(write_model: WriteModel, tmp_path: Path) -> None:
    edited = False

    def edit(output: str, passed: float) -> bool:
        nonlocal edited
        if not edited and "stage hardware" in output:
            edited = True
            model = tmp_path / "model.py"
            model.write_text(model.read_text() + "\n# edited\n")
        return "note  model.py has changed since the run began" in output

    part = run_part(begin(write_model, tmp_path, "10m"), tmp_path, ENVIRONMENT, edit)
    assert "note  model.py has changed since the run began" in part.output and part.exit_code == -9
    again = run_part(part.resume, tmp_path, ENVIRONMENT, lambda output, passed: False)
    assert again.exit_code == 2
    assert "has changed since the run began, so its trials no longer hold" in again.output
    assert "or put the file back as it was" in again.output and "stage" not in again.output


@pytest.mark.long
def test_fifty_kills_at_random_moments(write_model: WriteModel, tmp_path: Path) -> None:
    """Nothing finished is lost or repeated, nothing is left after 5 s, and the recipe is as good as undisturbed.

    The first part is killed when it starts a trial; what it took until then says within which time the others are. A
    run that comes to its end all the same is followed by another. `pytest -s` shows the table; KILLS and KILLS_SEED
    choose how many and which moments.
    """
    chance, kills = random.Random(int(os.environ.get("KILLS_SEED", "0"))), int(os.environ.get("KILLS", "50"))
    arguments, name = begin(write_model, tmp_path, "2h"), "my run"
    began = time.monotonic()
    part = run_part(arguments, tmp_path, ENVIRONMENT, lambda output, passed: "start trial 1" in output)
    longest, killed, runs = 1.5 * (time.monotonic() - began), 1, 1
    print("\n| kill | after | while | finished before | after | left after 5 s |\n|---|---|---|---|---|---|")
    while killed < kills or part.exit_code == -9:
        end = chance.uniform(0.0, longest) if killed < kills else math.inf
        if part.exit_code == -9:
            arguments = part.resume
        else:
            runs, name = runs + 1, f"run {runs + 1}"
            arguments = [name if one == "my run" else one for one in begin(write_model, tmp_path, "2h")]
        before = kept_lines(tmp_path / name)
        part = run_part(arguments, tmp_path, ENVIRONMENT, lambda output, passed, end=end: passed > end)
        after, left = kept_lines(tmp_path / name), left_after(part.pids, 5.0)
        killed += part.exit_code == -9
        finished = [sum(map(len, kept.values())) for kept in (before, after)]
        doing = part.last.partition("] ")[2][:40] if part.exit_code == -9 else "(it came to its end)"
        print(f"| {killed} | {end:.1f} s | {doing} | {finished[0]} | {finished[1]} | {left} |", flush=True)
        assert is_kept(before, after) and repeated(tmp_path / name) == [] and not left
        assert part.resume, part.output
        if part.exit_code != -9:
            assert part.exit_code == 0, part.output
            recipe = json.loads((tmp_path / name / "recipe.json").read_text())
            assert recipe["settings"]["loader.workers"] == 2 and recipe["comparison"]["verdict"] == "faster"
    assert secrets_in(tmp_path) == []
