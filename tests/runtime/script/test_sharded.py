"""Models and optimizers whose state is divided among ranks before settings act on them train on as they would."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.records.settings import Settings
from tests.runtime.script.test_wrapped import by_torchrun, distance

SHARDED = """\
import json, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()


def make():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GELU(), nn.Conv2d(8, 8, 3, padding=1), nn.GELU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def wrapped():
    model = FullyShardedDataParallel(make(), device_id=torch.device("cpu"))
    yield "FSDP1", model, adamw(model.parameters())
    model = make()
    fully_shard(model)
    yield "FSDP2", model, adamw(model.parameters())
    model = DistributedDataParallel(make())
    yield "ZeRO", model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)


trainings = [(*one, []) for one in wrapped()]
for number in range(6):
    generator = torch.Generator().manual_seed(10 * number + rank)
    images = torch.randn(4, 3, 8, 8, generator=generator)
    labels = torch.randint(0, 4, (4,), generator=generator)
    for _, model, optimizer, losses in trainings:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
found = {}
for name, model, _, losses in trainings:
    with torch.no_grad():
        after = model(torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(7)))
    found[name] = losses, after.flatten().tolist()
if rank == 0:
    print("found", json.dumps(found))
dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"layout.channels_last": True, "optimizer.fused": True},
        {"optimizer.foreach": "off"},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_what_is_divided_among_ranks_trains_as_it_would(settings: Settings, tmp_path: Path) -> None:
    plain, found = (by_torchrun(tmp_path / name, made, "", SHARDED) for name, made in (("0", {}), ("1", settings)))
    assert found.keys() == {"FSDP1", "FSDP2", "ZeRO"}
    for name, (losses, after) in found.items():
        assert losses == pytest.approx(plain[name][0], rel=1e-5), name
        assert distance(after, plain[name][1]) < 1e-4, name
