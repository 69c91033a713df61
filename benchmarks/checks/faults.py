"""Faults planted in trainings, in real processes: is each named, does the search go on, is anything left behind?

    python -m benchmarks.checks.faults [NAME ...] [--minutes N]

A training of moments is tuned for four minutes at most, once as a function build() and once as a script. Some settings
break it: under bfloat16 its loss does something bad in the fourth step, or with four loader workers its data set does.
The best of all others is two workers, by a factor that no neighbour of this machine can change, because samples wait
instead of computing. Without the fault the settings that break it look faster still, so that the search wants them.

A row is a fault and a kind of training, in benchmarks/results/faults.jsonl: what the failed trials are called, seconds
until the search went on after the longest of them, what is left five seconds after the run (processes, files in its
temporary folder and in /dev/shm), and what was picked. Exit code 1 if anything is not as it should be.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import psutil

from benchmarks.harness.command_line import make_parser
from benchmarks.harness.minutes import LEAVING_SECONDS, MINUTES, ending_in_time
from benchmarks.harness.rows import add_row, to_measure

BUDGET_SECONDS = 240
_MOST_SECONDS = 420.0  # of a run, whatever happens
_LEFT_SECONDS = 5.0  # after the run: what is there then, is left
_MARK = "AUTOACCEL_FAULT_SUITE"  # a variable of all processes of a run
CODE = ("autoaccel", "benchmarks/checks/faults.py")

Kind = Literal["build", "script"]
BFLOAT16 = {"precision.autocast": "bfloat16"}
FOUR_WORKERS = {"loader.workers": 4}


class Fault(NamedTuple):
    """What goes wrong, and how it should be called."""

    breaks: dict[str, object]  # the settings under which it does; none: the harness itself does something
    code: str  # in the loss, or in the data set of a loader worker
    kinds: tuple[str, ...]  # of Failure
    said: str = ""  # part of its message
    before: str = ""  # a shell command, in a mount namespace of the run's own


_LIMITED = """
import resource
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (int(open("/proc/self/statm").read().split()[0]) * 4096 + (64 << 20), most))
torch.empty(1 << 32, dtype=torch.uint8).fill_(1)
"""
_DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
os.wait()
raise RuntimeError("a daemon is left")
"""
_THREADS = """
import threading
def spin():
    while True:
        time.sleep(0.001)
for _ in range(20):
    threading.Thread(target=spin).start()
raise RuntimeError("threads are left")
"""
_CGROUP = """
group = Path({group!r})
(group / "cgroup.procs").write_text(str(os.getpid()))
hoard = []
while True:
    hoard.append(torch.ones(1 << 24))
"""
_FULL_DISK = """
with open(os.path.join({where}, "big"), "wb") as file:
    while True:
        file.write(bytes(1 << 20))
"""

FAULTS = {
    "segmentation fault": Fault(BFLOAT16, "import ctypes; ctypes.string_at(0)", ("crashed",), "SIGSEGV"),
    "abort": Fault(BFLOAT16, "os.abort()", ("crashed",), "SIGABRT"),
    "killed": Fault(BFLOAT16, "os.kill(os.getpid(), 9)", ("memory",), "SIGKILL"),
    "memory limit": Fault(BFLOAT16, _LIMITED, ("memory",)),
    "memory of a cgroup": Fault(BFLOAT16, _CGROUP, ("memory",), "SIGKILL"),
    "hang in C": Fault(BFLOAT16, "import ctypes; ctypes.PyDLL(None).pause()", ("hung",)),
    "hang in Python": Fault(BFLOAT16, "while True: pass", ("hung",)),
    "deadlocked loader worker": Fault(
        FOUR_WORKERS, "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()", ("hung",)
    ),
    "lost loader worker": Fault(FOUR_WORKERS, "os.kill(os.getpid(), 9)", ("raised",), "DataLoader worker"),
    "endless output": Fault(BFLOAT16, "while True: print('x' * 1000)", ("hung",)),
    "full disk": Fault(
        BFLOAT16,
        _FULL_DISK,
        ("raised",),
        "No space left",
        before="for one in $TMPDIR /var/tmp; do mount -t tmpfs -o size=64m none $one; done",
    ),
    "NaN": Fault(BFLOAT16, "loss = loss * float('nan')", ("diverged",), "finite"),
    "divergence after 100 steps": Fault(
        BFLOAT16, "loss = loss * (float('inf') if STEPS[0] > 100 else 1)", ("diverged",), "loss"
    ),
    "threads left running": Fault(BFLOAT16, _THREADS, ("raised",), "threads are left"),
    "daemon": Fault(BFLOAT16, _DAEMON, ("raised",), "a daemon is left"),
    "os._exit(0)": Fault(BFLOAT16, "os._exit(0)", ("exited",)),
    "sys.exit(0)": Fault(BFLOAT16, "sys.exit(0)", ("raised", "exited")),
    "exception": Fault(BFLOAT16, "raise RuntimeError('no bfloat16 here')", ("raised",), "no bfloat16 here"),
    "everything stopped": Fault({}, "", ()),
}  # fmt: skip

_PARTS = """
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

torch.manual_seed(0)
torch.set_num_threads(1)
INPUTS = torch.randn(72, 8)
TARGETS = (INPUTS.sum(dim=1) > 0).long()
STEPS = [0]
AUTOCAST = [False]  # in the last call of the model: what a script's model returns has its own type again


class Noted(nn.Sequential):
    def forward(self, inputs):
        AUTOCAST[0] = torch.is_autocast_enabled("cpu")
        return super().forward(inputs)


class Waiting(Dataset):
    def __len__(self):
        return 72

    def __getitem__(self, index):
        worker = get_worker_info()
        if worker is not None and worker.num_workers == 4:
            pass
{in_data}
        time.sleep(0.002)
        return INPUTS[index], TARGETS[index]


def loss_of(output, target):
    STEPS[0] += output.requires_grad
    loss = nn.functional.cross_entropy(output.float(), target)
    if not AUTOCAST[0]:
        time.sleep({waits})
    elif STEPS[0] > 3:
        pass
{in_loss}
    return loss


model = Noted(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
"""
_BUILD = """
import autoaccel


def build():
    return autoaccel.Training(
        model=model, train_data=Waiting(), eval_data=TensorDataset(INPUTS, TARGETS), batch_size=16, epochs=40,
        loss=loss_of, optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-2), evaluate="accuracy",
        settings={"threads.intra_op": 1},
    )
"""
_SCRIPT = """
if __name__ == "__main__":
    loader = DataLoader(Waiting(), batch_size=16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(40):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_of(model(inputs), targets).backward()
            optimizer.step()
        print(f"epoch {epoch} done", flush=True)
"""
_SPACE = """
title = "planted"
[knobs]
"loader.workers" = [0, 2{more}]
{autocast}
"""


def training(fault: Fault, kind: Kind, group: Path | None = None) -> tuple[str, str]:
    """Return a training in which a fault is planted, and the space of its search."""
    where = "os.environ['TMPDIR']" if kind == "build" else "os.getcwd()"
    code = fault.code.replace("{where}", where).replace("{group!r}", repr(str(group)))
    in_data = code if "loader.workers" in fault.breaks else ""
    in_loss = code if "precision.autocast" in fault.breaks else ""
    parts = _PARTS.replace("{in_data}", _indented(in_data, 12)).replace("{in_loss}", _indented(in_loss, 8))
    parts = parts.replace("{waits}", "0.03" if in_loss else "0")
    space = _SPACE.format(
        more=", 4" if in_data else "",
        autocast='"precision.autocast" = ["off", "bfloat16"]' if in_loss else "",
    )
    return parts + (_BUILD if kind == "build" else _SCRIPT), space


def _indented(code: str, spaces: int) -> str:
    return "\n".join(f"{' ' * spaces}{line}" for line in code.strip().splitlines())


@contextlib.contextmanager
def memory_group() -> Iterator[Path | None]:
    """Yield a cgroup of 512 MiB, of version 2 or 1; None where this user may make none."""
    for parent, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        group = Path(parent) / f"autoaccel-faults-{os.getpid()}"
        if not Path(parent, "cgroup.procs").exists():
            continue
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(512 << 20))
            yield group
            return
        except OSError:
            continue
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
    yield None


def measure(name: str, kind: Kind) -> dict[str, Any]:
    """Return what came of a training with a fault in it; why it could not be planted here, under "not here"."""
    fault = FAULTS[name]
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(memory_group()) if "group" in fault.code else None
        if "group" in fault.code and group is None:
            return {"not here": "this user may make no cgroup"}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        if fault.before and not _may_mount():
            return {"not here": "this user may not mount"}
        own, temporary = folder / "own", folder / "temporary"
        own.mkdir()
        temporary.mkdir()
        code, space = training(fault, kind, group)
        (own / "model.py").write_text(code)
        (own / "space.toml").write_text(space)
        mark = f"{name} {kind} {time.time()}"
        started = time.monotonic()
        done = _tuned(fault, own, {**os.environ, "TMPDIR": str(temporary), _MARK: mark})
        found = {"exit_code": done[0], "seconds": round(time.monotonic() - started, 1), "said": done[1]}
        left = _marked(mark)
        found["left_processes"] = [" ".join(process.cmdline())[:80] for process in left]
        for process in left:
            process.kill()
        found["left_files"] = _lines(own / "left")
        found["left_shared"] = _lines(own / "shared")
        found |= _outcome(fault, own / "run")
        return found


def _tuned(fault: Fault, own: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Tune it; return the exit code, and the last line of an error."""
    options = "--trainings 2000 --max-drop 20% --space space.toml --output run"
    # Two loader workers are set, so that the settings that break it are the first that are tried.
    options += " --set loader.workers=2" if "precision.autocast" in fault.breaks else ""
    tune = f"{sys.executable} -m autoaccel tune model.py --budget {BUDGET_SECONDS}s {options}"
    line = f"{tune}; code=$?; sleep {_LEFT_SECONDS}; ls -A $TMPDIR > left"
    if _may_mount():  # in /dev/shm of its own, others leave nothing
        mounts = f"mount -t tmpfs none /dev/shm; {fault.before or 'true'}"
        line = f"unshare --mount bash -c '{mounts}; {line}; ls -A /dev/shm > shared; exit $code'"
    else:
        line = f"{line}; exit $code"
    with (own / "printed").open("wb") as printed, subprocess.Popen(
        ["bash", "-c", line], cwd=own, env=environment, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:  # fmt: skip
        if not fault.breaks:
            _stop_everything(own / "printed", environment[_MARK])
        try:
            code = process.wait(_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            for one in _marked(environment[_MARK]):
                one.kill()
            return -1, f"it did not end within {_MOST_SECONDS:.0f} s"
    lines = (own / "printed").read_text(errors="replace").splitlines()
    wrong = [line for line in lines if line.startswith(("autoaccel:", "Traceback"))]
    return code, wrong[-1] if wrong else ""


def _may_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def _stop_everything(printed: Path, mark: str) -> None:
    """Stop all processes of a run for a while, in its first trial."""
    end = time.monotonic() + _MOST_SECONDS / 2
    while time.monotonic() < end and "start trial 1" not in printed.read_text(errors="replace"):
        time.sleep(0.2)
    stopped = [process for process in _marked(mark) if process.status() != psutil.STATUS_STOPPED]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        time.sleep(5.0 if number == signal.SIGSTOP else 0.0)


def _marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that have the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _outcome(fault: Fault, run: Path) -> dict[str, Any]:
    """Return how a run saw the fault, and what it picked."""
    trials = [json.loads(line) for line in _lines(run / "trials.jsonl")]
    failed = [one for one in trials if one["outcome"]["type"] == "failure"]
    recipe = json.loads((run / "recipe.json").read_text()) if (run / "recipe.json").exists() else None
    called = sorted({f"{one['outcome']['kind']}: {one['outcome']['message']}"[:200] for one in failed})
    picked = {} if recipe is None else {
        name: value for name, value in recipe["settings"].items() if value != recipe["baseline"]["settings"].get(name)
    }  # fmt: skip
    broken = [one for one in trials if fault.breaks and fault.breaks.items() <= one["settings"].items()]
    return {
        "trials": len(trials),
        "tried": len(broken),
        "called": called,
        "is_named": all(
            one["outcome"]["kind"] in fault.kinds and fault.said in one["outcome"]["message"] for one in failed
        ),
        "blamed_others": sum(1 for one in failed if one not in broken),
        "seconds_until_on": round(max((one["spent_seconds"] for one in failed), default=0.0), 1),
        "picked": picked,
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def is_as_it_should_be(fault: Fault, found: dict[str, Any]) -> bool:
    """Return whether a fault was named, nothing is left, and the best of all other settings was picked."""
    if "not here" in found:
        return True
    nothing_left = not (found["left_processes"] or found["left_files"] or found["left_shared"])
    seen = bool(found["called"]) or not fault.breaks
    picked = found["picked"].get("loader.workers") == 2 and "precision.autocast" not in found["picked"]
    if not fault.breaks:
        picked = found["picked"].get("loader.workers") == 2
    return found["exit_code"] == 0 and seen and found["is_named"] and nothing_left and picked


def main(arguments: Sequence[str]) -> int:
    """Measure what is wanted and was not measured with today's code; return 1 if something is not as it should be."""
    rows: dict[str, Callable[[], dict[str, Any]]] = {
        f"{name}, {kind}": (lambda name=name, kind=kind: measure(name, kind))  # type: ignore[misc]  # each its own
        for kind in ("build", "script")
        for name in FAULTS
    }
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(rows))
    parser.add_argument("--minutes", **MINUTES)
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - rows.keys()):
        parser.error(f"there is no row {', '.join(unknown)} here; there are {'; '.join(rows)}")
    is_right = True
    with ending_in_time(parsed.minutes) as seconds_left:
        for name in to_measure("faults", parsed.names or list(rows)):
            if seconds_left() < _MOST_SECONDS + LEAVING_SECONDS:
                print(f"{name}: left for another time")
                break
            found, fault = rows[name](), FAULTS[name.rpartition(", ")[0]]
            right = is_as_it_should_be(fault, found)
            found["is_right"] = right
            if fault.breaks and not found.get("tried", 1):
                found = {"not here": "the settings that break it were not tried in time"}
            if "not here" in found:
                add_row("faults", name, {}, code=CODE, status="incomplete", reason=found["not here"])
            else:
                add_row("faults", name, found, code=CODE)
            is_right = is_right and right
            print(f"{name}: {'' if right else 'NOT AS IT SHOULD BE: '}{found}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
