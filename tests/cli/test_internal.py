"""A failure of autoaccel's own is told as such, and where its traceback is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

WriteModel = Callable[..., Path]

BREAK = """
import sys
import {module} as broken
broken.{name} = lambda *arguments: 1 / 0
from autoaccel.cli import main
sys.exit(main({arguments!r}))
"""


def run_broken(folder: Path, module: str, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = BREAK.format(module=module, name=name, arguments=arguments)
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def check(done: subprocess.CompletedProcess[str], log: Path) -> None:
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith("autoaccel: internal failure (ZeroDivisionError): this is a mistake of autoaccel's")
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr
    assert "Traceback" in log.read_text() and "1 / 0" not in done.stderr and log.stat().st_mode & 0o777 == 0o600


def test_the_log_of_a_run_is_in_its_folder_and_the_run_can_be_resumed(write_model: WriteModel, tmp_path: Path) -> None:
    write_model()
    done = run_broken(tmp_path, "autoaccel.session.tuning", "prepare", "tune", "model.py", "--output", "run")
    check(done, tmp_path / "run" / "internal-error.log")
    assert done.stderr.rstrip().endswith(" run/internal-error.log")
    resumed = run_broken(
        tmp_path, "autoaccel.session.tuning", "prepare", "tune", "model.py", "--output", "run", "--resume"
    )
    check(resumed, tmp_path / "run" / "internal-error.log")


def test_the_log_of_anything_else_is_a_temporary_file(tmp_path: Path) -> None:
    done = run_broken(tmp_path, "autoaccel.machine.detect", "detect_machine", "knobs")
    log = Path(done.stderr.rpartition(" ")[2].strip())
    assert log.parent == tmp_path and log.name.startswith("autoaccel-error-")
    check(done, log)


def test_where_no_log_can_be_written_the_traceback_is_shown(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    program = (
        "from pathlib import Path; from autoaccel.cli import internal\n"
        "internal._LOG = 'no/such/folder'\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
        "    print(internal.internal_failure_words(error, Path('run')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert "could not be written to a file (No such file or directory)" in done.stdout and "Traceback" in done.stdout
