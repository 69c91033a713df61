"""What torch itself can do here, found out by doing it."""

from __future__ import annotations

import torch
from torch import nn

from autoaccel.records.machine import TorchFacts
from autoaccel.runtime.knobs.precision import DTYPES


def _trains_under_autocast(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a convolution and a linear layer train in this type without an error and with finite gradients."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2)).to(device)
    try:
        with torch.autocast(device.type, dtype=dtype):
            loss = model(torch.ones(2, 2, 8, 8, device=device)).float().sum()
        loss.backward()
    except RuntimeError:
        return False
    return all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def _fused_works(device: torch.device) -> bool:
    parameter = nn.Parameter(torch.ones(2, device=device))
    parameter.grad = torch.ones(2, device=device)
    try:
        torch.optim.Adam([parameter], fused=True).step()
    except (RuntimeError, ValueError):
        return False
    return True


def probe_torch() -> TorchFacts:
    """Return what torch can do in this process's environment. Takes about a tenth of a second once it is loaded."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return TorchFacts(
        version=str(torch.__version__),
        intra_op_threads=torch.get_num_threads(),
        inter_op_threads=torch.get_num_interop_threads(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        device=device.type,
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        autocast=tuple(name for name, dtype in DTYPES.items() if _trains_under_autocast(device, dtype)),
        fused_optimizer=_fused_works(device),
    )
