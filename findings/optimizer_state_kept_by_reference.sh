#!/usr/bin/env bash
# torch 2.13.0: an optimizer that has loaded a state keeps its tensors, and training changes what was loaded.
#
# Expected: load_state_dict() of an optimizer copies, as that of a module does, so that one checkpoint in memory (the
# best model so far, say, to which a loop goes back several times) may be loaded as often as one likes.
# Found: tensors of the right type and device are taken over as they are. The next steps write into the checkpoint: after
# three steps its "step" is 4 instead of 1 and its moments are others, while the weights beside them are as they were. A
# second resumption from it is another training than the first. Loading copy.deepcopy(checkpoint) is as expected.
# Seen: module untouched True, optimizer untouched False, step 4.0 instead of 1.0, same twice False, of copies True.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/resumed.py" <<'PYTHON'
import copy

import torch

inputs = torch.randn(4, 8, 2, generator=torch.Generator().manual_seed(0))


def train(model, optimizer, batches):
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def begun(seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    train(model, optimizer, inputs[:1])
    return model, optimizer


def resumed(checkpoint):
    model, optimizer = begun(1)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    train(model, optimizer, inputs[1:])
    return model.weight.detach().clone()


model, optimizer = begun(0)
checkpoint = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
saved = copy.deepcopy(checkpoint)
first = resumed(checkpoint)
state, as_saved = checkpoint["optimizer"]["state"][0], saved["optimizer"]["state"][0]
module_untouched = torch.equal(checkpoint["model"]["weight"], saved["model"]["weight"])
optimizer_untouched = torch.equal(state["exp_avg"], as_saved["exp_avg"])
steps = state["step"].item(), as_saved["step"].item()
same_twice = torch.allclose(first, resumed(checkpoint), atol=1e-3)
same_of_copies = torch.equal(*(resumed(copy.deepcopy(saved)) for _ in range(2)))
print(f"module untouched {module_untouched}, optimizer untouched {optimizer_untouched},", end=" ")
print(f"step {steps[0]} instead of {steps[1]}, same twice {same_twice}, of copies {same_of_copies}")
assert module_untouched and not optimizer_untouched and steps == (4.0, 1.0) and not same_twice and same_of_copies
print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" resumed.py
