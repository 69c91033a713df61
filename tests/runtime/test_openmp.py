"""What is set for computing is set in each thread that computes, those that run already included."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

CODE = """
import torch
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.knobs.effect import IneffectiveError

torch.set_num_threads(2)
numbers = torch.full((1 << 20,), torch.finfo(torch.float32).smallest_normal)
numbers * 1.0  # its threads run from here on

def share():
    return float((numbers / 2 == 0.0).double().mean())

torch.set_flush_denormal(True)
print("in this thread alone", share() < 1.0)
torch.set_flush_denormal(False)
applied = Applied({"precision.flush_denormals": True})
print(share(), applied.check())
torch.set_flush_denormal(False)
print(applied.check()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there threads that run already are reached")
def test_denormals_are_zero_in_threads_that_run_already() -> None:
    """OpenMP's kept computing them: half of every large tensor, and a check of one number passed."""
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush them")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == [
        "in this thread alone True",
        "1.0 ({'precision.flush_denormals': 'denormals are zero'}, {})",
        "{'precision.flush_denormals': 'denormals are not all zero in some threads'}",
    ]
