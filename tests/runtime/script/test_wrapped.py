"""What a script has built around its model or optimizer before settings act on them goes on as it would without."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from autoaccel.records.launching import Launched
from autoaccel.records.messages import Train, WorkerSpec
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.runs.workloads import find_module
from autoaccel.workers.becoming import SCRIPT
from autoaccel.workers.launchers import command, variables
from tests.runtime.script.test_running import run

WRAPPED = """\
import contextlib, json, os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.set_num_threads(1)
if "compiled" in sys.argv:
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 64  # trainings of the same code
if "RANK" in os.environ:
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
rank, ranks = dist.get_rank(), dist.get_world_size()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.mixes = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 24)
        self.gain, self.calls = 1.0, 0

    def forward(self, x):  # (B, 8, H, W)
        if not torch.compiler.is_compiling():
            self.calls += 1
        x = x + self.gain * nn.functional.gelu(self.convolution(x))
        q, k, v = self.mixes(x.flatten(2).transpose(1, 2)).unsqueeze(1).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v).squeeze(1)
        return x + attended.transpose(1, 2).reshape(x.shape)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.GELU())
        self.blocks = nn.Sequential(Block(), Block())
        self.head, self.spare = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


VARIANTS = {
    "ddp": {},
    "unused": {"find_unused_parameters": True},
    "view": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "accumulating": {},
    "alone": None,
}


class Training:
    def __init__(self, name):
        torch.manual_seed(0)
        self.name, self.net = name, Net()
        if name != "unused":
            del self.net.spare
        self.average = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)
        options = VARIANTS[name]
        self.model = self.net if options is None else DDP(self.net, **options)
        kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[sys.argv[-2]]
        arguments = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        self.optimizer = kind(self.model.parameters(), lr=0.02, **arguments)
        self.group = self.optimizer.param_groups[0]  # a schedule of its own holds on to it
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 12)
        self.losses, self.gradients = [], []

    def step(self, number):
        passes = 2 if self.name == "accumulating" else 1
        if number == 3:
            self.net.stem[1].eval()  # its statistics stay from now on
            for block in self.net.blocks:
                block.gain = 0.5
            self.group["weight_decay"] = 0.01
        self.optimizer.zero_grad()
        for part in range(passes):
            generator = torch.Generator().manual_seed(100 * number + 10 * part + rank)
            images = torch.randn(4, 3, 8, 8, generator=generator)
            labels = torch.randint(0, 4, (4,), generator=generator)
            waits = part == passes - 1 or self.model is self.net
            with contextlib.nullcontext() if waits else self.model.no_sync():
                loss = nn.functional.cross_entropy(self.model(images), labels)
                loss.backward()
        if not number:
            self.gradients = [p.grad.flatten().tolist() for p in self.net.parameters() if p.grad is not None]
        self.optimizer.step()
        self.schedule.step()
        self.average.update_parameters(self.net)
        self.losses.append(loss.item())


trainings = [Training(name) for name in VARIANTS]
for number in range(6):
    for training in trainings:
        training.step(number)
found = {}
for training in trainings:
    training.net.eval(), training.average.eval()
    with torch.no_grad():
        images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(7))
        after = [model(images).flatten().tolist() for model in (training.net, training.average)]
    calls = [block.calls for block in training.net.blocks]
    found[training.name] = training.losses, training.gradients, after, calls
if rank == 0:
    print("found", json.dumps(found))
dist.destroy_process_group()
"""

FUSED: Settings = {"layout.channels_last": True, "optimizer.fused": True}
COMPILED: Settings = {"compile.mode": "default", "compile.backend": "aot_eager"}
ONE_BY_ONE: list[Settings] = [
    {"layout.channels_last": True},
    {"optimizer.fused": True},
    {"optimizer.foreach": "on"},
    {"optimizer.foreach": "off"},
    {"memory.checkpointing": "blocks"},
    {"model.attention": "math"},
    {"precision.autocast": "bfloat16"},
    COMPILED,
    {**COMPILED, "compile.region": "blocks"},
    {**COMPILED, **FUSED},
    {"memory.checkpointing": "blocks", **FUSED},
]


def found_in(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(line for line in text.splitlines() if line.startswith("found "))[6:])
    return found


def alone(folder: Path, settings: Settings, kind: str) -> dict[str, Any]:
    folder.mkdir()
    done = run(folder, settings, WRAPPED, arguments=(kind, "compiled" if "compile.mode" in settings else ""))
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("autoaccel:")], done.stderr
    return found_in(done.stdout)


def by_torchrun(folder: Path, settings: Settings, kind: str, source: str = WRAPPED) -> dict[str, Any]:
    folder.mkdir()
    (folder / "train.py").write_text(source)
    options = ("--standalone", "--nproc_per_node", "2", str(folder / "train.py"), kind, "")
    script = find_module("torch.distributed.run", options)
    seen = ScriptFacts((), (), (), (0,), "cpu", 0.01, 10, steps_per_epoch=None, planned_steps=None, ranks=2)
    spec = WorkerSpec(task=Train(seeds=()), workload=script, settings=settings, found={}, script=seen)
    environment = variables(Launched(spec, module=SCRIPT), {**os.environ, "GLOO_SOCKET_IFNAME": "lo"})
    done = subprocess.run(command(script), cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("autoaccel:")], done.stderr
    return found_in(done.stdout)


def check_same(found: dict[str, Any], plain: dict[str, Any], settings: Settings) -> None:
    # Sums of bfloat16 are as far from the user's own as they are without anything that is wrapped.
    rough = 20 if "precision.autocast" in settings else 0.02
    for name, (losses, gradients, after, calls) in plain.items():
        here = found[name]
        assert here[0] == pytest.approx(losses, rel=5e-4 * rough), name
        for one, other in zip(here[1], gradients, strict=True):
            assert distance(one, other) < 2e-3 * rough, name
        for one, other in zip(here[2], after, strict=True):
            assert distance(one, other) < 1e-2 * rough, name
        assert here[3] == calls or "compile.mode" in settings or "memory.checkpointing" in settings, name


def distance(one: list[float], other: list[float]) -> float:
    expected = torch.tensor(other)
    return float((torch.tensor(one) - expected).norm() / (expected.norm() + 1e-4))


@pytest.mark.long
def test_ranks_of_every_kind_train_as_they_would(tmp_path: Path) -> None:
    """Converted weights got gradients of others from the buckets, which keep the order of strides."""
    check_same(by_torchrun(tmp_path / "one", FUSED, "sgd"), by_torchrun(tmp_path / "plain", {}, "sgd"), FUSED)


@pytest.mark.long
def test_ranks_with_moments_of_squares_train_as_they_would(tmp_path: Path) -> None:
    check_same(by_torchrun(tmp_path / "one", FUSED, "adamw"), by_torchrun(tmp_path / "plain", {}, "adamw"), FUSED)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return alone(tmp_path_factory.mktemp("wrapped") / "plain", {}, "sgd")


@pytest.mark.long
@pytest.mark.parametrize("settings", ONE_BY_ONE, ids=lambda settings: " ".join(settings))
def test_each_setting_leaves_what_is_wrapped_as_it_is(
    settings: Settings, plain: dict[str, Any], tmp_path: Path
) -> None:
    check_same(alone(tmp_path / "one", settings, "sgd"), plain, settings)
