#!/usr/bin/env bash
# torch 2.13.0: an evaluation in order, without workers and without gradients, changes the training that follows.
#
# Expected: a DataLoader that neither shuffles nor has workers draws no random numbers, so that somebody who evaluates
# every epoch instead of every second one gets the same weights from the same seed.
# Found: each time that any DataLoader is iterated over, it draws a number from torch's global generator, for the seeds
# of workers that it may not have. Dropout, and the order of samples of the next epoch, are others from there on. With a
# generator of its own (`generator=torch.Generator()`) it leaves the training alone; so does one whose workers persist,
# but for the first time.
# Seen: weights as without the evaluations: False; with a generator of its own: True; with workers that persist, from the
# second evaluation on: True.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/evaluated.py" <<'PYTHON'
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

INPUTS = torch.linspace(-1, 1, 64).reshape(16, 4)
DATA = TensorDataset(INPUTS, INPUTS.sum(1, keepdim=True))


def trained(evaluation, first=0):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(DATA, batch_size=4, shuffle=True)
    for _ in range(first):
        for _ in evaluation:
            pass
    torch.manual_seed(1)
    for _ in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for inputs, _ in evaluation:
                model(inputs)
        model.train()
    return torch.cat([one.detach().flatten() for one in model.parameters()])


if __name__ == "__main__":
    without = trained(())
    in_order = trained(DataLoader(DATA, batch_size=4))
    own = trained(DataLoader(DATA, batch_size=4, generator=torch.Generator()))
    persistent = trained(DataLoader(DATA, batch_size=4, num_workers=1, persistent_workers=True), first=1)
    same = [torch.equal(without, other) for other in (in_order, own, persistent)]
    print("as without evaluations:", *same)
    assert same == [False, True, True]
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" evaluated.py
