"""On a CUDA GPU: autoaccel beside the package pytorch-autotune, for the same time, their picks measured interleaved.

    pip install pytorch-autotune==2.0.0 torchvision
    python benchmarks/gpu.py [--budget 150] [resnet50 resnet18 transformer]

What pytorch-autotune picks is a setting of autoaccel's knobs too (its `tf32` and both autocasts allow TF32 and cuDNN's
search), so that both picks train in the same loop, in fresh pairs of processes with the defaults. Results go to
benchmarks/results/gpu.json, or to $OUT/gpu.json if OUT is set. Ten minutes for each workload.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from contenders import contest, machine_of

from autoaccel.records.settings import Settings, describe_change

ROOT = Path(__file__).parents[1]
RESULTS = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results")) / "gpu.json"
MODEL = ROOT / "benchmarks" / "workloads" / "gpu.py"
PAIRS = 3
_PEER = """
import json, sys
sys.path.insert(0, {folder!r})
from gpu import WORKLOADS
from pytorch_autotune import autotune
made = WORKLOADS[{name!r}]()
batch = next(iter(__import__("torch").utils.data.DataLoader(made.train_data, made.batch_size)))
found = autotune(made.model, tuple(batch), loss_fn=made.loss, optimizer="adamw", budget={budget}, cache=False)
print("PICK" + json.dumps([found.config.to_dict(), found.report.to_dict()], default=str))
"""


def pick_of_peer(name: str, budget: int) -> dict[str, Any]:
    """Return what pytorch-autotune comes to, as its own configuration and as settings."""
    program = _PEER.format(folder=str(MODEL.parent), name=name, budget=budget)
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("PICK"))
    config, report = json.loads(line.removeprefix("PICK"))
    settings: Settings = {
        "compile.mode": config["compile"],
        "layout.channels_last": config["channels_last"],
        "optimizer.fused": config["fused_opt"],
    }
    if config["precision"] != "fp32_default":
        settings |= {"precision.float32_matmul": "high", "precision.cudnn_benchmark": True}
    if config["precision"].startswith("amp_"):
        settings["precision.autocast"] = {"amp_bf16": "bfloat16", "amp_fp16": "float16"}[config["precision"]]
    return {"config": config, "settings": settings, "report": report}


def pick_of_autoaccel(name: str, budget: int) -> dict[str, Any]:
    """Return the recipe that a tune in the GPU space comes to."""
    command = [sys.executable, "-m", "autoaccel", "tune", f"{MODEL}:{name}", "--space", "gpu", "--json"]
    command += ["--budget", f"{budget}s", "--max-drop", "10%", "--runs", "1000"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    recipe: dict[str, Any] = json.loads(done.stdout)
    return recipe


def measure(name: str, budget: int) -> dict[str, Any]:
    """Return both picks and what they are worth."""
    recipe = pick_of_autoaccel(name, budget)
    peer = pick_of_peer(name, budget)
    own = recipe["baseline"]["settings"]
    change: Settings = {key: value for key, value in recipe["settings"].items() if own[key] != value}
    found: dict[str, Any] = {"budget_seconds": budget, "summary": recipe["summary"], "search": recipe["search"]}
    with contest(f"{MODEL}:{name}") as held:
        found["machine"] = {
            **machine_of(held.place),
            "gpu": held.place.machine.torch and held.place.machine.torch.device_name,
        }
        found["autoaccel"] = {"settings": describe_change(change, {}), **held.compare(change, PAIRS)}
        wanted = {key: value for key, value in peer["settings"].items() if held.own[key] != value}
        found["pytorch-autotune"] = {"config": peer["config"], **held.compare(wanted, PAIRS)}
        found["pytorch-autotune"]["trials"] = peer["report"].get("trials")
    return found


def main() -> None:
    """Measure these workloads, or all; keep the results of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["resnet18", "transformer", "resnet50"])
    parser.add_argument("--budget", type=int, default=150, help="seconds for each of the two")
    parsed = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in parsed.names:
        results[name] = measure(name, parsed.budget)
        RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
        print(name, results[name]["autoaccel"], results[name]["pytorch-autotune"]["config"], flush=True)


if __name__ == "__main__":
    main()
