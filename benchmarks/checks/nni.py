"""Pruning by NNI 3.0, in an environment of its own: half of all convolutions of a small CNN and of ResNet-18.

    python -m benchmarks.checks.nni

Makes build/check-nni with autoaccel[nni] and torchvision, removes channels there, trains on, and compares a checkpoint
that was built again. Results go to benchmarks/results/nni.jsonl.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.command_line import make_parser

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "check-nni"
CODE = ("autoaccel/runtime", "benchmarks/checks/nni.py")


def prepare() -> str:
    """Make the environment, and return its Python."""
    python = str(HOME / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*install, *pins, "--editable", f"{ROOT}[nni,vision]"], check=True)
    return python


def inside() -> None:
    """Run in the environment: prune both models, and print what came of it."""
    import copy
    import importlib.metadata

    import torch
    from torch import nn

    from autoaccel.runtime.applied import Applied
    from autoaccel.runtime.vision import watch_for_torchvision

    watch_for_torchvision()
    from torchvision.models import resnet18

    def small() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    found = {}
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(16, 3, 64, 64, generator=generator)
    targets = torch.randint(10, (16,), generator=generator)
    for name, make in {"small CNN": small, "ResNet-18": lambda: resnet18(num_classes=10)}.items():
        torch.manual_seed(0)
        model = make().train()
        fresh = copy.deepcopy(model)
        settings = {"model.sparsity": 0.5, "model.pruning_library": "nni"}
        applied = Applied(settings)
        smaller, size = applied.shrink(model, lambda one: nn.functional.cross_entropy(one(inputs), targets))
        optimizer = torch.optim.SGD(smaller.parameters(), lr=0.05)
        losses = []
        for _ in range(10):
            loss = nn.functional.cross_entropy(smaller(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        again = applied.restore(fresh, smaller.state_dict()).eval()
        found[name] = {
            "parameters": [size.baseline_parameters, size.parameters],
            "flops": [size.baseline_flops, size.flops],
            "losses": losses,
            "trains_on": losses[-1] < losses[0],
            "rebuilt_is_equal": torch.equal(again(inputs), smaller.eval()(inputs)),
        }
    versions = {name: importlib.metadata.version(name) for name in ("nni", "torch", "torchvision")}
    print(json.dumps({"versions": versions, "models": found}))


def main() -> None:
    """Prepare, prune, and write what came of it."""
    make_parser(__doc__).parse_args()
    python = prepare()
    command = [python, "-m", "benchmarks.checks.nni", "inside"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    from benchmarks.harness.rows import add_row, provenance  # not above: the environment of its own has no need of it

    add_row("nni", "all", found, made=provenance(CODE, torch=found["versions"]["torch"]))
    for name, row in found["models"].items():
        before, after = row["parameters"]
        print(f"{name}: {before:,} -> {after:,} parameters, trains on: {row['trains_on']}, "
              f"built again equal: {row['rebuilt_is_equal']}")  # fmt: skip
    if not all(row["trains_on"] and row["rebuilt_is_equal"] for row in found["models"].values()):
        sys.exit(1)


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
