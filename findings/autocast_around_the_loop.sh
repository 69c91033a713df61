#!/usr/bin/env bash
# torch 2.13.0: within one autocast block around a training loop, steps go on with the weights of the first.
#
# Expected: `with torch.autocast(...)` around the loop trains as one around each forward pass does; documentation advises
# against computing gradients inside, for the sake of speed and types, and names nothing else.
# Found: autocast keeps the short copy of each weight that it has made until the outermost block ends, and does not look
# whether the weight has changed since. The optimizer updates weights that nobody reads any more: the loss stays what it
# was at the first step, to the last digit, without an error or a warning. `cache_enabled=False` is as expected.
# Seen: around the loop [12.3596, 12.3596, 12.3596, 12.3596], around each step [12.3596, 0.4944, 0.0198, 0.001].
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/around.py" <<'PYTHON'
import contextlib

import torch

INPUTS = torch.ones(8, 4)


def short(cache=True):
    return torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cache)


def losses(around_loop, around_step):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    with around_loop:
        for _ in range(4):
            with around_step():
                loss = (model(INPUTS).float() - 3).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(round(loss.item(), 4))
    return found


if __name__ == "__main__":
    nothing = contextlib.nullcontext
    loop, step = losses(short(), nothing), losses(nothing(), short)
    uncached = losses(short(cache=False), nothing)
    print("around the loop", loop)
    print("around each step", step)
    print("around the loop, without a cache", uncached)
    assert len(set(loop)) == 1 and loop[0] == step[0]
    assert step[-1] < 0.01 * step[0] and uncached[-1] < 0.01 * uncached[0]
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" around.py
