"""Scripts as people write them, from end to end: each is tuned for a minute, and run with what comes of it.

    python -m benchmarks.checks.hard_cases [NAME ...] [--minutes N]

The scripts are those of tests/scripts, each in a folder of its own and with the arguments that the tests give it. A
tune is as it should be if it ends with a recipe (exit code 0), keeps the script's own settings (1), or names a larger
budget (2); a script with nothing to hear is declined (2). Where there is a recipe, `autoaccel run` must end as the
script does under plain Python. Most of these scripts are too short for anything to help, so each is run a second time
under a recipe that switches on what can be tuned in it, and must end in the same way. Nothing may be left in the folder
by the tune but its run. A row is a script, in benchmarks/results/hard_cases.jsonl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autoaccel.records.workload import Script
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import LEAVING_SECONDS, MINUTES, ending_in_time
from benchmarks.harness.rows import add_row, to_measure

BUDGET_SECONDS = 60
_RUN_SECONDS = 60.0  # of a whole run; one that takes longer, or never ends, is stopped then
_STOPPED = 124  # as `timeout` has it
_SWITCHED_ON = {
    "precision.autocast": "bfloat16",
    "layout.channels_last": True,
    "optimizer.fused": True,
    "compile.mode": "default",
    "loader.workers": 1,
    "threads.intra_op": 1,
    "memory.keep_freed": True,
}
CODE = ("autoaccel", "benchmarks/checks/hard_cases.py")


class Hard(NamedTuple):
    """A script and how it is started."""

    file: str  # below tests/scripts
    arguments: tuple[str, ...] = ()
    stdin: str = ""  # the file beside it that its standard input is; empty: none


def scripts() -> dict[str, Hard]:
    """Return each script that the tests have, by its name."""
    from tests.runtime.script.cases import CASES

    declined = ("lbfgs_once.py", "no_updates.py")
    hard = [Hard(case.file, case.arguments, case.stdin) for case in CASES] + [Hard(file) for file in declined]
    return {" ".join((one.file, *one.arguments)): one for one in hard}


def measure(hard: Hard) -> dict[str, Any]:
    """Return what came of a script."""
    from tests.runtime.script.test_hard_cases import in_folder, listing

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "own"
        folder.mkdir()
        script = in_folder(hard.file, folder, hard.arguments, hard.stdin)
        before = listing(folder)
        tuned = _done(script, "tune", "--budget", f"{BUDGET_SECONDS}s", "--output", "run")
        left = sorted(set(listing(folder)) - set(before))
        left = [name for name in left if not name.startswith("run/")]
        said = [line for line in tuned.stdout.splitlines() if line and not line.startswith("[")]
        found = {
            "arguments": list(hard.arguments),
            "exit_code": tuned.returncode,
            "said": tuned.stderr.strip().splitlines()[0] if tuned.stderr.strip() else " ".join(said[:3]),
            "left_behind": left,
        }
        if (folder / "run" / "recipe.json").exists():
            plain = _plain(script)
            run = _done(script, "run", "run/recipe.json")
            found |= {"plain_exit_code": plain.returncode, "run_exit_code": run.returncode}
            on = _switch_on(folder / "run" / "recipe.json", tuned.stdout)
            run = _done(script, "run", "run/recipe.json")
            ours = [line for line in run.stderr.splitlines() if line.startswith("autoaccel:")]
            found |= {"switched_on": on, "on_exit_code": run.returncode, "on_told": ours}
    return found


def _switch_on(recipe: Path, printed: str) -> list[str]:
    """Let a recipe switch on what can be tuned in its script, by the line that says so; return the knobs."""
    line = next((line for line in printed.splitlines() if "] script  can be tuned  " in line), "")
    on = [name for name in line.rpartition("  ")[2].split(", ") if name in _SWITCHED_ON]
    content = json.loads(recipe.read_text())
    content["settings"] |= {name: _SWITCHED_ON[name] for name in on}
    recipe.write_text(json.dumps(content))
    return on


def _done(script: Script, *command: str) -> subprocess.CompletedProcess[str]:
    stdin = ["--stdin", script.stdin] if script.stdin else []
    own = ["--", *script.arguments] if script.arguments else []
    whole = [sys.executable, "-m", "autoaccel", *command, *stdin, script.program, *own]
    return _ended(whole, script.folder, os.devnull, BUDGET_SECONDS + _RUN_SECONDS)


def _plain(script: Script) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, script.program, *script.arguments]
    return _ended(whole, script.folder, script.stdin or os.devnull, _RUN_SECONDS)


def _ended(command: Sequence[str], folder: str, stdin: str, seconds: float) -> subprocess.CompletedProcess[str]:
    try:
        with Path(stdin).open() as file:
            return subprocess.run(
                command, cwd=folder, stdin=file, capture_output=True, text=True, timeout=seconds, check=False
            )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, _STOPPED, "", f"stopped after {seconds:.0f} s")


def is_as_it_should_be(found: dict[str, Any]) -> bool:
    """Return whether a script was tuned, or declined, as it should be, and ran with what came of that."""
    ends_alike = found.get("run_exit_code") == found.get("on_exit_code") == found.get("plain_exit_code")
    return found["exit_code"] in (0, 1, 2) and not found["left_behind"] and ends_alike


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return 1 if something is not as it should be."""
    cases = scripts()
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(cases))
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - cases.keys()):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(cases)}")
    is_right = True
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in to_measure("hard_cases", parsed.names or list(cases)):
            if seconds_left() < 2 * (BUDGET_SECONDS + _RUN_SECONDS) + LEAVING_SECONDS:
                print(f"{name}: left for another time")
                break
            found = measure(cases[name])
            add_row("hard_cases", name, found, code=(*CODE, f"tests/scripts/{cases[name].file}"))
            is_right = is_right and is_as_it_should_be(found)
            print(f"{name}: {'' if is_as_it_should_be(found) else 'NOT AS IT SHOULD BE: '}{found}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
