#!/usr/bin/env bash
# torch 2.13.0, torchdata 0.11.0: a training resumed with a StatefulDataLoader is the same only if random numbers are
# restored after its iterator was made.
#
# Expected: model, optimizer, loader and torch's random state are loaded from a checkpoint of the middle of an epoch, then
# the loop goes on; samples come in the same order, so that the losses are those of the run that was not interrupted.
# Found: the samples are the same, but to make the iterator takes a number from torch's generator, which the iterator of
# the uninterrupted run has taken long before. What draws in the model, such as dropout, is one draw off from there on.
# With the random state restored after `iter(loader)` all losses are the same, with workers or without.
# Seen: restored before: same samples True, same losses False; restored after: same samples True, same losses True.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy torchdata==0.11.0
cat > "$folder/resumed.py" <<'PYTHON'
import copy

import torch
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader

SAVED_AFTER = 3  # steps of the first epoch


class Run:
    def __init__(self, workers):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        samples = torch.randn(32, 4, generator=torch.Generator().manual_seed(1))
        data = torch.utils.data.TensorDataset(samples)
        self.loader = StatefulDataLoader(data, batch_size=4, shuffle=True, num_workers=workers)
        self.seen, self.losses = [], []

    def step(self, batch):
        loss = self.model(batch).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.seen.append(batch.sum().item())
        self.losses.append(loss.item())

    def state(self):
        parts = (self.model, self.optimizer, self.loader)
        return copy.deepcopy([one.state_dict() for one in parts]), torch.get_rng_state()


def uninterrupted(workers):
    run, saved = Run(workers), None
    for _ in range(2):
        for (batch,) in run.loader:
            run.step(batch)
            if len(run.losses) == SAVED_AFTER:
                saved = run.state()
    return run, saved


def resumed(workers, saved, after_iter):
    run, (parts, random_state) = Run(workers), saved
    for one, state in zip((run.model, run.optimizer, run.loader), parts):
        one.load_state_dict(state)
    if not after_iter:
        torch.set_rng_state(random_state)
    batches = iter(run.loader)
    if after_iter:
        torch.set_rng_state(random_state)
    for of_epoch in (batches, run.loader):
        for (batch,) in of_epoch:
            run.step(batch)
    return run


if __name__ == "__main__":
    for workers in (0, 2):
        whole, saved = uninterrupted(workers)
        for after_iter in (False, True):
            run = resumed(workers, saved, after_iter)
            same = run.seen == whole.seen[SAVED_AFTER:], run.losses == whole.losses[SAVED_AFTER:]
            print(f"{workers} workers, restored {'after' if after_iter else 'before'}: same samples {same[0]}, same losses {same[1]}")
            assert same == (True, after_iter)
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" resumed.py 2> /dev/null
