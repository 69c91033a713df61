"""What targets render, and what launchers make of it: each that is installed really starts ranks."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from autoaccel.export.containers import is_apptainer_image
from autoaccel.export.registry import find_target
from autoaccel.export.slurm import batch_of
from autoaccel.records.launch import Rendered
from tests.cases import rest_is_long

from .samples import JOB, make_job, make_server_recipe

ONE_MACHINE = Path(__file__).parent / "slurm" / "one_machine.py"
HAS_SLURM = all(
    shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("munged", "slurmctld", "slurmd")
)

RANK = ("/venv/bin/python", "-m", "autoaccel", *JOB.arguments)


def rendered(target: str, *, gpus: int = 0, **changes: object) -> Rendered:
    """Return what is rendered for a job of two ranks on one machine, with some fields changed."""
    return find_target(target).render(make_server_recipe(gpus), make_job(target, **changes))


def script_of(found: Rendered) -> str:
    """Return the only file that was rendered, which the command reads."""
    ((name, text),) = found.files.items()
    assert found.command == ("sbatch", name)
    return text


def options_of(script: str) -> dict[str, str]:
    """Return the options in a batch script's head."""
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH ")]
    return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines)}


def test_local_is_autoaccel_itself() -> None:
    assert rendered("local").command == RANK


def test_torchrun_on_one_machine_gets_the_recipe_s_threads() -> None:
    plan = rendered("torchrun")
    assert plan.environment["OMP_NUM_THREADS"] == "3"
    assert plan.machines == 1
    assert plan.command == (
        *("/venv/bin/python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "autoaccel", *JOB.arguments),
    )


def test_torchrun_on_several_machines_meets_at_the_first() -> None:
    plan = rendered("torchrun", nodes=3, hosts=("a", "b", "c"), main_address="a", max_restarts=2)
    assert plan.machines == 3
    command = " ".join(plan.command)
    assert "--nnodes 3 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint a:29400 --rdzv-id model" in command
    assert "--max-restarts 2" in command
    assert "--standalone" not in command


def test_mpirun_leaves_threads_unbound_and_passes_the_meeting_point_to_other_machines() -> None:
    assert rendered("mpirun").command == ("mpirun", "--bind-to", "none", "-n", "2", *RANK)
    several = rendered("mpirun", nodes=2, hosts=("a", "b"), main_address="a", passed_on=("PATH",))
    assert several.command == (
        *("mpirun", "--bind-to", "none", "-n", "4", "--host", "a:2,b:2"),
        *("-x", "MASTER_ADDR=a", "-x", "MASTER_PORT=29500", "-x", "PATH", *RANK),
    )


def test_mpirun_is_told_what_it_would_refuse_without() -> None:
    command = rendered("mpirun", is_root=True, ranks=5).command
    assert "--allow-run-as-root" in command
    assert "--oversubscribe" in command
    assert "--oversubscribe" not in rendered("mpirun", ranks=4).command


def test_slurm_is_asked_for_the_machine_that_the_recipe_knows() -> None:
    plan = rendered("slurm", nodes=2, gpus=4, folder="/my work", hosts=("n1", "n2"))
    script = script_of(plan)
    assert script.startswith("#!/bin/bash\n#SBATCH ")
    assert options_of(script) == {
        "job-name": "model",
        "nodes": "2",
        "ntasks-per-node": "2",
        "cpus-per-task": "4",
        "gpus-per-node": "4",
        "nodelist": "n1,n2",
        "chdir": "/my work",
        "output": "model-%j.out",
        "open-mode": "append",
        "requeue": "",
    }
    last = shlex.split(script.splitlines()[-1])
    assert last[:4] == ["srun", "--cpu-bind=none", "--cpus-per-task=4", "--kill-on-bad-exit=1"]
    assert tuple(last[4:]) == RANK


def test_slurm_options_of_the_user_win_and_reach_the_step() -> None:
    options = {"cpus-per-task": "2", "partition": "a b", "exclusive": "", "output": "/x/%j"}
    script = script_of(rendered("slurm", slurm_options=options))
    assert options_of(script)["cpus-per-task"] == "2"
    assert options_of(script)["partition"] == "a b"
    assert "#SBATCH --exclusive\n" in script
    assert "srun --cpu-bind=none --cpus-per-task=2 " in script
    recipe = make_server_recipe()
    assert batch_of(recipe, make_job("slurm", slurm_options=options)).output_of("7") == Path("/x/7")
    assert batch_of(recipe, make_job("slurm")).output_of("7") == Path("/home/me/model-7.out")


def test_no_core_is_lost_to_a_rank_when_ranks_outnumber_cores() -> None:
    assert "#SBATCH --cpus-per-task=1\n" in script_of(rendered("slurm", ranks=9))


def test_docker_runs_each_rank_where_its_launcher_s_variables_reach_it() -> None:
    command = rendered("mpirun", image="me/image:1", mounts=("/runs", "/home/me"), gpus=1).command
    start = command.index("docker")
    assert command[:start] == ("mpirun", "--bind-to", "none", "-n", "2")
    text = " ".join(command[start:])
    assert text.startswith(
        "docker run --rm --gpus all --network host --ipc host --volume /runs:/runs --volume /home/me:/home/me"
    )
    assert "--env OMPI_COMM_WORLD_RANK" in text
    assert command[command.index("me/image:1") :] == ("me/image:1", "python", *RANK[1:])


def test_apptainer_runs_each_rank_of_slurm() -> None:
    found = rendered("slurm", image="my.sif", mounts=("/runs", "/home/me"), gpus=1)
    last = script_of(found).splitlines()[-1]
    assert "apptainer exec --nv --bind /runs,/home/me --pwd /home/me my.sif python -m autoaccel run" in last


def test_torchrun_is_in_the_container_with_its_ranks() -> None:
    command = rendered("torchrun", image="me/image", mounts=("/home/me",)).command
    assert command[0] == "docker"
    passed_on = "--env OMP_NUM_THREADS --env TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    assert f"{passed_on} me/image python -m torch.distributed.run --standalone" in " ".join(command)


@pytest.mark.parametrize(
    ("image", "apptainers"),
    [
        ("a.sif", True),
        ("docker://a/b:1", True),
        ("./box", True),
        ("/box", True),
        ("ghcr.io/a/b:1", False),
        ("a", False),
    ],
)
def test_whose_image_it_is(image: str, apptainers: bool) -> None:
    assert is_apptainer_image(image) == apptainers


# From here on: real launchers.

TELL = """
import json, os
from autoaccel.machine.ranks import rank_of
from autoaccel.records.base import encode
found = rank_of(os.environ)
# One write: lines of several ranks must not mix.
os.write(1, (found and encode(found) or b"null") + b"\\n")
"""
"""A program that prints its rank."""


def ranks_told(command: Sequence[str], environment: dict[str, str] | None = None) -> list[dict[str, object]]:
    """Return the ranks that a launcher's command printed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **(environment or {})}
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "null"))]


def check(told: Sequence[dict[str, object]], launcher: str, local_sizes: Sequence[int]) -> None:
    """Check that the ranks are all there, and agree on where they meet."""
    world_size = sum(local_sizes)
    assert sorted(one["rank"] for one in told) == list(range(world_size))  # type: ignore[type-var]  # numbers, from JSON
    assert {one["world_size"] for one in told} == {world_size}
    assert {one["launcher"] for one in told} == {launcher}
    assert len({(one["main_address"], one["main_port"]) for one in told}) == 1
    by_rank = sorted(told, key=lambda one: str(one["rank"]))
    assert [one["local_rank"] for one in by_rank] == [local for size in local_sizes for local in range(size)]
    assert [one["local_world_size"] for one in by_rank] == [size for size in local_sizes for _ in range(size)]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the file of a program that prints its rank."""
    path = tmp_path / "tell.py"
    path.write_text(TELL)
    return path


def test_ranks_of_torchrun_know_themselves(program: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program)]
    check(ranks_told(command, {"OMP_NUM_THREADS": "1"}), "torchrun", [2])


@pytest.mark.skipif(shutil.which("ompi_info") is None, reason="Open MPI is not here: apt install openmpi-bin")
def test_ranks_of_open_mpi_know_themselves_on_one_machine_and_on_two(program: Path, tmp_path: Path) -> None:
    # More ranks than the recipe's machine has cores, so that Open MPI is told to allow it on a machine of any size.
    options = rendered("mpirun", ranks=5, is_root=os.geteuid() == 0).command[: -len(RANK)]
    check(ranks_told([*options, sys.executable, str(program)]), "mpirun", [5])
    # A second machine, played by this one: what would be typed there by ssh is typed here.
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/bash\nshift\nexec bash -c "$*"\n')
    agent.chmod(0o755)
    hosts = (os.uname().nodename, "other")
    two = rendered("mpirun", nodes=2, hosts=hosts, main_address=hosts[0], is_root=os.geteuid() == 0)
    options = two.command[: -len(RANK)]
    # The variable's name is Open MPI 4's, and 5's.
    variables = {"OMPI_MCA_plm_rsh_agent": str(agent), "PRTE_MCA_plm_ssh_agent": str(agent)}
    check(ranks_told([*options, sys.executable, str(program)], variables), "mpirun", [2, 2])


@pytest.mark.skipif(not HAS_SLURM or os.geteuid() != 0, reason="needs root and: apt install slurm-wlm munge")
def test_ranks_of_slurm_know_themselves_and_its_shells_are_none(program: Path, tmp_path: Path) -> None:
    tell = f"{sys.executable} {program}"
    script = tmp_path / "job.sh"
    output, ended = tmp_path / "output", tmp_path / "ended"
    script.write_text(f"#!/bin/bash\n{tell}\nsrun -n 1 -N 1 {tell}\nsrun -n 3 {tell}\ntouch {ended}\n")
    files = f"--output={output} --error={tmp_path / 'warnings'}"
    # Not --wait: sbatch looks every ten seconds only.
    submit = f"sbatch --nodes=2 --ntasks-per-node=2 {files} {script}; until [ -e {ended} ]; do sleep 0.1; done"
    command = [sys.executable, ONE_MACHINE, "--nodes", "2", "timeout", "60", "bash", "-c", submit]
    subprocess.run(command, check=True)
    told = [json.loads(line) for line in output.read_text().splitlines()]
    assert told[:2] == [None, None]
    check(told[2:], "slurm", [2, 1])
    assert {one["main_address"] for one in told[2:]} == {"node1"}


@pytest.mark.parametrize("reaction", rest_is_long(["SIG_DFL", "SIG_IGN"]))
def test_interrupted_nothing_of_a_job_goes_on_however_stubborn(tmp_path: Path, reaction: str) -> None:
    rank = tmp_path / "rank.py"
    rank.write_text(
        "import os, pathlib, signal, time\n"
        f"signal.signal(signal.SIGTERM, signal.{reaction})\n"
        f"pathlib.Path({str(tmp_path)!r}, 'pid-' + os.environ['RANK']).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    starter = f"""
        import os, sys
        from autoaccel.export import starting
        starting._POLITE_SECONDS = 2.0
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        starting.run_to_end([*torchrun, {str(rank)!r}], {{**os.environ, "OMP_NUM_THREADS": "1"}})
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(starter)], stderr=subprocess.DEVNULL) as process:
        files = [tmp_path / f"pid-{number}" for number in (0, 1)]
        deadline = time.monotonic() + 60
        while not all(file.exists() and file.read_text() for file in files):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        pids = [int(file.read_text()) for file in files]
        process.send_signal(signal.SIGINT)
        process.wait(timeout=300)
    assert process.returncode not in (0, None)
    assert [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"] == []
