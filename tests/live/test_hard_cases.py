"""Scripts as people write them, tuned while they train: what they print, and how they end, is as in plain Python.

Under exact settings, to the last digit. What a script prints otherwise from run to run, such as times, is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.runtime.script.cases import CASES, Case
from tests.runtime.script.test_hard_cases import in_folder

_SECONDS = 40.0  # of each run, which is stopped then: some never end


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[" ".join((case.file, *case.arguments)) for case in CASES])
def test_a_script_trains_as_in_plain_python(case: Case, tmp_path: Path) -> None:
    plain, again, live = (run(case, tmp_path / name, name == "live") for name in ("plain", "again", "live"))
    told = [number for number, lines in enumerate(zip(plain[1], again[1], strict=False)) if lines[0] == lines[1]]
    for number in told:  # none of a script that prints times alone
        if number < len(live[1]) or live[0] is not None:
            assert live[1][number : number + 1] == [plain[1][number]], live[2]
    if plain[0] is not None and live[0] is not None:
        assert live[0] == plain[0], live[2]


def run(case: Case, folder: Path, live: bool) -> tuple[int | None, list[str], str]:
    """Return a script's exit code, None if it was stopped, its lines, and what it says on stderr."""
    folder.mkdir()
    script = in_folder(case.file, folder, case.arguments, case.stdin)
    command = [sys.executable, script.program, *case.arguments]
    if live:
        command = [sys.executable, "-m", "autoaccel", "run", script.program, "--script", "--space", "exact-only", "--"]
        command += case.arguments
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with (
            Path(script.stdin or os.devnull).open() as stdin,
            subprocess.Popen(command, cwd=folder, stdin=stdin, stdout=out, stderr=err,
                             env={**os.environ, "PYTHONUNBUFFERED": "1",
                                  "XDG_CACHE_HOME": str(folder.parent / "cache")}) as process,
        ):  # fmt: skip
            try:
                code: int | None = process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                code = None
        out.seek(0)
        err.seek(0)
        return code, out.read().decode().splitlines(), err.read().decode()
