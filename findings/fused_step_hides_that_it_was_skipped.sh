#!/usr/bin/env bash
# torch 2.13.0, accelerate 1.15.0: with a fused optimizer, nobody is told that a GradScaler has skipped an update.
#
# Expected: where gradients overflow, `GradScaler.step` does not call the optimizer's step, so that hooks of that step
# count updates, and accelerate's `optimizer.step_was_skipped`, by which its schedulers stand still, is true.
# Found: a fused optimizer is handed the scale and what was found infinite, and skips the update within its step, which
# is called all the same. Weights and its own count stay, as they should. But its hooks are called, and accelerate, which
# looks whether the step was called, says that nothing was skipped: its learning rates go on by one for each overflow, of
# which a training in float16 has several at its beginning. To turn `fused` on is not only a faster kernel there.
# Seen: plain: moved False, hooks 0, skipped True; fused: moved False, hooks 1, skipped False.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy accelerate==1.15.0
cat > "$folder/skipped.py" <<'PYTHON'
import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer

Accelerator(cpu=True)


def overflow(fused):
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.AdamW([weight], lr=0.1, fused=fused)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    wrapped = AcceleratedOptimizer(optimizer, scaler=scaler)
    scaler.scale((weight.half() * 60_000).sum().float()).backward()  # its scaled gradients overflow
    wrapped.step()
    return bool((weight != 1).any()), len(calls), wrapped.step_was_skipped


if __name__ == "__main__":
    found = {name: overflow(fused) for name, fused in (("plain", False), ("fused", True))}
    for name, (moved, hooks, skipped) in found.items():
        print(f"{name}: moved {moved}, hooks {hooks}, skipped {skipped}")
    assert found == {"plain": (False, 0, True), "fused": (False, 1, False)}
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" skipped.py
