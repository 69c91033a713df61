"""`autoaccel scale`: a table, JSON, and one clear error for bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def scale(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "autoaccel", "scale", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_measured_and_predicted_ranks_are_told_apart(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text('{"1": 707, "2": 393, "4": 208}')
    done = scale(times, "--predict", "8,4,16")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line and line.split()[0].isdigit()}
    assert list(lines) == ["1", "2", "4", "8", "16"]
    assert "measured" in lines["4"] and "707.0" in lines["1"]
    assert "measured" not in lines["8"] and " to " in lines["8"] and "compute (" in lines["8"]


def test_links_are_named_and_told_as_json() -> None:
    done = scale("--measured", "1=707,2=393,4=208", "--predict", "16", "--machines-of", "8", "--between", "100 GbE",
                 "--within", "nvlink3", "--gradient-bytes", "16081432", "--steps", "19531", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [link["name"] for link in found["links"]] == ["nvlink3", "100 GbE"]
    assert all(link["source"] for link in found["links"])
    assert [(point["ranks"], point["machines"], point["predicted"]) for point in found["points"]] == [
        (1, 1, False), (2, 1, False), (4, 1, False), (16, 2, True),
    ]  # fmt: skip
    point = found["points"][-1]
    assert point["low"] < point["seconds"] < point["high"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--predict", "8"], "measured times must be given once"),
        (["times.json", "--measured", "1=2,2=1", "--predict", "8"], "measured times must be given once"),
        (["none.json", "--predict", "8"], "none.json: cannot be read"),
        (["--measured", "1=707,2=x", "--predict", "8"], "such as 1=707,2=393, got '2=x'"),
        (["--measured", "1=707,1=700", "--predict", "8"], "each number of ranks once, got 1 twice"),
        (["--measured", "1=707,2=393", "--predict", "many"], "such as 8,16,64, got 'many'"),
        (["--measured", "1=707,2=393", "--predict", "8", "--between", "HDR"], "--gradient-bytes and --steps"),
        (["--measured", "1=707,2=393", "--predict", "16", "--machines-of", "8"], "16 ranks need several machines of 8"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: list[str], message: str) -> None:
    done = scale(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
