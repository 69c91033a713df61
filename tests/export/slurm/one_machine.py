"""Slurm on this machine alone, without systemd: started for one command, gone after it.

    python tests/export/slurm/one_machine.py [--nodes 2] COMMAND...

Needs Debian's slurm-wlm and munge, and to be root. Everything Slurm writes lies in a temporary folder; the command
finds the cluster by SLURM_CONF. With more than one node, each is a slurmd of its own under a name of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo")
_START_SECONDS = 30.0

_CONFIG = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
# Nothing that needs a database, a mail program or the system's service manager.
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
# As many cores as asked for, also where the machine has fewer.
SlurmdParameters=config_overrides
NodeName={names} NodeHostname={host} NodeAddr=127.0.0.1 Port={slurmd_ports} CPUs={cores} RealMemory=512 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs() -> list[str]:
    """Return which of Slurm's programs are not here."""
    return [name for name in PROGRAMS if _find(name) is None]


@contextlib.contextmanager
def cluster(nodes: int = 1, cores: int = 2) -> Iterator[dict[str, str]]:
    """Run Slurm with so many nodes of so many cores; yield the environment in which its commands find it.

    Raises:
        RuntimeError: If it did not come up; the message holds the ends of its logs.
    """
    # Munge refuses a folder that others may write to, and sockets have short names: not below pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    names = [f"node{number}" for number in range(1, nodes + 1)] if nodes > 1 else [socket.gethostname()]
    started: list[subprocess.Popen[bytes]] = []
    try:
        _write_files(folder, names, cores)
        key = ["--key-file", str(folder / "munge.key"), "--socket", str(folder / "munge.socket")]
        files = [f"--{what}-file={folder}/munge.{what}" for what in ("pid", "log", "seed")]
        started.append(_start(["munged", "--foreground", "--force", *key, *files], environment, folder))
        _await(lambda: (folder / "munge.socket").exists(), started, folder)
        started.append(_start(["slurmctld", "-D", "-i"], environment, folder))
        for name in names:
            started.append(_start(["slurmd", "-D", *(["-N", name] if nodes > 1 else [])], environment, folder))
        _await(lambda: _idle_nodes(environment) == nodes, started, folder)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # Jobs outlive the daemons: their steps have let go of them, to survive a daemon's restart.
        for left in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if left.environ().get("SLURM_CONF") == environment["SLURM_CONF"]:
                    left.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(folder: Path, names: list[str], cores: int) -> None:
    ports = _free_ports(1 + len(names))
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    text = _CONFIG.format(
        host=socket.gethostname(),
        folder=folder,
        ports=ports,
        names=",".join(names),
        slurmd_ports=",".join(map(str, ports[1:])),
        cores=cores,
    )
    (folder / "slurm.conf").write_text(text)


def _free_ports(count: int) -> list[int]:
    """Return TCP ports that nobody listens on; all are held until the last is found, so that no two are equal."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _find(program: str) -> str | None:
    # A user's PATH often leaves the system's programs out.
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def _start(command: list[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    path = _find(command[0])
    assert path is not None
    with (folder / f"{command[0]}.out").open("ab") as log:
        return subprocess.Popen([path, *command[1:]], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _idle_nodes(environment: dict[str, str]) -> int:
    command = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return len(set(done.stdout.split()))


def _await(is_there: Callable[[], bool], started: list[subprocess.Popen[bytes]], folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not is_there():
        if time.monotonic() > deadline or any(process.poll() is not None for process in started):
            logs = [path for path in sorted(folder.iterdir()) if path.suffix in (".log", ".out")]
            ends = "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-2000:]}" for path in logs)
            raise RuntimeError(f"Slurm did not start on this machine.\n{ends}")
        time.sleep(0.1)


def main() -> int:
    """Run one command in a cluster; return its exit code."""
    parser = argparse.ArgumentParser(description="Run a command beside a Slurm cluster on this machine alone.")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2, help="of each node, whether the machine has them or not")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    parsed = parser.parse_args()
    if missing := missing_programs():
        print(f"{', '.join(missing)} not found: apt-get install slurm-wlm munge", file=sys.stderr)
        return 2
    # Ended politely, leave no daemon behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with cluster(parsed.nodes, parsed.cores) as environment:
        return subprocess.run(parsed.command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
