"""Two machines, each with a name and an address of its own, train one example; a rank is killed, and the run continues.

    python -m benchmarks.checks.machines

The machines are network namespaces of this one, joined by a virtual cable (as root; iproute2). On each,
`autoaccel launch --with torchrun` is typed as on real ones. Ten seconds after the first checkpoint, the second
machine's rank is killed by SIGKILL. Results go to benchmarks/results/machines.jsonl.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.own_settings import recipe_of_own_settings, write_with_ranks
from benchmarks.harness.rows import ROOT, add_row

HOME = ROOT / "build" / "check-machines"
CODE = ("autoaccel/cli", "autoaccel/export", "autoaccel/workers", "autoaccel/runtime", "benchmarks/checks/machines.py")
EXAMPLE = ROOT / "examples" / "digits_cnn.py"
HOSTS = {"autoaccel-a": "10.77.0.1", "autoaccel-b": "10.77.0.2"}
MAX_SECONDS = 600.0
KILLED_AFTER_SECONDS = 10.0  # since the first checkpoint


def ip(*words: str) -> None:
    """Run iproute2."""
    subprocess.run(["ip", *words], check=True)


@contextmanager
def machines() -> Iterator[None]:
    """Make the two, and take them down."""
    names = "".join(f"{address} {name}\n" for name, address in HOSTS.items())
    try:
        for name in HOSTS:
            ip("netns", "add", name)
            folder = Path("/etc/netns") / name  # laid over /etc by `ip netns exec`
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        ip("link", "add", "cable0", "type", "veth", "peer", "name", "cable1")
        for end, (name, address) in enumerate(HOSTS.items()):
            ip("link", "set", f"cable{end}", "netns", name)
            ip("-n", name, "address", "add", f"{address}/24", "dev", f"cable{end}")
            for link in (f"cable{end}", "lo"):
                ip("-n", name, "link", "set", link, "up")
        yield
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)


def type_on(name: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command on a machine."""
    script = 'hostname "$0" && exec "$@"'
    with log.open("wb") as file:
        return subprocess.Popen(
            ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", script, name, *command],
            stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True,
        )  # fmt: skip


def train(recipe: Path, kills: bool) -> dict[str, Any]:
    """Train on both machines; return what each printed."""
    checkpoint = HOME / "checkpoint"
    checkpoint.unlink(missing_ok=True)
    launch = [
        sys.executable, "-m", "autoaccel", "launch", str(recipe), str(EXAMPLE), "--with", "torchrun",
        "--hosts", ",".join(HOSTS), "--checkpoint", str(checkpoint), "--checkpoint-every", "1s", "--max-restarts", "2",
    ]  # fmt: skip
    start = time.monotonic()
    logs = [HOME / f"{name}.log" for name in HOSTS]
    processes = [type_on(name, launch, log) for name, log in zip(HOSTS, logs, strict=True)]
    written = killed = None
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() - start < MAX_SECONDS:
            if written is None and checkpoint.exists():
                written = time.monotonic()
            if kills and killed is None and written is not None and time.monotonic() - written > KILLED_AFTER_SECONDS:
                rank = next(
                    child
                    for child in psutil.Process(processes[1].pid).children(recursive=True)
                    if "runtime.worker" in " ".join(child.cmdline())
                )
                os.kill(rank.pid, signal.SIGKILL)
                killed = time.monotonic() - start
            time.sleep(0.2)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
    printed = [log.read_text(errors="replace") for log in logs]
    told = [re.findall(r"^(?:accuracy|trained) .*|^accuracy: .*", text, re.MULTILINE) for text in printed]
    found = re.search(r"^accuracy: (\S+)", "\n".join(printed), re.MULTILINE)
    return {
        "exit codes": [process.wait() for process in processes],
        "accuracy": float(found[1]) if found else None,
        "killed after seconds": killed,
        "printed": told,
        "resumed": bool(re.search(r"^trained \d+ steps after the \d+ before", printed[0], re.MULTILINE)),
    }


def main() -> None:
    """Train once undisturbed and once with a killed rank."""
    make_parser(__doc__).parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    recipe = write_with_ranks(recipe_of_own_settings(EXAMPLE, HOME), 1, HOME / "recipe.json")
    with machines():
        results = {"undisturbed": train(recipe, kills=False), "a rank killed": train(recipe, kills=True)}
    add_row("machines", "all", results, code=CODE)
    print(json.dumps(results, indent=2))
    if not (results["a rank killed"]["resumed"] and results["undisturbed"]["accuracy"]):
        sys.exit("the training did not continue")


if __name__ == "__main__":
    main()
