#!/usr/bin/env bash
# torch 2.13.0: a deep copy of an optimizer has neither its hooks nor the attributes of its class.
#
# Expected: copy.deepcopy() of an optimizer, as of a module, copies all that it has, or refuses.
# Found: an optimizer gives copies (and pickles) its defaults, state and groups alone. An attribute that a subclass sets
# in __init__ is missing in the copy, whose step() raises AttributeError; hooks of its step, such as one that clips or
# counts, are silently gone.
# Seen: copy: 'Counting' object has no attribute 'made'; hooks called: original 1, copy 0.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/copied.py" <<'PYTHON'
import copy

import torch


class Counting(torch.optim.SGD):
    def __init__(self, parameters, **options):
        super().__init__(parameters, **options)
        self.made = 0

    def step(self, closure=None):
        self.made += 1
        return super().step(closure)


def parameters():
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    return [parameter]


def called(optimizer, calls):
    before = len(calls)
    optimizer.step()
    return len(calls) - before


if __name__ == "__main__":
    try:
        copy.deepcopy(Counting(parameters(), lr=0.1)).step()
        said = "steps"
    except AttributeError as error:
        said = str(error)
    print("copy:", said)
    calls = []
    original = torch.optim.SGD(parameters(), lr=0.1)
    original.register_step_post_hook(lambda *_: calls.append(1))
    copied = copy.deepcopy(original)
    hooks = called(original, calls), called(copied, calls)
    print("hooks called: original", hooks[0], "copy", hooks[1])
    assert "has no attribute 'made'" in said and hooks == (1, 0)
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" copied.py
