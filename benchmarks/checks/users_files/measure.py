"""Are the user's files as they were, after forty scripts were tried that write to them in every way?

    python -m benchmarks.checks.users_files.measure [SETTING ...]

Each script is described and measured as a trial is, in a tree with large files, full folders and a sparse file of 10 GB
(see `scripts.py`). All forty are tried as root, ten of them in every other setting: an ordinary user, and root without
CAP_SYS_ADMIN, each with and without namespaces, which most containers forbid; without, once more on a file system whose
files can share their blocks (XFS, made for it). A setting is as it should be if contents, types and modes of all files
are the same before and after (without an overlay contents and types: the kernel then guards no modes), and each script
has found the samples that it finds under plain Python. It also tells what a view adds to the start of a process.
Settings other than root need root and util-linux, that with reflinks xfsprogs, and an interpreter that ordinary users
can read. A row is a setting, in benchmarks/results/users_files.jsonl.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.records.messages import Failure
from autoaccel.records.workload import Script
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.views.views import Views
from benchmarks.checks.users_files.scripts import listing, make_tree, owned_by, scripts, source, without_modes
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, to_measure

_NOBODY = 65534
_SECONDS = 300.0  # of a script's two trials, on a busy machine
_STARTS = 15
_AS_USER = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all")
_NO_ADMIN = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
_NO_NAMESPACES = (sys.executable, str(ROOT / "benchmarks/harness/without_namespaces.py"))
SETTINGS: dict[str, tuple[str, ...]] = {
    "root": (),
    "root without CAP_SYS_ADMIN": _NO_ADMIN,
    "root without CAP_SYS_ADMIN and namespaces": (*_NO_ADMIN, *_NO_NAMESPACES),
    "ordinary user": _AS_USER,
    "ordinary user without namespaces": (*_AS_USER, *_NO_NAMESPACES),
    "ordinary user without namespaces, reflinks": (*_AS_USER, *_NO_NAMESPACES),
}
"""How a setting is entered, by its name."""

_SPARSE_BYTES = 12 << 30  # of a file system that is to hold a tree with copies; few of them are ever written

CODE = ("autoaccel", "benchmarks/checks/users_files", "benchmarks/harness/without_namespaces.py")


def try_one(folder: str, run: str) -> dict[str, Any]:
    """Describe and measure the script of a folder, as a tune does; return what came of it."""
    script = Script(f"{folder}/train.py", "train.py", folder, "0" * 64, ("100000",))
    failed = ""
    with WorkerStarter(Path(run), script) as starter:
        machine, facts = probe_and_describe(starter, script, _SECONDS)
        context = KnobContext(machine, facts)
        measured = starter.at(context).start_measuring(baseline_settings(context), "trial", _SECONDS)
        if isinstance(measured, Failure):
            failed = f"{measured.message}: {measured.log_tail.splitlines()[-1:]}"
        assert starter.protection is not None
        protection = msgspec.to_builtins(starter.protection)
    logs = [Path(run, "logs", f"{name}.log").read_text() for name in ("describe", "trial")]
    seen = [line for log in logs for line in log.splitlines() if line.startswith("samples ")]
    return {"protection": protection, "failed": failed, "seen": sorted(set(seen))}


def start_seconds(folder: str) -> float:
    """Return what a view adds to the start of a process, the median of several in turns with a plain one."""
    views = Views(Script(f"{folder}/train.py", "train.py", folder, ""), ())
    added = []
    for _ in range(_STARTS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-S", "-c", ""], cwd=folder, check=True)
        plain = time.perf_counter() - began
        began = time.perf_counter()
        view = views.new()
        own = f"{view.scratch or ''}{folder}"
        subprocess.run([*view.start, sys.executable, "-S", "-c", ""], cwd=own, check=True)
        added.append(time.perf_counter() - began - plain)
    views.close()
    return statistics.median(added)


def measure(setting: str) -> dict[str, Any]:
    """Return what came of the scripts in a setting."""
    whole = scripts()
    names = list(whole) if setting == "root" else list(whole)[::4]
    found: dict[str, Any] = {"scripts": len(names), "changed": {}, "failed": {}, "other samples": []}
    with contextlib.ExitStack() as stack:
        if setting.endswith("reflinks"):
            stack.enter_context(_sharing_blocks())
        lab = stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-"))
        root = Path(lab, "home")
        own = make_tree(root)
        Path(lab).chmod(0o755)
        expected = _plain(own)
        for name in names:
            (own / "train.py").write_text(whole[name])
            run = Path(lab, "run")
            run.mkdir()
            if setting.startswith("ordinary"):
                owned_by(root, _NOBODY)
                owned_by(run, _NOBODY)
            before = listing(root)
            came = _tried(setting, str(own), str(run))
            after = listing(root)
            overlay = came.get("protection", {}).get("kind") == "overlay"
            if not overlay:
                before, after = without_modes(before), without_modes(after)
            if before != after:
                found["changed"][name] = sorted(path for path, _ in before.items() ^ after.items())
            if came["failed"]:
                found["failed"][name] = came["failed"]
            elif came["seen"] != [expected]:
                found["other samples"].append(name)
            found["protection"] = came.get("protection")
            subprocess.run(["rm", "-rf", str(run)], check=True)
            print(f"{setting}: {name}: {came['failed'] or 'ok'}", flush=True)
        started = _in_setting(setting, "--start", str(own))
        found["start adds seconds"] = round(float(started.stdout or "nan"), 3)
    return found


@contextlib.contextmanager
def _sharing_blocks() -> Iterator[None]:
    """Let temporary files lie on a file system of their own, whose files can share their blocks."""
    before = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="reflinks-") as place:
        image, mounted = Path(place, "image"), Path(place, "mounted")
        with image.open("wb") as file:
            file.truncate(_SPARSE_BYTES)
        mounted.mkdir()
        Path(place).chmod(0o755)
        subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
        try:
            mounted.chmod(0o1777)
            os.environ["TMPDIR"] = tempfile.tempdir = str(mounted)
            yield
        finally:
            os.environ["TMPDIR"] = tempfile.tempdir = before
            subprocess.run(["umount", str(mounted)], check=True)


def _plain(own: Path) -> str:
    """Return what a script that writes nothing finds under plain Python."""
    (own / "train.py").write_text(source("", "pass"))
    done = subprocess.run([sys.executable, "train.py", "1"], cwd=own, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _tried(setting: str, own: str, run: str) -> dict[str, Any]:
    done = _in_setting(setting, "--one", own, run)
    try:
        came: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"failed": " ".join(done.stderr.strip().splitlines()[-1:]), "seen": []}
    return came


def _in_setting(setting: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*SETTINGS[setting], sys.executable, "-m", "benchmarks.checks.users_files.measure", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    if setting.startswith("ordinary"):
        environment["HOME"] = arguments[1]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)


def is_as_it_should_be(found: dict[str, Any]) -> bool:
    """Return whether nothing was changed, and each script has trained on the samples of plain Python."""
    return not (found["changed"] or found["failed"] or found["other samples"])


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return 1 if something is not as it should be."""
    if arguments and arguments[0] == "--one":
        print(json.dumps(try_one(*arguments[1:3])))
        return 0
    if arguments and arguments[0] == "--start":
        print(start_seconds(arguments[1]))
        return 0
    parser = make_parser(__doc__)
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.settings) - SETTINGS.keys()):
        parser.error(f"there is no setting {', '.join(unknown)} here; there are {', '.join(SETTINGS)}")
    is_right = True
    for setting in to_measure("users_files", parsed.settings or list(SETTINGS)):
        found = measure(setting)
        add_row("users_files", setting, found, code=CODE)
        is_right = is_right and is_as_it_should_be(found)
        print(f"{setting}: {'' if is_as_it_should_be(found) else 'NOT AS IT SHOULD BE: '}{found}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
