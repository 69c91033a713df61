"""What a tune believes of trainings by twelve well-known packages before it measures anything: is it right?

    python -m benchmarks.checks.packages.measure [PACKAGE ...] [--folder build/check-packages]

Each script trains as the documentation of its package says, on data that it makes, a model with fresh weights. What is
true of it was found by hand (`cases.py`), and must agree with a count of a whole plain run (`count.py`). Then a tune's
first look is taken (`ask.py`), in the environment of the package, which is made in the folder. All of it must be right:
models, optimizers, loaders, batches of a step, steps of an epoch; the planned length must be, too, unless it is said
to be assumed. A row is a package, in benchmarks/results/packages.jsonl.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.checks.packages.cases import CASES, ENVIRONMENTS, Case, Truth
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, provenance, to_measure

HERE = Path(__file__).parent
CODE = ("autoaccel", "benchmarks/checks/packages")
_SECONDS = 900.0  # of a script's whole run
_OFFLINE = {"HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "true", "YOLO_AUTOINSTALL": "false", "WANDB_MODE": "disabled"}


def make_environment(folder: Path, name: str) -> Path:
    """Return the Python of an environment, made if it is not there yet."""
    home = folder / name
    python = home / "bin" / "python"
    if (home / ".ready").exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    own = ["--constraint", "constraints.txt", "--editable", "."]
    for requirements in (own, *ENVIRONMENTS[name]):
        subprocess.run([*pip, *requirements], cwd=ROOT, check=True)
    (home / ".ready").touch()
    return python


def measure(case: Case, python: Path) -> dict[str, Any]:
    """Return what is true of a package's script, what a plain run of it has counted, and what a tune believes."""
    truth = case.truth
    expected = {**truth._asdict(), "batch_size": truth.batch_size}
    version = _output(python, f"from importlib.metadata import version as v; print(v({case.package!r}), v('torch'))")
    found: dict[str, Any] = {"versions": dict(zip((case.package, "torch"), version.split(), strict=True))}
    with tempfile.TemporaryDirectory(prefix="packages-") as scratch:
        script = Path(scratch, "own", case.script)
        counted = _told(python, [str(HERE / "count.py")], script)
        asked = _told(python, ["-m", "benchmarks.checks.packages.ask"], script)
    return {**found, "expected": expected, "counted": counted, "found": asked}


def _told(python: Path, program: Sequence[str], script: Path) -> dict[str, Any]:
    """Return what a program says of a script, in a folder of its own."""
    shutil.rmtree(script.parent, ignore_errors=True)
    script.parent.mkdir()
    shutil.copy(HERE / "scripts" / script.name, script)
    told = script.parents[1] / "told.json"
    told.unlink(missing_ok=True)
    own = _OFFLINE | {"OMP_NUM_THREADS": "1"}  # several threads on a busy machine wait for one another
    environment = {**os.environ, **own, "PYTHONPATH": str(ROOT) if program[0] == "-m" else ""}
    command = [str(python), *program, str(script), str(told)]
    try:
        done = subprocess.run(
            command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no end within {_SECONDS:.0f} s"}
    if not told.exists():
        return {"failed": f"exit code {done.returncode}: {' '.join((done.stdout + done.stderr).split())[-600:]}"}
    found: dict[str, Any] = json.loads(told.read_text())
    return found


def _output(python: Path, program: str) -> str:
    done = subprocess.run([str(python), "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def why_untrue(truth: Truth, counted: dict[str, Any]) -> str:
    """Return what a plain run has counted otherwise than it was found by hand; empty if all is as it should be."""
    if "failed" in counted:
        return f"the script fails: {counted['failed']}"
    if counted["updates"] != dict.fromkeys(truth.optimizers, truth.planned):
        return f"it makes other updates: {counted['updates']}"
    drawn = counted["batches"].get(truth.loader)
    if truth.loader and (drawn is None or drawn < truth.planned * truth.batches):
        return f"it draws other batches: {counted['batches']}"
    return ""


def wrong_in(truth: Truth, found: dict[str, Any]) -> list[str]:
    """Return what a tune believes that is not so."""
    if "failed" in found:
        return [f"it is not understood: {found['failed']}"]
    # A stand-in for updates that no optimizer of torch's makes has no class to tell.
    optimizers = list(truth.optimizers) if found["updates itself"] else found["optimizers"]
    right = {
        "models": (found["models"], list(truth.models)),
        "optimizers": (optimizers, list(truth.optimizers)),
        "loaders": (found["loaders"], [truth.loader] if truth.loader else []),
        "samples a step": (found["samples a step"], truth.batches * truth.batch_size if truth.batch_size else None),
        "steps an epoch": (found["steps an epoch"], truth.per_epoch),
    }
    wrong = [f"{name}: {one} instead of {other}" for name, (one, other) in right.items() if one != other]
    if found["planned"] not in (None, truth.planned):  # None: it is said to be assumed
        wrong.append(f"planned: {found['planned']} instead of {truth.planned}")
    return wrong


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return 1 if something is not as it should be."""
    cases = {case.package: case for case in CASES}
    parser = make_parser(__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(cases))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "check-packages", help="of the environments")
    parser.add_argument("--try", action="store_true", dest="is_tried", help="print what is found, and add no row")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.packages) - cases.keys()):
        parser.error(f"there is no package {', '.join(unknown)} here; there are {', '.join(cases)}")
    names = parsed.packages or list(cases)
    is_right = True
    for name in names if parsed.is_tried else to_measure("packages", names):
        case = cases[name]
        found = measure(case, make_environment(parsed.folder.absolute(), case.environment))
        untrue, wrong = why_untrue(case.truth, found["counted"]), wrong_in(case.truth, found["found"])
        found["wrong"] = wrong
        is_right = is_right and not (untrue or wrong)
        print(f"{name}: {untrue or '; '.join(wrong) or 'right'}", flush=True)
        if parsed.is_tried:
            print(json.dumps(found, indent=1))
            continue
        made = provenance(CODE, torch=found["versions"]["torch"])
        add_row("packages", name, found, made=made, status="failed" if untrue else "measured", reason=untrue)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
