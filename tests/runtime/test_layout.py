"""What a recipe changes after a script has wrapped its model leaves the gradients those of a plain step."""

from __future__ import annotations

import subprocess
import sys

import pytest

DDP = """
import copy, json, sys, warnings
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from autoaccel.runtime.applied import Applied

warnings.simplefilter("ignore")
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
torch.manual_seed(0)
network = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
)
images, labels = torch.randn(6, 8, 3, 12, 12), torch.randint(0, 4, (6, 8))
plain = copy.deepcopy(network)
averaged = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
wrapped = DistributedDataParallel(network, **json.loads(sys.argv[2]))
optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01) for one in (plain, network)]
applied = Applied({"layout.channels_last": True, "optimizer.fused": True})
optimizers[1] = applied.optimizer(optimizers[1])
called = applied.model(wrapped)
worst = 0.0
for number, (x, y) in enumerate(zip(images, labels)):
    optimizers[0].zero_grad()
    nn.functional.cross_entropy(plain(x), y).backward()
    optimizers[1].zero_grad()
    with applied.forward():
        loss = nn.functional.cross_entropy(called(applied.batch(x)), y)
    loss.backward()
    for one, other in zip(plain.parameters(), network.parameters()):
        worst = max(worst, float((one.grad - other.grad).norm() / (one.grad.norm() + 1e-3)))
    for optimizer in optimizers:
        optimizer.step()
    averaged.update_parameters(network)
    torch.nn.utils.parameters_to_vector(network.parameters())
assert all(one.is_contiguous() for one in averaged.parameters())
print(worst)
"""


@pytest.mark.parametrize(
    "options",
    [
        "{}",
        pytest.param('{"find_unused_parameters": true}'),
        pytest.param('{"gradient_as_bucket_view": true}', marks=pytest.mark.long),
        pytest.param('{"static_graph": true}', marks=pytest.mark.long),
    ],
)
def test_gradients_of_wrapped_models_are_at_their_own_weights(options: str, tmp_path: object) -> None:
    """DistributedDataParallel's buckets keep the order of strides: converted weights got others' gradients."""
    command = [sys.executable, "-c", DDP, f"{tmp_path}/store", options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1e-3
