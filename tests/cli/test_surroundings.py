"""Commands whose surroundings fail them: one sentence, the fitting exit code, no traceback, nothing half-written."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autoaccel.records.base import append_line, check_writable, write_text
from tests.cases import rest_is_long
from tests.session.samples import WAITING

WriteModel = Callable[..., Path]
AUTOACCEL = f"{shlex.quote(sys.executable)} -m autoaccel"
PRINTS = "tune model.py --with slurm --workers 1 --storage study.journal --dry-run"
"""A command that is over at once, and prints."""

_MOUNTS = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
may_mount = pytest.mark.skipif(_MOUNTS.returncode != 0, reason="this user may not mount")


def shell(line: str, cwd: Path, seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=cwd, timeout=seconds
    )


def is_one_sentence(stderr: str, *parts: str) -> bool:
    lines = stderr.splitlines()
    return len(lines) == 1 and lines[0].startswith("autoaccel: ") and all(part in stderr for part in parts)


def test_a_full_stdout_is_told_in_a_sentence(write_model: WriteModel, tmp_path: Path) -> None:
    write_model()
    done = shell(f"{AUTOACCEL} {PRINTS} > /dev/full", tmp_path)
    assert done.returncode == 2
    assert is_one_sentence(done.stderr, "the output cannot be written: no space left on device")


@pytest.mark.parametrize("command", rest_is_long(["knobs", PRINTS]))
def test_a_closed_pipe_has_the_exit_code_that_shells_know(
    command: str, write_model: WriteModel, tmp_path: Path
) -> None:
    """It was 1, which says that nothing faster was found, or 0, that something was."""
    write_model()
    done = shell(f"{AUTOACCEL} {command} | true", tmp_path)
    assert done.returncode == 141
    assert is_one_sentence(done.stderr, "the reader of the output is gone")


def test_streams_that_are_closed_are_no_error_and_no_file_gets_what_is_printed(
    write_model: WriteModel, tmp_path: Path
) -> None:
    """Whatever was opened next got their numbers."""
    write_model()
    done = shell(f"{AUTOACCEL} {PRINTS} <&- >&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = shell(f"{AUTOACCEL} tune none.py <&- >&-", tmp_path)
    assert done.returncode == 2 and is_one_sentence(done.stderr, "none.py")


def test_a_working_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    done = shell(f"mkdir gone && cd gone && rmdir ../gone && {AUTOACCEL} tune /model.py", tmp_path)
    assert done.returncode == 2
    assert is_one_sentence(done.stderr, "the working folder is gone")


@pytest.mark.parametrize(
    "arguments",
    ["tune model.py --output LONG", "tune -m LONG", "show LONG", "tune LONG.py", "tune model.py --space LONG"],
)
def test_names_that_no_file_can_have_are_told(arguments: str, write_model: WriteModel, tmp_path: Path) -> None:
    write_model()
    done = shell(f"{AUTOACCEL} {arguments.replace('LONG', 'a' * 5000)}", tmp_path)
    assert done.returncode == 2
    assert is_one_sentence(done.stderr, "aaa")
    assert [path.name for path in tmp_path.iterdir()] == ["model.py"]


@may_mount
def test_without_proc_a_sentence_says_so(tmp_path: Path) -> None:
    done = shell(f"unshare --mount bash -c 'mount -t tmpfs none /proc && {AUTOACCEL} hardware'", tmp_path)
    assert done.returncode == 2
    assert is_one_sentence(done.stderr, "/proc is not mounted")


@may_mount
def test_records_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Of a line that did not fit, half was left; errors named no file."""
    code = """
import errno, sys
from pathlib import Path
from autoaccel.records.base import append_line, check_writable, write_text
from autoaccel.records.messages import Failure

def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        return error.filename
    raise AssertionError("it was written")

folder = Path(sys.argv[1])
lines = folder / "trials.jsonl"
append_line(lines, Failure("raised", "x" * 1000))
whole = lines.read_bytes()
check_writable(folder)
(folder / "filler").write_bytes(bytes(990_000))
assert refused(append_line, lines, Failure("raised", "x" * 100_000)) == str(lines)
assert lines.read_bytes() == whole
assert refused(write_text, folder / "recipe.json", "x" * 100_000) == str(folder / "recipe.json")
assert refused(check_writable, folder) == str(folder)
assert sorted(path.name for path in folder.iterdir()) == ["filler", "trials.jsonl"]
"""
    (tmp_path / "code.py").write_text(code)
    small = "mkdir small && mount -t tmpfs -o size=1m none small"
    done = shell(f"unshare --mount bash -c '{small} && {sys.executable} code.py small'", tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_record_takes_the_place_of_one_that_was_cut_off(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"a":1}\n{"a":')
    append_line(lines, {"a": 2})
    assert [json.loads(line) for line in lines.read_text().splitlines()] == [{"a": 1}, {"a": 2}]
    write_text(tmp_path / "whole", "text")
    check_writable(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.jsonl", "whole"]


@pytest.mark.end_to_end
@may_mount
@pytest.mark.long
@pytest.mark.parametrize(("option", "why"), [("size=40k", ": no space left"), ("ro", "Read-only file system")])
def test_a_run_whose_disk_fails_ends_with_a_sentence(
    option: str, why: str, write_model: WriteModel, tmp_path: Path
) -> None:
    """A full disk was an OSError of the training, and the settings that were tried then were blamed for it."""
    write_model(WAITING)
    mount = f"mkdir run && mount -t tmpfs -o {option} none run"
    line = f"{mount} && {AUTOACCEL} tune model.py --budget 1m --trainings 2000 --output run"
    done = shell(f"unshare --mount bash -c '{line}'", tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert is_one_sentence(done.stderr, "run", why)
