"""What torch itself can do here, found out by doing it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Iterable

import msgspec
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from autoaccel.records.machine import TorchFacts
from autoaccel.runtime.accelerator import default_device, device_name, gpu_uuids, has_triton
from autoaccel.runtime.knobs.attention import BACKENDS
from autoaccel.runtime.knobs.precision import DTYPES
from autoaccel.runtime.randomness import same_random_numbers_after
from autoaccel.runtime.rates import product_speedup


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
    """Return what torch can do in this process's environment. Takes about a third of a second once it is loaded."""
    device = default_device()
    on_cpu = device.type == "cpu"
    autocast = tuple(name for name, dtype in DTYPES.items() if _trains_under_autocast(device, dtype))
    return TorchFacts(
        version=str(torch.__version__),
        intra_op_threads=torch.get_num_threads(),
        inter_op_threads=torch.get_num_interop_threads(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        device=device.type,
        device_name=device_name(device),
        autocast=autocast,
        fused_optimizer=_fused_works(device),
        compile_backends=tuple(name for name in _installed_backends() if _compiles_with(name, device)),
        has_triton=on_cpu or has_triton(device),
        attention={} if on_cpu else attention_kernels(device),
        gpus=gpu_uuids(),
        product_speedups=_product_speedups(autocast) if on_cpu else {},
    )


def probe_torch_beside() -> TorchFacts:
    """Return the same from within a training, which goes on with the random numbers that it would have had.

    What torch can do is looked up once; how many threads it has may have changed since.
    """
    return msgspec.structs.replace(
        _probed_beside(), intra_op_threads=torch.get_num_threads(), inter_op_threads=torch.get_num_interop_threads()
    )


@functools.cache
def _probed_beside() -> TorchFacts:
    with same_random_numbers_after(default_device()), warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")  # of ours the script's output shows nothing
        return probe_torch()


def _product_speedups(dtypes: Iterable[str]) -> dict[str, float]:
    return {name: speedup for name in dtypes if (speedup := product_speedup(DTYPES[name])) is not None}


def attention_kernels(device: torch.device) -> dict[str, tuple[str, ...]]:
    """Return the kernels of scaled dot-product attention that train on the device -> the dtypes in which they do."""
    dtypes = {"float32": torch.float32, **DTYPES}
    found = {
        kernel: tuple(name for name, dtype in dtypes.items() if _attends(device, backend, dtype))
        for kernel, backend in BACKENDS.items()
    }
    return {kernel: names for kernel, names in found.items() if names}


def _attends(device: torch.device, backend: SDPBackend, dtype: torch.dtype) -> bool:
    # (B, heads, T, C): sizes that every kernel takes.
    inputs = torch.ones(2, 2, 64, 64, device=device, dtype=dtype, requires_grad=True)
    try:
        with warnings.catch_warnings(), sdpa_kernel(backend):
            warnings.simplefilter("ignore", UserWarning)  # why a kernel is not used
            attended = functional.scaled_dot_product_attention(inputs, inputs, inputs, is_causal=True)
            attended.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    except RuntimeError:  # "No available kernel. Aborting execution."
        return False
    return inputs.grad is not None


_BACKEND_PACKAGES = {
    "onnxrt": "onnxruntime",
    "tvm": "tvm",
    "openxla": "torch_xla",
    "ipex": "intel_extension_for_pytorch",
}
"""Backend of torch.compile -> the module without which it cannot work."""


def _installed_backends() -> list[str]:
    """Return the backends beside Inductor that could work: listing them all would import dynamo, for seconds.

    cudagraphs needs no package but a GPU: on a CPU it is skipped with a warning.
    """
    found = [name for name, module in _BACKEND_PACKAGES.items() if importlib.util.find_spec(module)]
    if gpu_uuids():
        found.append("cudagraphs")
    if not found:
        return []
    if "ipex" in found and not _matches_ipex():
        found.remove("ipex")
    elif "ipex" in found:
        import intel_extension_for_pytorch  # noqa: F401  # importing it registers the backend
    listed = torch._dynamo.list_backends(exclude_tags=())
    return [name for name in found if name in listed]


def _matches_ipex() -> bool:
    """Whether this torch is the one that the extension was built for; under another, importing it ends the process."""
    version = importlib.metadata.version("intel-extension-for-pytorch")
    return version.split(".")[:2] == str(torch.__version__).split(".")[:2]


def _compiles_with(backend: str, device: torch.device) -> bool:
    """Whether a small model makes a training step when this backend has compiled it."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)
    try:
        torch.compile(model, backend=backend)(torch.ones(2, 4, device=device)).sum().backward()
    except Exception:  # whatever the backend raises
        return False
    return all(parameter.grad is not None for parameter in model.parameters())
