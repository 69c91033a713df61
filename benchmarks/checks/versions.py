"""The suite, a tune and a launch with the lowest versions that pyproject.toml allows, a middle torch, and the newest.

    python -m benchmarks.checks.versions [lowest] [middle] [newest] [--folder build/check-versions] [--part suite]

Makes an environment for each in the folder, by uv, which it installs there; 7 GB each, as the torch of the usual
registry is a CUDA build. What was measured with today's code is left out, so that an interrupted run resumes. Results
go to benchmarks/results/versions.jsonl.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, is_fresh, provenance, runs_folder
from benchmarks.page.write import main as write_page

CODE = {
    "suite": ("autoaccel", "tests", "pyproject.toml"),
    "tune": ("autoaccel", "examples/digits_cnn.py", "pyproject.toml"),
    "launch": ("autoaccel", "examples/digits_cnn.py", "pyproject.toml"),
}
"""Part -> the code that it speaks of."""

BUDGET = "4m"  # of the tune
SUITE_SECONDS = 5400.0
SHOWN = ("torch", "numpy", "optuna", "msgspec", "psutil")

# The extras whose versions are promised as well; those of `dev` are tools, and always the newest.
EXTRAS = ("examples", "pruning", "storage")


class Environment(NamedTuple):
    """Which versions an environment has."""

    python: str
    """Its name as a command; where it does not start, and where it is empty, this program's own is taken."""
    requirements: tuple[str, ...]
    lowest: bool = False
    """Whether direct dependencies have the lowest version that is allowed."""


ENVIRONMENTS = {
    "lowest": Environment("python3.10", (), lowest=True),
    "middle": Environment("", ("torch==2.10.*",)),
    "newest": Environment("", ()),
}


def main() -> None:
    """Make each environment that has something left to do, and do it."""
    parser = make_parser(__doc__)
    parser.add_argument("environments", nargs="*", default=list(ENVIRONMENTS), help="lowest, middle, newest")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "check-versions", help="where they are made")
    parser.add_argument("--part", action="append", choices=list(CODE), help="only this; may be repeated")
    options = parser.parse_args()
    if unknown := set(options.environments) - set(ENVIRONMENTS):
        parser.error(f"environments must be of {', '.join(ENVIRONMENTS)}; got {', '.join(sorted(unknown))}")
    failed: list[str] = []
    for name in options.environments:
        parts = [part for part in options.part or CODE if not is_fresh("versions", f"{name}: {part}")]
        if parts:
            python = make_environment(options.folder.absolute(), name, ENVIRONMENTS[name])
            failed += [f"{name}: {part}" for part in parts if not run_part(name, part, python)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def make_environment(folder: Path, name: str, environment: Environment) -> Path:
    """Return the Python of an environment that has the versions asked for, and this copy of autoaccel."""
    folder.mkdir(parents=True, exist_ok=True)
    uv = folder / "tools" / "bin" / "uv"
    if not uv.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "tools")], check=True)
        install = [str(uv.with_name("python")), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "uv"], check=True)
    home = folder / name
    python = home / "bin" / "python"
    if not python.exists():
        command = environment.python if starts(environment.python) else sys.executable
        subprocess.run([str(uv), "venv", "--quiet", "--no-python-downloads", "-p", command, str(home)], check=True)
    install = [str(uv), "pip", "install", "--quiet", "--upgrade", "--python", str(python)]
    if environment.lowest:
        lowest = folder / f"{name}.txt"
        extras = [part for extra in EXTRAS for part in ("--extra", extra)]
        choose = [str(uv), "pip", "compile", "--quiet", "--resolution", "lowest-direct", "--python", str(python)]
        resolved = subprocess.run([*choose, *extras, "pyproject.toml"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        lowest.write_bytes(resolved.stdout)
        install += ["--constraint", str(lowest)]
    # As in any other environment: a test installs a package by pip, and torch 2.6 compiles with setuptools.
    usual = ("pip", "setuptools")
    subprocess.run([*install, *environment.requirements, *usual, "--editable", ".[dev]"], cwd=ROOT, check=True)
    return python


def starts(command: str) -> bool:
    """Return whether there is such a Python that can be started; a manager of versions may offer a name for nothing."""
    found = shutil.which(command) if command else None
    return found is not None and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0


def run_part(name: str, part: str, python: Path) -> bool:
    """Do one part with an environment, and write what came of it; return whether all is well."""
    versions = read_versions(python)
    made = provenance(CODE[part], torch=versions["torch"])
    print(f"{name}: {part}, torch {versions['torch']}", flush=True)
    run = runs_folder("check-versions") / name
    run.mkdir(parents=True, exist_ok=True)
    found, reason = PARTS[part](python, run)
    found = {"versions": versions, **found}
    status = "failed" if reason else "measured"
    add_row("versions", f"{name}: {part}", found, made=made, status=status, reason=reason)
    write_page()  # which the next suite holds against the rows
    print(f"{name}: {part}: {reason or json.dumps(found)}", flush=True)
    return not reason and not found.get("failed")


def read_versions(python: Path) -> dict[str, str]:
    """Return the versions that an environment has; torch's with its build."""
    program = (
        "import importlib.metadata, json, platform, sys, torch\n"
        "found = {name: importlib.metadata.version(name) for name in sys.argv[1:]}\n"
        "print(json.dumps({'python': platform.python_version(), **found, 'torch': str(torch.__version__)}))"
    )
    done = subprocess.run([str(python), "-c", program, *SHOWN], stdout=subprocess.PIPE, check=True)
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


def suite(python: Path, run: Path) -> tuple[dict[str, Any], str]:
    """Run the tests; return how many passed, were skipped, and which failed."""
    report = run / "tests.xml"
    report.unlink(missing_ok=True)
    command = ["-m", "pytest", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", f"--junitxml={report}"]
    status, said = ask(python, command, SUITE_SECONDS)
    if not report.exists():
        return {}, f"pytest ended with {status}: {last_words(said)}"
    return read_report(report), ""


def read_report(report: Path) -> dict[str, Any]:
    """Return what a JUnit file of pytest's says: counts, and the names of tests that failed or had an error."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = sorted(
        {f"{case.get('classname')}::{case.get('name')}" for case in cases if has_any(case, "failure", "error")}
    )
    skipped = sum(has_any(case, "skipped") for case in cases)
    return {"passed": len(cases) - skipped - len(failed), "skipped": skipped, "failed": failed}


def has_any(case: ElementTree.Element, *outcomes: str) -> bool:
    """Return whether a test case has one of these outcomes."""
    return any(case.find(outcome) is not None for outcome in outcomes)


def tune(python: Path, run: Path) -> tuple[dict[str, Any], str]:
    """Tune the digits; return what it came to."""
    shutil.rmtree(run / "tuned", ignore_errors=True)
    # Planned for a thousand runs, so that trials are worth their time whatever this machine does meanwhile.
    options = ["--budget", BUDGET, "--trainings", "1000", "--output", str(run / "tuned")]
    command = ["-m", "autoaccel", "tune", "examples/digits_cnn.py", *options]
    status, said = ask(python, command, 1800.0)
    recipe = run / "tuned" / "recipe.json"
    if status not in (0, 1) or not recipe.exists():  # 1: nothing was proven faster
        return {"exit_code": status}, f"it ended with {status}: {last_words(said)}"
    found = json.loads(recipe.read_text())
    return {"exit_code": status, "summary": found["summary"], "speedup": found["comparison"]["speedup"]}, ""


def launch(python: Path, run: Path) -> tuple[dict[str, Any], str]:
    """Train with the tune's recipe as two ranks of torchrun's; return the metric."""
    recipe = run / "tuned" / "recipe.json"
    if not recipe.exists():
        return {}, "there is no recipe of this code to launch"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run_it = ["-m", "autoaccel", "run", str(recipe), "examples/digits_cnn.py"]
    status, said = ask(python, [*torchrun, *run_it], 1800.0)
    told = [line for line in said.splitlines() if line.startswith("accuracy: ")]
    if status or not told:
        return {"exit_code": status}, f"it ended with {status}: {last_words(said)}"
    return {"exit_code": status, "accuracy": float(told[0].split()[1])}, ""


PARTS = {"suite": suite, "tune": tune, "launch": launch}


def ask(python: Path, arguments: Sequence[str], max_seconds: float) -> tuple[int | None, str]:
    """Run Python; return its exit code, None if it was too slow, and what it wrote."""
    # Of the environment alone: neither this program's own paths nor the threads that another launcher left it.
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    environment |= {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(python), *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=max_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"no end within {max_seconds:.0f} s"
    return done.returncode, done.stdout + done.stderr


def last_words(said: str) -> str:
    """Return the end of what a program wrote, as one line."""
    return " ".join(said.split())[-400:]


if __name__ == "__main__":
    main()
