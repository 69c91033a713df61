"""`autoaccel launch`: from what a person types to what is started."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.export import containers, launching
from autoaccel.export.launching import (
    LaunchOptions,
    RunOptions,
    make_job,
    render_job,
    show_job,
    start_job,
    why_not_here,
)
from autoaccel.records.base import write_json
from autoaccel.records.launch import Job
from autoaccel.records.machine import Gpu, Machine
from autoaccel.records.recipe import Recipe
from autoaccel.runs.workloads import find_workload

from .samples import make_recipe

WriteModel = Callable[..., Path]
ONE_MACHINE = Path(__file__).parent / "slurm" / "one_machine.py"
HAS_SLURM = all(
    shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("munged", "slurmctld", "slurmd")
)


@pytest.fixture
def recipe(machine: Machine) -> Recipe:
    """A recipe for two ranks on a machine of four cores."""
    return make_recipe(machine, {"threads.intra_op": 4, "parallel.world_size": 2})


@pytest.fixture
def asked(recipe: Recipe, write_model: WriteModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a recipe and a job of what a person says."""
    monkeypatch.chdir(tmp_path)
    workload = find_workload(str(write_model(name="my model.py")), ("--lr", "0.1 0.2"))
    monkeypatch.setattr(launching.shutil, "which", lambda program, path=None: None)

    def made(*, environ=None, run=None, gpus: int = 0, own_ranks: int = 2, **options) -> tuple[Recipe, Job]:
        chosen = msgspec.structs.replace(
            recipe,
            machine=msgspec.structs.replace(recipe.machine, gpus=(Gpu("A", 1, "1"),) * gpus),
            settings={**recipe.settings, "parallel.world_size": own_ranks},
        )
        told = RunOptions(Path("recipe.json"), workload, **(run or {}))
        return chosen, make_job(chosen, told, LaunchOptions(**options), environ or {})

    return made


@pytest.fixture
def launch(asked):
    """Return a function that makes a job of what a person says."""
    return lambda **options: asked(**options)[1]


def test_every_rank_is_told_all_by_absolute_paths(launch, tmp_path: Path) -> None:
    run = {
        "seed": 7, "save": Path("w.pt"), "checkpoint": Path("c.pt"), "checkpoint_every": "5m",
        "accept_other_machine": True,
    }  # fmt: skip
    assert launch(run=run).arguments == (
        *("run", f"{tmp_path}/recipe.json", f"{tmp_path}/my model.py", "--seed", "7"),
        *("--save", f"{tmp_path}/w.pt", "--checkpoint", f"{tmp_path}/c.pt", "--checkpoint-every", "5m"),
        "--accept-other-machine",
        *("--", "--lr", "0.1 0.2"),
    )


@pytest.mark.parametrize(("options", "ranks", "threads"), [({}, 2, "2"), ({"ranks": 4}, 4, "1")])
def test_ranks_and_threads_are_the_recipe_s_unless_told(asked, options, ranks: int, threads: str) -> None:
    recipe, job = asked(**options)
    assert job.ranks == ranks
    assert render_job(recipe, job).environment["OMP_NUM_THREADS"] == threads


def test_the_launcher_fits_what_is_there(launch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch().target == "torchrun"
    assert launch(nodes=2).target == "torchrun"
    assert launch(own_ranks=1).target == "local"
    assert launch(own_ranks=1, ranks=2).target == "torchrun"
    assert launch(own_ranks=2, ranks=1).target == "torchrun"  # local would start two
    monkeypatch.setattr(launching.shutil, "which", lambda program, path=None: f"/usr/bin/{program}")
    assert launch(nodes=2).target == "slurm"
    assert launch().target == "torchrun"


def test_hosts_say_how_many_machines_and_where_rank_0_is(launch) -> None:
    request = launch(hosts=("a", "b"), target="mpirun")
    assert (request.nodes, request.main_address) == (2, "a")
    assert launch(nodes=2, target="torchrun").main_address == os.uname().nodename
    told = launch(nodes=2, target="torchrun", environ={"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000"})
    assert (told.main_address, told.main_port) == ("10.0.0.1", 4000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "--nodes must be at least 1, got 0"),
        ({"ranks": 0}, "--ranks must be at least 1, got 0"),
        ({"nodes": 3, "hosts": ("a", "b")}, "--hosts must name as many machines as --nodes, got 2 for 3"),
        ({"hosts": ("a\n#SBATCH --wrap",)}, "--hosts must be names separated by commas"),
        ({"hosts": ("--prefix",)}, "--hosts must be names separated by commas"),
        ({"target": "local", "nodes": 2}, "--with local starts ranks only on this machine, got --nodes 2"),
        ({"target": "local", "ranks": 3}, "the recipe's number of ranks, 2, got --ranks 3"),
        ({"target": "slurm", "ranks": 1}, "cannot start one rank for a recipe with 2 ranks"),
        ({"target": "mpirun", "nodes": 2}, "needs the names of the 2 machines. Give them as --hosts A,B"),
        ({"target": "mpirun", "max_restarts": 1}, "mpirun does not restart a failed training"),
        ({"max_restarts": -1}, "--max-restarts must be at least 0, got -1"),
        ({"slurm_options": ("time=1",)}, "--slurm-option requires --with slurm, but the launcher is torchrun"),
        (
            {"target": "slurm", "slurm_options": ("time=1\n#SBATCH --x",)},
            "--slurm-option must be a long option of sbatch",
        ),
        ({"target": "slurm", "slurm_options": ("--time=1",)}, "--slurm-option must be a long option of sbatch"),
        ({"environ": {"MASTER_PORT": "x"}}, "MASTER_PORT must be a port, from 1 to 65535, got x"),
        ({"run": {"save": Path("no/such/w.pt")}}, "--save no/such/w.pt: its folder does not exist"),
    ],
)
def test_what_cannot_be_met_is_told_before_anything_starts(launch, options, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        launch(**options)


def test_what_is_shown_is_what_a_shell_reads_back(asked) -> None:
    text = show_job(*asked(target="torchrun"))
    assert text.count("\n") == 1
    words = shlex.split(text)
    assert words[:4] == ["OMP_NUM_THREADS=2", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", sys.executable, "-m"]
    assert words[-3:] == ["--", "--lr", "0.1 0.2"]


def test_on_several_machines_the_same_is_to_be_typed_on_each(asked, tmp_path: Path) -> None:
    text = show_job(*asked(target="torchrun", hosts=("a", "b")))
    comment, command = text.splitlines()
    assert comment == f"# On each of 2 machines, in {tmp_path}: a, b"
    assert command.startswith("OMP_NUM_THREADS=2 ")


def test_slurm_s_script_is_shown_whole(asked) -> None:
    text = show_job(*asked(target="slurm", nodes=2, gpus=2, slurm_options=("time=02:00:00", "exclusive")))
    assert text.startswith("#!/bin/bash\n")
    assert "#SBATCH --job-name=my-model\n" in text
    assert "#SBATCH --gpus-per-node=2\n#SBATCH --chdir=" in text
    assert "#SBATCH --time=02:00:00\n#SBATCH --exclusive\n" in text


def test_folders_reach_a_container_once(launch, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    run = {"save": Path("weights/w.pt"), "checkpoint": Path("/tmp/c.pt")}
    folders = {str(tmp_path), "/tmp"} if Path("/tmp") not in tmp_path.parents else {"/tmp"}
    assert set(launch(run=run, image="x").mounts) == folders


@pytest.mark.parametrize(
    ("options", "environ", "in_docker", "reason"),
    [
        ({"target": "slurm", "nodes": 2}, {}, False, ""),
        (
            {"target": "slurm", "nodes": 2},
            {},
            True,
            "this process is in a Docker container, but slurm must",
        ),
        ({"target": "mpirun", "hosts": ("a", "b")}, {}, True, "Name the image with --in"),
        ({"target": "mpirun"}, {}, True, ""),
        ({"target": "torchrun", "nodes": 2}, {}, True, ""),
        ({"target": "slurm"}, {"APPTAINER_CONTAINER": "/me/x.sif"}, False, "this process is in an Apptainer container"),
    ],
)
def test_inside_a_container_launchers_that_live_outside_are_only_told(
    launch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options,
    environ: dict[str, str],
    in_docker: bool,
    reason: str,
) -> None:
    monkeypatch.setattr(containers, "DOCKER_MARK", tmp_path / "mark")
    if in_docker:
        containers.DOCKER_MARK.touch()
    found = why_not_here(launch(environ=environ, **options))
    assert reason in found
    assert bool(found) == bool(reason)


def test_apptainer_knows_its_own_image(asked) -> None:
    text = show_job(*asked(target="slurm", environ={"APPTAINER_CONTAINER": "/me/x.sif"}, gpus=1))
    assert "apptainer exec --nv --bind " in text
    assert " /me/x.sif python -m autoaccel run " in text
    assert "x.sif" not in show_job(*asked(target="torchrun", environ={"APPTAINER_CONTAINER": "/me/x.sif"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "mpirun"}, "mpirun is not on this machine. Install Open MPI: apt install openmpi-bin"),
        ({"target": "slurm"}, "sbatch is not on this machine. Run this on a login node of the cluster"),
        ({"target": "torchrun", "image": "x.sif"}, "apptainer is not on this machine"),
    ],
)
def test_a_launcher_that_is_missing_is_told_with_what_installs_it(asked, options, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        start_job(*asked(**options), print)


def test_an_mpirun_that_is_not_open_mpi_s_is_told(asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\necho HYDRA build details:\n")
    mpirun.chmod(0o755)
    monkeypatch.setattr(launching.shutil, "which", lambda program, path=None: str(mpirun))
    with pytest.raises(BadRequestError, match="mpirun is not Open MPI's"):
        start_job(*asked(target="mpirun"), print)


def autoaccel(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "autoaccel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.mark.parametrize("options", [(), ("--with", "slurm"), ("--with", "mpirun", "--hosts", "a,b")])
def test_a_dry_run_prints_and_starts_nothing(
    recipe: Recipe, write_model: WriteModel, tmp_path: Path, options: tuple[str, ...]
) -> None:
    model = write_model("raise SystemExit('started')")
    write_json(tmp_path / "recipe.json", recipe)
    before = sorted(tmp_path.rglob("*"))
    done = autoaccel("launch", "recipe.json", model, *options, "--dry-run", "--", "--lr", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"-m autoaccel run {tmp_path}/recipe.json {model} -- --lr 1" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.end_to_end
def test_the_ranks_are_started_and_their_exit_code_is_passed_on(
    recipe: Recipe, write_model: WriteModel, tmp_path: Path
) -> None:
    # One rank, so that it is whole without any other.
    alone = msgspec.structs.replace(recipe, settings={"threads.intra_op": 1}, baseline=recipe.baseline)
    write_json(tmp_path / "recipe.json", alone)
    code = """
        tiny = build
        def build():
            if sys.argv[1:] == ["--fail"]:
                raise RuntimeError("no luck")
            assert os.environ["WORLD_SIZE"] == "1"
            return tiny()
    """
    launch = ("launch", "recipe.json", write_model(code), "--with", "torchrun", "--accept-other-machine")
    done = autoaccel(*launch, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "trained 15 steps" in done.stdout
    failed = autoaccel(*launch, "--", "--fail", cwd=tmp_path)
    assert failed.returncode != 0
    assert "no luck" in failed.stderr


@pytest.mark.end_to_end
@pytest.mark.skipif(not HAS_SLURM or os.geteuid() != 0, reason="needs root and: apt install slurm-wlm munge")
def test_slurm_refuses_what_it_could_never_start_and_trains_the_rest(
    recipe: Recipe, write_model: WriteModel, tmp_path: Path
) -> None:
    write_json(tmp_path / "recipe.json", msgspec.structs.replace(recipe, settings={"threads.intra_op": 1}))
    launch = f"{sys.executable} -m autoaccel launch recipe.json {write_model()} --with slurm --accept-other-machine"
    refused = f"{launch} --nodes 9; echo refused with $?; squeue --noheader"
    trained = f"{launch} && until grep ^accuracy: *.out; do sleep 0.1; done"
    typed = f"{refused}; {trained}"
    command = [sys.executable, ONE_MACHINE, "--cores", "4", "timeout", "100", "bash", "-c", typed]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Slurm rejected this job: allocation failure: Requested node configuration is not available" in done.stderr
    exit_code, submitted, follow, *_ = done.stdout.splitlines()  # and no line of squeue's
    assert exit_code == "refused with 2"
    assert submitted.startswith("Submitted as job ")
    assert follow.startswith(f"Follow its output: tail -F {tmp_path}/model-")
