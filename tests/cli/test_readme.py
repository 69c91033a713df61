"""The README names every command, with every option that its help has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
ROWS = {row.split()[2].strip("`"): row for row in re.findall(r"^\| `autoaccel .*$", README, re.MULTILINE)}
WITH_JSON = next(line for line in README.splitlines() if line.endswith("also take `--json`. The format of "
                 "`recipe.json` is published as"))  # fmt: skip


def help_of(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", "autoaccel", *command, "--help"], capture_output=True, text=True)
    return done.stdout


def test_each_command_has_a_row() -> None:
    commands = re.findall(r"^    ([a-z]+) ", help_of().partition("COMMAND\n")[2], re.MULTILINE)
    assert sorted(commands) == sorted(ROWS)


@pytest.mark.parametrize("command", ROWS)
def test_a_row_names_the_options_of_its_command_and_no_others(command: str) -> None:
    """Options were added that the README did not know, and one was renamed."""
    options = set(re.findall(r"^  (--[a-z-]+)", help_of(command), re.MULTILINE))
    named = set(re.findall(r"--[a-z-]+", ROWS[command]))
    assert named | {"--json"} == options | {"--json"}
    assert ("--json" in options) == (f"`{command}`" in WITH_JSON or "--json" in named)
