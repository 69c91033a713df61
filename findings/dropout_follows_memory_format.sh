#!/usr/bin/env bash
# torch 2.13.0: which elements dropout drops depends on the memory format of its input, for one seed and one shape.
#
# Expected: a seed and a shape decide which elements are dropped. A model that is changed to channels_last, which changes
# no value, then trains as before but for the rounding of its convolutions.
# Found: the random numbers are given out in the order in which elements lie in memory, so that another format drops
# other elements: half of 256 differ. torch.rand_like, and whatever draws into a tensor of its input's format, does the
# same. A comparison of the two formats from one seed compares two samples of noise. Dropout behind a flatten() is not
# affected, nor is nn.Dropout2d, whose mask has one element for each channel.
# Seen: dropout: 126 of 256 elements differ; rand_like: 252; dropout2d, and dropout behind flatten: 0.
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy
cat > "$folder/formats.py" <<'PYTHON'
import torch
from torch.nn import functional

PLAIN = torch.ones(2, 8, 4, 4)
LAST = PLAIN.to(memory_format=torch.channels_last)


def differing(draw):
    found = []
    for tensor in (PLAIN, LAST):
        torch.manual_seed(0)
        found.append(draw(tensor))
    return int((found[0] != found[1]).sum())


if __name__ == "__main__":
    assert torch.equal(PLAIN, LAST)
    dropped = differing(lambda tensor: functional.dropout(tensor, 0.5, True))
    drawn = differing(torch.rand_like)
    channels = differing(lambda tensor: functional.dropout2d(tensor, 0.5, True))
    behind = differing(lambda tensor: functional.dropout(tensor.flatten(1), 0.5, True))
    print("of", PLAIN.numel(), "elements differ: dropout", dropped, "rand_like", drawn, "dropout2d", channels,
          "dropout behind flatten", behind)
    assert dropped > 64 and drawn > 200 and channels == 0 and behind == 0
    print("as found")
PYTHON
cd "$folder"
"$folder/venv/bin/python" formats.py
