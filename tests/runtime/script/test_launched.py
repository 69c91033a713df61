"""Scripts that a launcher starts: torchrun runs as it always does, and each of its processes is heard."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from autoaccel.records.launching import Launched
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, GiveTurn, Measure, Train, Turn, WorkerSpec
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.runs.workloads import find_module
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.becoming import SCRIPT
from autoaccel.workers.launchers import command, variables
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import SECONDS, describe
from tests.runtime.script.conftest import SCRIPTS
from tests.runtime.script.test_hard_cases import listing

BFLOAT16: Settings = {"precision.autocast": "bfloat16"}


@pytest.fixture
def launched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    def by_torchrun(source: str, *arguments: str) -> Script:
        if source.endswith(".py"):
            shutil.copy(SCRIPTS / source, folder / "train.py")
        else:
            (folder / "train.py").write_text(source)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
        options = ("--standalone", "--nproc_per_node", "2", "train.py")
        return find_module("torch.distributed.run", (*options, *arguments))

    return by_torchrun


def test_ranks_that_a_launcher_starts_are_seen_and_measured(
    launched: Callable[..., Script], folder: Path, starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    starter = starter_of(launched("ddp.py", "--epochs", "200"))
    before = listing(folder)
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    script = facts.script
    assert script is not None and script.loader is not None
    assert script.ranks == 2
    assert [model.kind for model in script.models] == ["DistributedDataParallel"]
    assert script.loader.key.sampler == "DistributedSampler"
    assert (script.steps_per_epoch, script.planned_steps) == (28, 200 * 28)
    assert script.planned_from == "range(args.epochs) in train.py:31, loader in train.py:33"

    context = KnobContext(machine, facts)
    settings = {**baseline_settings(context), **BFLOAT16}
    trial = starter.at(context).start_all_measuring(Measure(), {"trial": settings}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    for _ in range(2):
        turn = trial.take_turn(GiveTurn(0.0, min_steps=5), SECONDS)
        assert isinstance(turn, Turn) and len(turn.step_seconds) == 5 and not turn.diverged
    trial.close()
    assert listing(folder) == before
    here = [one for one in psutil.process_iter() if _working_folder(one) == str(folder)]
    assert here in ([], [psutil.Process()])  # this one may be there


def _working_folder(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


FAILS = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if int(os.environ["RANK"]) == {rank}:
    raise ValueError("mine")
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    loss = model(torch.ones(4, 3)).sum()
    loss.backward()
    dist.all_reduce(model.weight.grad)
    optimizer.step()
"""


@pytest.mark.long
def test_what_a_launcher_starts_reads_the_file_that_is_named(
    launched: Callable[..., Script], folder: Path, starter_of: Callable[[Script], WorkerStarter]
) -> None:
    (folder / "settings.txt").write_text("written")
    script = launched("raise ValueError(open(0).read())")
    script = msgspec.structs.replace(
        script, arguments=("--nproc_per_node", "1", "train.py"), stdin=str(folder / "settings.txt")
    )
    failure = describe(starter_of(script))
    assert isinstance(failure, Failure) and "ValueError: written" in failure.log_tail, failure


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_an_error_of_any_rank_is_the_users_own(
    rank: int, launched: Callable[..., Script], starter_of: Callable[[Script], WorkerStarter]
) -> None:
    failure = describe(starter_of(launched(FAILS.format(rank=rank))))
    assert isinstance(failure, Failure)
    if rank == 0:
        assert failure.message == "ValueError: mine"
        assert failure.traceback.splitlines()[1].endswith('train.py", line 8, in <module>')
    assert "ValueError: mine" in failure.traceback + failure.log_tail


TELLS = """
import json, os, sys

if os.environ["RANK"] == "1":
    import torch
    before = os.environ.get("PYTHONPATH"), getattr(sys.modules.get("sitecustomize"), "MINE", None)
    model = torch.nn.Linear(3, 1)
    seen = []
    model.register_forward_hook(lambda model, inputs, output: seen.append(str(output.dtype)))
    model(torch.ones(4, 3)).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    found = {"dtype": seen[0], "path": before[0], "mine": before[1]}
    ours = {name for name in os.environ if name.startswith("AUTOACCEL")} - {"AUTOACCEL_SIDE_BY_SIDE"}
    found |= {"ours": sorted(ours), "folders": sys.path}
    print(json.dumps(found), flush=True)
"""


@pytest.mark.long
def test_all_ranks_train_with_a_recipe_and_find_what_they_would_have_found(
    launched: Callable[..., Script], folder: Path, tmp_path: Path
) -> None:
    """The user's own sitecustomize is imported, their PYTHONPATH is what it was, and nothing of ours is left in it."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("MINE = 3\n")
    script = launched(TELLS)
    seen = ScriptFacts((), (), (), (0,), "cpu", 0.01, 10, steps_per_epoch=None, planned_steps=None, ranks=2)
    spec = WorkerSpec(task=Train(seeds=()), workload=script, settings=BFLOAT16, found={}, script=seen)
    environment = variables(Launched(spec, module=SCRIPT), {**os.environ, "PYTHONPATH": str(tmp_path / "site")})
    done = subprocess.run(command(script), cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "sitecustomize" not in done.stderr
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert found["dtype"] == "torch.bfloat16"
    assert (found["path"], found["mine"], found["ours"]) == (str(tmp_path / "site"), 3, [])
    assert not [place for place in found["folders"] if "autoaccel/runtime" in place]
    assert found["folders"][1:] == _plain_path(folder, tmp_path / "site")


NO_LOADER = """\
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.long
def test_what_took_no_effect_is_told_once_and_of_the_script_that_was_launched(
    launched: Callable[..., Script], folder: Path
) -> None:
    seen = ScriptFacts((), (), (), (0,), "cpu", 0.01, 10, steps_per_epoch=None, planned_steps=None, ranks=2)
    settings = {**BFLOAT16, "loader.workers": 1}
    script = launched(NO_LOADER)
    spec = WorkerSpec(task=Train(seeds=()), workload=script, settings=settings, found={}, script=seen)
    environment = variables(Launched(spec, module=SCRIPT), dict(os.environ))
    done = subprocess.run(command(script), cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("autoaccel: train.py: precision.autocast took effect; loader.workers did not (") == 1


def _plain_path(folder: Path, site: Path) -> list[str]:
    show = [sys.executable, "-c", "import sys, json; print(json.dumps(sys.path[1:]))"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(show, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_programs_that_launch_are_known() -> None:
    programs = Path(sysconfig.get_path("scripts"))
    for program, module, launches in (
        (str(programs / "torchrun"), "", True),
        ("accelerate", "", True),
        ("train.py", "", False),
        ("/x/run.py", "torch.distributed.run", True),
        ("/x/run.py", "mine.run", False),
    ):
        assert Script("/x", program, "/", "0" * 64, module=module).is_launcher == launches
