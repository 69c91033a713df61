#!/usr/bin/env bash
# torch 2.13.0: a DataLoader with workers asks its batch sampler for an iterator twice in an epoch.
#
# Expected: a batch sampler whose __iter__ shuffles at once (`return iter(torch.randperm(n).split(4))`) gives, for one
# seed, the same batches whether num_workers is 0 or 1; workers change who loads a batch, not which batches there are.
# Found: with workers the iterator is made in _BaseDataLoaderIter.__init__, thrown away, and made anew by _reset(). The
# second shuffle is the one that is used, so order and all later random numbers are those of another training. A batch
# sampler that is a generator function (`yield`) draws with the first batch, and is not affected.
# Seen: AtOnce 1 [[4, 0, 7, 3], [2, 5, 1, 6]] without workers, 2 [[3, 0, 4, 2], [7, 6, 5, 1]] with one.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/asked.py" <<'PYTHON'
import torch
from torch.utils.data import DataLoader, TensorDataset


class AtOnce:
    def __init__(self):
        self.asked = 0

    def __len__(self):
        return 2

    def __iter__(self):
        self.asked += 1
        return iter(torch.randperm(8).view(2, 4).tolist())


class ByGenerator(AtOnce):
    def __iter__(self):
        self.asked += 1
        yield from torch.randperm(8).view(2, 4).tolist()


def drawn(kind, workers):
    torch.manual_seed(0)
    sampler = kind()
    loader = DataLoader(TensorDataset(torch.arange(8)), batch_sampler=sampler, num_workers=workers)
    return sampler, [batch.tolist() for (batch,) in loader]


if __name__ == "__main__":
    for kind in (AtOnce, ByGenerator):
        (own, alone), (asked, with_worker) = drawn(kind, 0), drawn(kind, 1)
        print(kind.__name__, own.asked, alone, asked.asked, with_worker)
        if kind is AtOnce:
            assert (own.asked, asked.asked) == (1, 2) and alone != with_worker
        else:
            assert own.asked == asked.asked == 1 and alone == with_worker
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" asked.py
