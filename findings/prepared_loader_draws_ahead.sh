#!/usr/bin/env bash
# torch 2.13.0, accelerate 1.15.0: on one CPU, a loader that accelerate has prepared makes another training of the same.
#
# Expected: `Accelerator(cpu=True).prepare(...)` in a single process moves and wraps, and changes no number: same seed,
# same order of samples, same losses.
# Found: to know which batch is the last, the prepared loader asks for the next batch before it hands one over. Where the
# main process loads (num_workers=0) and samples are drawn anew each time, their random numbers come one batch earlier,
# and dropout gets those that follow: the order of samples is the same, and all losses from the first one on are others.
# Seen: order same True; losses same False; without dropout and with fixed samples losses same True.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy accelerate==1.15.0
cat > "$folder/ahead.py" <<'PYTHON'
import torch
from accelerate import Accelerator
from torch import nn


class Noisy(torch.utils.data.Dataset):
    def __init__(self, noise):
        self.noise = noise

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((4,), float(index)) + self.noise * torch.rand(4)


def train(prepared, random):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5 * random), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(Noisy(0.5 * random), batch_size=4, shuffle=True)
    if prepared:
        model, optimizer, loader = Accelerator(cpu=True).prepare(model, optimizer, loader)
    order, losses = [], []
    for _ in range(2):
        for batch in loader:
            order.append(batch[:, 0].int().tolist())
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return order, losses


if __name__ == "__main__":
    plain, prepared = train(False, 1), train(True, 1)
    fixed = train(False, 0)[1] == train(True, 0)[1]
    print(f"order same {plain[0] == prepared[0]}; losses same {plain[1] == prepared[1]};",
          f"without dropout and with fixed samples losses same {fixed}")
    assert plain[0] == prepared[0] and plain[1][0] != prepared[1][0] and fixed
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" ahead.py
