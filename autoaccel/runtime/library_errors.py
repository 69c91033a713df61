"""What an error says of the failure that it is. Libraries tell it in words alone, each in its own.

Nothing else reads these: what follows from them is sent as values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from autoaccel.records.messages import FailureKind, without_numbers
from autoaccel.runtime.accelerator import free_bytes, uses_cuda

# CUDA, HIP, xpu, mps, Triton and NCCL say "out of memory"; cuBLAS, cuSOLVER, cuFFT, cuSPARSE and cuDNN up to 8 have a
# status ..._ALLOC_FAILED, cuDNN 9 ..._ALLOCATION_FAILED; the rest are of the main memory: torch's allocator on Linux
# and on Windows, and the system's.
_SAYS = re.compile(
    r"out of memory|_ALLOC_FAILED|_ALLOCATION_FAILED|can't allocate memory|not enough memory|Cannot allocate memory",
    re.IGNORECASE,
)

# What libraries say when they find no memory to load their kernels into, and after other faults too (pytorch#81620).
_MAY_MEAN = re.compile(
    r"CUDNN_STATUS_INTERNAL_ERROR|CUDNN_STATUS_NOT_INITIALIZED|CUBLAS_STATUS_NOT_INITIALIZED"
    r"|unable to find an engine to execute this computation"
)
_KERNELS_BYTES = 512 << 20
"""What cuDNN's kernels take at most (pytorch#81620)."""


# What CUDA says where a GPU is for one process at a time: "all CUDA-capable devices are busy or unavailable", since
# CUDA 11.2 "CUDA-capable device(s) is/are busy or unavailable"; and the system, and torch, of a port.
_SAYS_BUSY = re.compile("busy or unavailable|address already in use", re.IGNORECASE)

# What gloo and NCCL say, or where, when the connection to another rank is lost.
_SAYS_LOST = re.compile(r"gloo|nccl|c10d|Connection (closed|reset|refused)|Broken pipe", re.IGNORECASE)


def kind_of(error: BaseException) -> FailureKind:
    """Return what kind of failure an error is that the user's code or a library has raised."""
    if is_out_of_memory(error):
        return "memory"
    return "busy" if any(_SAYS_BUSY.search(str(one)) for one in _with_causes(error)) else "raised"


def first_line(error: BaseException) -> str:
    """Return an error's type and the first line of its text."""
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")


def signature_of(error: BaseException) -> str:
    """Return what tells an error from others, and is the same each time it is raised: its words without numbers."""
    return without_numbers(first_line(error))


def is_lost_connection(error: BaseException) -> bool:
    """Whether the connection to another rank was lost, for which that rank's own failure may be the reason."""
    known = getattr(torch.distributed, "DistError", ())  # torch may be built without
    return any(isinstance(one, known) or _SAYS_LOST.search(first_line(one)) for one in _with_causes(error))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory did not suffice, of the accelerator or of the computer, for this or for what led to it."""
    return any(_says_so(one) for one in _with_causes(error))


def _says_so(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if not isinstance(error, (RuntimeError, OSError)):
        return False
    text = str(error)
    return _SAYS.search(text) is not None or (_MAY_MEAN.search(text) is not None and _gpu_is_full())


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those that led to it: compilers wrap errors, and what cleans up after one fails as well."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _gpu_is_full() -> bool:
    """Whether so little is free that a library could not load its kernels."""
    if not uses_cuda():
        return False
    try:
        return free_bytes(torch.device("cuda")) < _KERNELS_BYTES
    except RuntimeError:
        return False  # after an error that lasts CUDA answers nothing any more
