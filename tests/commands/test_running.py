"""`autoaccel run` alone, with ranks of its own, and as ranks that a launcher starts: the same training."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from autoaccel.commands.running import present_machine
from autoaccel.commands.use import RecipeUse
from autoaccel.records.base import encode
from autoaccel.records.machine import Machine
from autoaccel.records.recipe import SCHEMA, Baseline, Constraint, Projection, Recipe, SearchSummary, read_recipe
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, default_settings
from autoaccel.workers.starter import WorkerStarter
from tests.this_machine import probe_machine

WriteModel = Callable[..., Path]
WriteRecipe = Callable[..., Path]
SECONDS = 300.0

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="session")
def this_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    with WorkerStarter(tmp_path_factory.mktemp("probe")) as starter:
        return probe_machine(starter)


@pytest.fixture
def write_recipe(tmp_path: Path, this_machine: Machine) -> WriteRecipe:
    """Return a function that writes a recipe of these settings for a model."""

    def write(model: Path, settings: Settings) -> Path:
        whole = default_settings(KnobContext(this_machine)) | {"threads.intra_op": 1} | settings
        recipe = Recipe(
            schema=SCHEMA,
            created="2026-01-01T00:00:00+00:00",
            summary="",
            workload=find_workload(str(model)),
            machine=this_machine,
            settings=whole,
            baseline=Baseline(whole, 0.1, 1.0, 0.0, 1.0, 0),
            comparison=Comparison(1.0, 1.0, 1.0, "within noise", 0.95, 3, 10),
            constraint=Constraint(0.0, True),
            accuracy=None,
            projection=Projection(15, 1.0, 0.0, 0.1, 2.5, 2.5),
            search=SearchSummary(0, 0, 0, 0.0, 0.0, 0, "cpu", "", 20, None, 0.0, {}),
            versions={},
        )
        path = tmp_path / "recipe.json"
        path.write_bytes(encode(recipe))
        return path

    return write


def run(*arguments: object, launcher: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `autoaccel run` with these arguments, under a launcher if there is one."""
    command = [sys.executable, *launcher, "-m", "autoaccel", "run", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **environment}, check=False
    )


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1")


def metric_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the metric that was printed, once and no more."""
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(r"^accuracy: (\S+)", done.stdout, re.MULTILINE)
    return found


@pytest.mark.long
def test_alone_with_own_ranks_and_under_torchrun_it_is_the_same(
    write_model: WriteModel, write_recipe: WriteRecipe, tmp_path: Path
) -> None:
    model = write_model()
    weights = {}
    for name, ranks, launcher in (("alone", 1, ()), ("own", 2, ()), ("torchrun", 2, TORCHRUN)):
        recipe = write_recipe(model, {"parallel.world_size": ranks})
        done = run(recipe, model, "--save", tmp_path / name, launcher=launcher)
        weights[name] = (metric_of(done), torch.load(tmp_path / name))
    for name in ("own", "torchrun"):
        assert weights[name][0] == weights["alone"][0]
        for key, tensor in weights["alone"][1].items():
            torch.testing.assert_close(weights[name][1][key], tensor, rtol=1e-4, atol=1e-5)


def test_a_rank_accepts_the_recipe_of_its_own_machine_whatever_the_build(
    this_machine: Machine, write_model: WriteModel, write_recipe: WriteRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a launcher every rank refused it: the metadata, unlike torch, leaves out the build of a CUDA torch."""
    path = write_recipe(write_model(), {})
    release = str(torch.__version__).partition("+")[0]
    monkeypatch.setattr(importlib.metadata, "version", lambda name: release)
    recipe = read_recipe(path)
    machine = present_machine(RecipeUse(recipe, path, recipe.workload), probes=False)
    assert machine.torch == this_machine.torch


DIES = """
import signal
import torch.distributed as dist

MARK = os.path.join(os.path.dirname(__file__), "died")


def build_dying():
    steps = []

    def step(model, batch):
        steps.append(1)
        last = not dist.is_initialized() or dist.get_rank() == dist.get_world_size() - 1
        if last and len(steps) == 8 and not os.path.exists(MARK):
            open(MARK, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        inputs, target = batch
        return nn.functional.cross_entropy(model(inputs), target)

    return build(loss=None, step=step)
"""


@pytest.mark.parametrize(
    "launcher", [pytest.param((), marks=pytest.mark.long), pytest.param(TORCHRUN, marks=pytest.mark.long)]
)
def test_after_a_killed_rank_it_goes_on_from_its_checkpoint(
    launcher: tuple[str, ...], write_model: WriteModel, write_recipe: WriteRecipe, tmp_path: Path
) -> None:
    model = write_model(DIES)
    recipe = write_recipe(model, {"parallel.world_size": 2})
    undisturbed = metric_of(run(recipe, f"{model}:build"))
    arguments = ("--checkpoint", tmp_path / "checkpoint", "--checkpoint-every", "0.001s", "--max-restarts", "1")
    done = run(recipe, f"{model}:build_dying", *arguments, launcher=launcher)
    assert (tmp_path / "died").exists()
    assert metric_of(done) == undisturbed
    assert re.search(r"^trained \d steps after resuming at step \d+ ", done.stdout, re.MULTILINE), done.stdout
    if not launcher:
        assert "autoaccel: rank 1: the process was killed (SIGKILL)" in done.stderr
        assert "starting again (1 of 1)" in done.stderr
    assert not [
        process for process in psutil.process_iter(["cmdline"]) if str(model) in (process.info["cmdline"] or [])
    ]


@pytest.mark.long
def test_a_finished_checkpoint_is_said_to_be_one(
    write_model: WriteModel, write_recipe: WriteRecipe, tmp_path: Path
) -> None:
    model = write_model()
    recipe = write_recipe(model, {})
    first = run(recipe, model, "--checkpoint", tmp_path / "checkpoint")
    second = run(recipe, model, "--checkpoint", tmp_path / "checkpoint")
    assert metric_of(second) == metric_of(first)
    assert "all 15 steps were already done" in second.stdout
    other = run(recipe, model, "--checkpoint", tmp_path / "checkpoint", "--seed", "3")
    assert other.returncode == 2 and "with seed 0, not 3" in other.stderr


@pytest.mark.long
def test_what_each_rank_gets_is_shown(
    write_model: WriteModel, write_recipe: WriteRecipe, this_machine: Machine
) -> None:
    if this_machine.usable_cores < 2:
        pytest.skip("one core")
    model = write_model()
    recipe = write_recipe(model, {"parallel.world_size": 2, "threads.intra_op": this_machine.usable_cores})
    done = run(recipe, model, "--explain")
    lines = done.stdout.splitlines()
    heading = next(index for index, line in enumerate(lines) if line.split()[:1] == ["rank"])
    rows = [line.split() for line in lines[heading + 1 : heading + 3]]
    assert [row[0] for row in rows] == ["0", "1"]
    assert rows[0][1] != rows[1][1]
    assert [row[2] for row in rows] == [str(this_machine.usable_cores // 2)] * 2


def test_a_rank_ends_with_a_launcher_that_is_killed(write_model: WriteModel, write_recipe: WriteRecipe) -> None:
    model = write_model()
    recipe = write_recipe(model, {})
    command = [sys.executable, "-m", "autoaccel", "run", str(recipe), str(model)]
    code = f"import subprocess; subprocess.run({command!r})"
    # One of two ranks, which waits for the other.
    variables = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    launcher = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **variables, **rendezvous})
    try:
        family: list[psutil.Process] = []
        for _ in range(3000):
            family = psutil.Process(launcher.pid).children(recursive=True)
            if len(family) == 3:  # the rank, the keeper of its worker, and the worker
                break
            time.sleep(0.1)
        assert len(family) == 3
    finally:
        launcher.kill()
        launcher.wait()
    _, alive = psutil.wait_procs(family, timeout=300)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


COMPILED: Settings = {"compile.mode": "default", "compile.dynamic": "off"}

COUNTS = """
from torch._dynamo.utils import counters

plain = build


def build():
    def evaluate(model, loader):
        found = counters["inductor"]
        print("compiled", found["fxgraph_cache_miss"], "found", found["fxgraph_cache_hit"], flush=True)
        print("cache", os.environ.get("TORCHINDUCTOR_CACHE_DIR"), flush=True)
        return 0.5

    return plain(evaluate=evaluate, direction="maximize", drop_last=True, epochs=1)
"""


CAPTURES = """
from torch._dynamo import register_backend

# Captures the graph, and makes nothing of it. Under the name of one that a recipe may have.
register_backend(lambda graph, inputs: graph.forward, name="ipex")
"""


def counts_of(done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """Return how many graphs were compiled, and how many were found compiled."""
    assert done.returncode == 0, done.stderr
    compiled, found = re.findall(r"^compiled (\d+) found (\d+)", done.stdout, re.MULTILINE)[-1]
    return int(compiled), int(found)


def files_in(folder: Path) -> dict[Path, int]:
    """Return what lies in a folder, but for locks, which are made anew."""
    files = (path for path in folder.rglob("*") if path.is_file() and "locks" not in path.parts)
    return {path: path.stat().st_mtime_ns for path in files}


@pytest.mark.long
def test_the_second_run_compiles_nothing_anew(
    write_model: WriteModel, write_recipe: WriteRecipe, this_machine: Machine, tmp_path: Path
) -> None:
    if this_machine.compiler is None:
        pytest.skip("no C++ compiler")
    model = write_model(COUNTS)
    recipe = write_recipe(model, COMPILED)
    home = tmp_path / "cache"
    compiled, _ = counts_of(run(recipe, model, XDG_CACHE_HOME=str(home), TORCHINDUCTOR_CACHE_DIR=""))
    assert compiled > 0
    kept = files_in(home)
    assert kept
    compiled, found = counts_of(run(recipe, model, XDG_CACHE_HOME=str(home), TORCHINDUCTOR_CACHE_DIR=""))
    assert compiled == 0 and found > 0
    assert files_in(home) == kept


@pytest.mark.long
@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_cache_of_the_users_own_is_left_alone_and_without_any_a_run_still_compiles(
    own: bool, write_model: WriteModel, write_recipe: WriteRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").write_text("")
    model = write_model(COUNTS + CAPTURES)
    recipe = write_recipe(model, {**COMPILED, "compile.backend": "ipex"})
    variables = {"HOME": str(tmp_path / "file")} | ({"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "own")} if own else {})
    done = run(recipe, model, **variables)
    assert done.returncode == 0, done.stderr
    (folder,) = set(re.findall(r"^cache (.+)", done.stdout, re.MULTILINE))
    said = re.findall(r"^autoaccel: compiled code is not kept.*", done.stderr, re.MULTILINE)
    if own:
        assert (folder, said) == (str(tmp_path / "own"), [])
    else:
        assert len(said) == 1 and "TORCHINDUCTOR_CACHE_DIR" in said[0]
        assert not Path(folder).exists()  # it was for that run alone
