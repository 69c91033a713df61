"""Is what autoaccel believes of public scripts right, before it measures anything?

    python -m benchmarks.checks.public_scripts.measure CHECKOUTS [NAME ...]

README.md beside this file says what is judged, and what CHECKOUTS and the environment must have. Scripts whose checkout
or packages are missing are left out. A row is a script, in benchmarks/results/public_scripts.jsonl.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoaccel.errors import AutoaccelError
from autoaccel.records.options import TuneOptions
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.workload import Script
from autoaccel.space.knobs import KnobContext
from autoaccel.space.search_space import load_space
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.checks.public_scripts.data import MADE
from benchmarks.checks.public_scripts.listed import PublicScript, Right, listed
from benchmarks.checks.users_files.scripts import listing
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row

_COUNT_SECONDS = 60.0
_SECONDS = 300.0  # of a first look, on a busy machine
_HERE = Path(__file__).parent

CODE = ("autoaccel", "benchmarks/checks/public_scripts")


def first_look(script: PublicScript, folder: str, run: str) -> dict[str, Any]:
    """Return what autoaccel believes of a script, and what of that is wrong; to be called in its environment."""
    program = Path(folder, script.program)
    workload = Script(str(program), script.program, folder, "0" * 64, script.arguments)
    with WorkerStarter(Path(run), workload) as starter:
        try:
            machine, facts = probe_and_describe(starter, workload, _SECONDS)
        except AutoaccelError as error:
            return {"seen": {}, "wrong": [f"not heard: {' '.join(str(error).split())[:300]}"]}
    assert facts.script is not None
    space = load_space(str(TuneOptions().space), KnobContext(machine, facts))
    seen = _told(facts.script) | {
        "step_samples": facts.batch_size,
        "open": [name for name in script.right.not_exact if name in space.open],
        "closed": {name: space.closed[name] for name in script.right.not_exact if name in space.closed},
        "inexact": {name: why for name, why in space.inexact.items() if name in script.right.not_exact},
    }
    return {"seen": seen, "wrong": wrong(script.right, seen)}


def _told(script: ScriptFacts) -> dict[str, Any]:
    loader = script.loader
    return {
        "models": [model.kind for model in script.models],
        "parameters": sum(model.trained for model in script.models),
        "optimizers": [one.kind for one in script.optimizers],
        "updates": len(script.cycle),
        "updates_itself": script.updates_itself,
        "loaders": [
            f"{one.key.dataset} of {one.key.samples}: {'trained' if one.feeds else 'evaluated'} on"
            for one in script.loaders
        ],
        "samples": loader.key.samples if loader else None,
        "batch_size": loader.key.batch_size if loader else None,
        "batches": loader.batches if loader else None,
        "workers": loader.workers if loader else None,
        "no_loader": not any(one.feeds for one in script.loaders),
        "steps_per_epoch": script.steps_per_epoch,
        "planned": script.planned_steps,
        "planned_from": script.planned_from,
        "does": list(script.does),
        "step_seconds": script.step_seconds,
    }  # fmt: skip


def wrong(right: Right, seen: dict[str, Any]) -> list[str]:
    """Return what is believed wrongly, in words."""
    found = []
    if right.models and sorted(seen["models"]) not in [sorted(each) for each in right.models]:
        found.append(f"models {seen['models']}, not {right.models}")
    for name in ("parameters", "optimizers", "updates", "updates_itself", "samples", "batches", "workers", "no_loader"):
        expected = getattr(right, name)
        if expected is not None and seen[name] != expected:
            found.append(f"{name} {seen[name]}, not {expected}")
    for name in ("batch_size", "step_samples", "steps_per_epoch"):
        expected = getattr(right, name)
        if expected is not None and seen[name] != (expected or None):
            found.append(f"{name} {seen[name]}, not {expected or 'unknown'}")
    planned = seen["planned"]
    if planned is not None and right.planned is not None:
        if not right.planned:
            found.append(f"planned {planned}, which nothing says")
        elif abs(planned - right.planned) > right.planned_tolerance * right.planned:
            found.append(f"planned {planned}, not {right.planned}")
    accumulates = any("accumulates" in one for one in seen["does"])
    if right.accumulates is not None and accumulates != right.accumulates:
        found.append(f"accumulates {accumulates}, not {right.accumulates}")
    exact = [name for name in seen["open"] if name not in seen["inexact"]]
    return found + [f"{name} counts as exact" for name in exact]


def contradictions(right: Right, counted: dict[str, Any]) -> list[str]:
    """Return what of a list was read wrongly, as far as counting can tell."""
    found = []
    kinds = [one["kind"] for one in counted["optimizers"]]
    if right.optimizers and sorted(set(kinds)) != sorted(set(right.optimizers)):
        found.append(f"optimizers {kinds}")
    if right.planned and counted["ended"] in ("by itself", "exit code 0"):
        updates = sum(one["updates"] for one in counted["optimizers"]) or counted["backwards"]
        if abs(updates / (right.updates or 1) - right.planned) > max(1.0, right.planned_tolerance * right.planned):
            found.append(f"{updates} updates")
    return found


def measure(script: PublicScript, checkout: Path) -> dict[str, Any]:
    """Return what a script was counted to do, what autoaccel believes, and what of that is wrong."""
    with tempfile.TemporaryDirectory(prefix="public-", ignore_cleanup_errors=True) as scratch:
        counted = count_plainly(
            script, _prepared(script, checkout, Path(scratch, "plain")), Path(scratch, "counts.json")
        )
        folder = _prepared(script, checkout, Path(scratch, "own"))
        before = listing(Path(scratch, "own"))
        Path(scratch, "run").mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.checks.public_scripts.measure", "--one", script.name, str(folder),
             f"{scratch}/run"],
            env=_environment(script, folder) | {"AUTOACCEL_SIDE_BY_SIDE": "1"}, cwd=folder, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        try:
            seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            seen = {"seen": {}, "wrong": [f"nothing was told: {' '.join(done.stderr.split())[-300:]}"]}
        if listing(Path(scratch, "own")) != before:
            seen["wrong"].append("its folder was changed")
        found = {
            "source": script.source,
            "counted": counted,
            "read_wrongly": contradictions(script.right, counted) if counted else ["it does not run"],
            **seen,
        }
        # An error may name where the packages and the copies lie.
        told = json.dumps(found).replace(f"{sys.prefix}/", "").replace(f"{Path(scratch).resolve()}/", "")
    said: dict[str, Any] = json.loads(told)
    return said


def _prepared(script: PublicScript, checkout: Path, into: Path) -> Path:
    """Return the folder in which a script is started, in a copy of its checkout with its data made."""
    shutil.copytree(checkout, into, ignore=shutil.ignore_patterns(".git"))
    folder = into / script.folder
    if script.made:
        MADE[script.made](folder)
    return folder.resolve()


def _environment(script: PublicScript, folder: Path) -> dict[str, str]:
    paths = [*(str(folder / one) for one in script.path), str(ROOT)]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}
    return {**os.environ, **own, **script.environment}


def count_plainly(script: PublicScript, folder: Path, counts: Path) -> dict[str, Any]:
    """Return what a script was counted to do under plain Python, for a minute at most; nothing if it does not run."""
    command = [sys.executable, str(_HERE / "counting.py"), str(counts), str(_COUNT_SECONDS), script.program]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*command, *script.arguments], env=_environment(script, folder), cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
        )  # fmt: skip
        process.wait()
        # Processes of a script's own, as those that run environments, wait for it for ever once it is cut short.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError, ValueError):
            counted: dict[str, Any] = json.loads(counts.read_text())
            return counted
        said.seek(0)
        print(f"{script.name}: {said.read()[-2000:]}")
    return {}


def main(arguments: Sequence[str]) -> int:
    """Measure each script that is wanted; return 1 if anything believed of one is wrong."""
    scripts = {one.name: one for one in listed()}
    if arguments and arguments[0] == "--one":
        print(json.dumps(first_look(scripts[arguments[1]], arguments[2], arguments[3])))
        return 0
    parser = make_parser(__doc__)
    parser.add_argument("checkouts", type=Path, metavar="CHECKOUTS", help="folder with a checkout of each")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(scripts))
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - scripts.keys()):
        parser.error(f"there is no script {', '.join(unknown)} here; there are {', '.join(scripts)}")
    is_right = True
    for name in parsed.names or list(scripts):
        checkout = parsed.checkouts / scripts[name].checkout
        if not checkout.exists():
            print(f"{name}: left out, there is no {checkout}")
            continue
        found = measure(scripts[name], checkout)
        add_row("public_scripts", name, found, code=CODE)
        is_right = is_right and not found["wrong"]
        print(f"{name}: {'; '.join(found['wrong']) or 'right'}; {found['read_wrongly'] or ''}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
