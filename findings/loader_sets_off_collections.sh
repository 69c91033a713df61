#!/usr/bin/env bash
# torch 2.13.0, CPython 3.11: a good part of the time in which a DataLoader makes batches of tensors goes into Python's
# garbage collection, which finds nothing.
#
# Expected: tensors are freed when nothing refers to them any more, so that the collector, which looks for objects that
# refer to one another, is hardly ever at work in a loop over a TensorDataset.
# Found: a batch of 4,096 samples makes three tensors and a tuple for each of them. That many objects at once set off the
# collector, and every fifth batch a full collection, which goes through all that `import torch` has left in memory, and
# the 2 million indices of the shuffled epoch. gc.freeze() before the loop takes what is there already out of it.
# Seen (two cores, a virtual machine): 41 % of 64 ms a batch, 21 full collections in 100 batches; frozen 17 % of 48 ms.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/collected.py" <<'PYTHON'
import gc
import itertools
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, BATCHES = 2_000_000, 100


def drawn(loader):
    """Return the share of the time of some batches that collections take, and how many full ones there are."""
    spent, full, began = 0.0, 0, 0.0

    def told(phase, info):
        nonlocal spent, full, began
        if phase == "start":
            began = time.perf_counter()
        else:
            spent += time.perf_counter() - began
            full += info["generation"] == 2

    batches = iter(loader)
    next(batches)
    gc.callbacks.append(told)
    start = time.perf_counter()
    for _ in itertools.islice(batches, BATCHES):
        pass
    whole = time.perf_counter() - start
    gc.callbacks.remove(told)
    return spent / whole, full, 1000 * whole / BATCHES


if __name__ == "__main__":
    columns = [torch.zeros(SAMPLES, dtype=torch.long) for _ in range(3)]
    loader = DataLoader(TensorDataset(*columns), batch_size=4096, shuffle=True)
    share, full, taken = drawn(loader)
    gc.collect()
    gc.freeze()
    frozen_share, _, frozen_taken = drawn(loader)
    print(f"{share:.0%} of {taken:.0f} ms a batch, {full} full collections; frozen: {frozen_share:.0%} of {frozen_taken:.0f} ms")
    assert share > 0.2 and full >= 10 and frozen_share < 0.7 * share
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" collected.py 2> /dev/null
