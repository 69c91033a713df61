"""On a CUDA GPU, within ten minutes: every knob shows its effect; two tunes, beside what pytorch-autotune 2.0 finds.

    python -m benchmarks.checks.gpu [--seconds 570] [--tune-seconds N] [--only contract|transformer|resnet18 ...]
    python -m benchmarks.checks.gpu --prepare

The second installs the peer, and nothing else, into build/gpu-peer, for a machine without a network to which that
folder is carried; the first does it where it is missing. The peer runs on the same torch. What it picks is a setting of
autoaccel's knobs too (its `tf32` and both autocasts allow TF32 and cuDNN's search), so both picks train in the same
loop, in fresh pairs of processes with the defaults.

Rows are added to benchmarks/results/gpu.jsonl, or to $OUT/gpu.jsonl if OUT is set; what failed, or was not reached in
time, is a row with its reason. Without a CUDA GPU nothing is measured and the exit code is 2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from autoaccel.records.messages import Failure, GiveTurn
from autoaccel.records.settings import Settings, Value
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KNOBS, KnobContext, default_settings
from autoaccel.workers.describing import probe_and_describe
from autoaccel.workers.starter import WorkerStarter
from benchmarks.checks.knobs import WORKLOAD, wish
from benchmarks.harness import rows
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.contenders import START_SECONDS, contest

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "gpu-peer"
MODEL = ROOT / "benchmarks" / "workloads" / "gpu.py"
CODE = ("autoaccel", "benchmarks/checks/gpu.py", "benchmarks/workloads")
NAMES = ("transformer", "resnet18")
_CONTRACT = "contract"
PEER = "pytorch-autotune==2.0.0"
PAIRS = 3
KNOB_SECONDS = 90.0  # for one knob; a compilation with max-autotune takes longer, and is a failure then
_CONTRACT_SHARE = 0.3  # of all the time
_TUNE_SHARE = 0.4  # of a workload's time, if --tune-seconds does not say; the peer takes a third of what that leaves
_PEER = """
import json, sys, torch
sys.path[:0] = [{folder!r}, {home!r}]
from gpu import WORKLOADS
from pytorch_autotune import autotune
made = WORKLOADS[{name!r}]()
batch = next(iter(torch.utils.data.DataLoader(made.train_data, made.batch_size)))
found = autotune(made.model, tuple(batch), loss_fn=made.loss, optimizer="adamw", budget={budget}, cache=False)
print("PICK" + json.dumps([found.config.to_dict(), found.report.to_dict()], default=str))
"""


class NotMeasuredError(Exception):
    """Why there is no result."""


def gpu_name() -> str:
    """Return the name of the GPU that torch would use; empty without one."""
    program = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
    return output_of([sys.executable, "-c", program], START_SECONDS).strip()


def output_of(command: list[str], timeout_seconds: float) -> str:
    """Return what a command prints.

    Raises:
        NotMeasuredError: If it fails or takes longer, with its last words.
    """
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout_seconds)
    except subprocess.TimeoutExpired as error:
        raise NotMeasuredError(f"it took longer than {timeout_seconds:.0f} s") from error
    if done.returncode not in (0, 1):  # 1: nothing faster was found, which is a result
        raise NotMeasuredError(f"exit status {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


def prepare() -> None:
    """Install the peer, if it is not there."""
    if (HOME / "pytorch_autotune").is_dir():
        return
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    if subprocess.run([*install, "--target", str(HOME), PEER], check=False).returncode:
        raise NotMeasuredError(f"{PEER} could not be installed")


def contract(until: float) -> dict[str, Any]:
    """Return for each knob what shows that its first other value took effect, or why it was not tried or failed."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, WorkerStarter(Path(folder), find_workload(str(WORKLOAD))) as starter:
        assert starter.workload is not None
        context = KnobContext(*probe_and_describe(starter, starter.workload, START_SECONDS))
        starter = starter.at(context)
        # First what the GPU computes with, then what takes long, last what concerns the CPU alone.
        for name in sorted(KNOBS, key=lambda name: (KNOBS[name].group == "threads", KNOBS[name].group == "compile")):
            found[name] = shown_by(name, context, starter, until)
    return {"device": context.device, "knobs": found}


def shown_by(name: str, context: KnobContext, starter: WorkerStarter, until: float) -> dict[str, Any]:
    """Return what one knob comes to."""
    if (reason := KNOBS[name].why_unavailable(context)) or (settings := wish(KNOBS[name], context)) is None:
        return {"unavailable": reason or "what it needs is not to be had here"}
    if time.monotonic() > until:
        return {"not reached": "time was up"}
    measuring = starter.start_measuring(default_settings(context) | settings, name, KNOB_SECONDS)
    if isinstance(measuring, Failure):
        return {"settings": settings, "failure": f"{measuring.kind}: {measuring.message}"}
    try:
        turn = measuring.take_turn(GiveTurn(0.2), KNOB_SECONDS)
        if isinstance(turn, Failure):
            return {"settings": settings, "failure": f"{turn.kind}: {turn.message}"}
        return {"settings": settings, "shown": measuring.measurement.learned.get(name, "")}
    finally:
        measuring.close()


def settings_of_peer(config: Mapping[str, Any]) -> Settings:
    """Return as settings what pytorch-autotune calls a configuration."""
    settings: Settings = {
        "compile.mode": config["compile"],
        "layout.channels_last": config["channels_last"],
        "optimizer.fused": config["fused_opt"],
    }
    if config["precision"] != "fp32_default":
        settings |= {"precision.float32_matmul": "high", "precision.cudnn_benchmark": True}
    if config["precision"].startswith("amp_"):
        settings["precision.autocast"] = {"amp_bf16": "bfloat16", "amp_fp16": "float16"}[config["precision"]]
    return settings


def peers_pick(name: str, budget: int, timeout_seconds: float) -> dict[str, Any]:
    """Return what pytorch-autotune comes to, as its own configuration and as settings."""
    prepare()
    program = _PEER.format(folder=str(MODEL.parent), home=str(HOME), name=name, budget=budget)
    printed = output_of([sys.executable, "-c", program], timeout_seconds)
    line = next((line for line in printed.splitlines() if line.startswith("PICK")), None)
    if line is None:
        raise NotMeasuredError("the peer ended without a pick")
    config, report = json.loads(line.removeprefix("PICK"))
    return {"config": config, "settings": settings_of_peer(config), "trials": report.get("trials")}


def pick_of_autoaccel(name: str, budget: int, timeout_seconds: float) -> dict[str, Any]:
    """Return the recipe that a tune comes to."""
    command = [sys.executable, "-m", "autoaccel", "tune", f"{MODEL}:{name}", "--json"]
    command += ["--budget", f"{budget}s", "--max-drop", "10%", "--trainings", "1000"]
    recipe: dict[str, Any] = json.loads(output_of(command, timeout_seconds))
    return recipe


def compared(name: str, picks: Mapping[str, Mapping[str, Value]]) -> dict[str, Any]:
    """Return what each pick is worth against the defaults."""
    with contest(f"{MODEL}:{name}") as held:
        changes = {who: {key: value for key, value in pick.items() if held.baseline_settings[key] != value}
                   for who, pick in picks.items()}  # fmt: skip
        return {who: {"settings": change, **held.compare(change, PAIRS)} for who, change in changes.items()}


def tuned(name: str, seconds: float, tune_seconds: int) -> dict[str, Any]:
    """Return both picks for a workload and what they are worth, within so much time."""
    until = time.monotonic() + seconds
    peer_seconds = int((seconds - tune_seconds) / 3)
    recipe = pick_of_autoaccel(name, tune_seconds, 1.5 * tune_seconds)
    found: dict[str, Any] = {"budget_seconds": tune_seconds, "peers_budget_seconds": peer_seconds}
    found |= {"summary": recipe["summary"], "search": recipe["search"]}
    picks = {"autoaccel": recipe["settings"]}
    try:
        peer = peers_pick(name, peer_seconds, 2 * peer_seconds)
        picks["pytorch-autotune"] = peer.pop("settings")
        found["peer"] = peer
    except NotMeasuredError as error:
        found["peer"] = {"failure": str(error)}
    command = [sys.executable, "-m", "benchmarks.checks.gpu", "--compare", name, json.dumps(picks)]
    left = max(1.0, until - time.monotonic())
    try:
        found["compared"] = json.loads(output_of(command, left).splitlines()[-1])
    except NotMeasuredError as error:  # what was tuned is a result without it
        found["compared"] = {who: {"failure": f"not compared: {error}"} for who in picks}
    return found


def attempt(name: str, gpu: str, work: Callable[[], Mapping[str, Any]]) -> None:
    """Add the row of what this comes to, or of why it came to nothing."""
    made = rows.provenance(CODE)
    try:
        found = dict(work())
    except Exception as error:  # whatever goes wrong on a machine where this never ran
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        rows.add_row("gpu", name, {"gpu": gpu}, made=made, status="failed", reason=reason)
        print(f"{name}: {reason}", flush=True)
        return
    rows.add_row("gpu", name, {"gpu": gpu, **found}, made=made)
    print(f"{name}: {json.dumps(found, default=str)[:2000]}", flush=True)


def main() -> int:
    """Measure all; return the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=570.0, help="for everything")
    parser.add_argument("--tune-seconds", type=int, help="budget of each tune; default: 0.4 of a workload's time")
    parser.add_argument("--only", nargs="+", choices=(_CONTRACT, *NAMES), default=[_CONTRACT, *NAMES])
    parser.add_argument("--prepare", action="store_true", help="only install the peer")
    parser.add_argument("--compare", nargs=2, metavar=("NAME", "PICKS"), help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    until = time.monotonic() + parsed.seconds
    if parsed.compare:
        print(json.dumps(compared(parsed.compare[0], json.loads(parsed.compare[1]))))
        return 0
    if parsed.prepare:
        prepare()
        return 0
    gpu = gpu_name()
    if not gpu:
        print("There is no CUDA GPU that torch could use here. Nothing was measured.", file=sys.stderr)
        return 2
    if "OUT" in os.environ:
        rows.RESULTS = Path(os.environ["OUT"])
    if _CONTRACT in parsed.only:
        attempt(_CONTRACT, gpu, lambda: contract(time.monotonic() + _CONTRACT_SHARE * parsed.seconds))
    names = [name for name in NAMES if name in parsed.only]
    for number, name in enumerate(names):
        share = (until - time.monotonic()) / (len(names) - number)
        attempt(name, gpu, partial(tuned, name, share, parsed.tune_seconds or int(_TUNE_SHARE * share)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
