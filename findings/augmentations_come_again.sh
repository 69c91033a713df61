#!/usr/bin/env bash
# torch 2.13.0, monai 1.6.1: with two workers of a DataLoader, each random augmentation comes twice, and in every epoch.
#
# Expected: torch seeds its workers, numpy's shared generator included, so that augmentations differ from worker to
# worker and from epoch to epoch, as they do without workers.
# Found: a random transform of MONAI holds a numpy RandomState of its own, which each worker is a copy of: both draw the
# same noise, and workers that are started anew for the next epoch begin where the first ones did. With two workers, four
# epochs of eight samples see four draws instead of 32. MONAI's own DataLoader, which seeds them, is as expected.
# Seen: draws with no worker 32, with two workers 4, with MONAI's loader and two workers 32.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy monai==1.6.1
cat > "$folder/again.py" <<'PYTHON'
import monai.data
import torch
from monai.transforms import RandGaussianNoise


class Noisy(torch.utils.data.Dataset):
    def __init__(self):
        self.transform = RandGaussianNoise(prob=1.0)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return float(self.transform(torch.zeros(1, 8, 8)).sum())


def draws(loader):
    return len({float(batch) for _ in range(4) for batch in loader})


if __name__ == "__main__":
    torch.manual_seed(0)
    none = draws(torch.utils.data.DataLoader(Noisy(), batch_size=1))
    two = draws(torch.utils.data.DataLoader(Noisy(), batch_size=1, num_workers=2))
    of_monai = draws(monai.data.DataLoader(Noisy(), batch_size=1, num_workers=2))
    print(f"draws with no worker {none}, with two workers {two}, with MONAI's loader and two workers {of_monai}")
    assert (none, two, of_monai) == (32, 4, 32)
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" again.py
