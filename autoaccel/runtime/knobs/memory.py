"""Who hands out memory, in which pages, and what is kept between steps."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autoaccel.runtime.accelerator import has_expandable_segments
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.knobs.threads import is_loaded
from autoaccel.runtime.modules import Shadow, followed, repeated_blocks


class Allocator(Effect):
    """The allocator; it was preloaded."""

    def check(self) -> str:
        if self.is_off:
            return ""
        if not is_loaded(f"lib{self.value}"):
            raise IneffectiveError(
                f"{self.value} is not loaded: the dynamic loader could not use it, or it was not preloaded"
            )
        return f"{self.value} is loaded"


_REUSED_BYTES = 48 << 20
"""Above 32 MiB, which is the largest block that glibc ever keeps by itself (DEFAULT_MMAP_THRESHOLD_MAX)."""

_HUGE_PAGE_BYTES = 2 << 20


_TRIM_VARIABLE = "MALLOC_TRIM_THRESHOLD_"

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4  # of glibc's malloc.h
_KEPT = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: 2**31 - 1}  # the most that mallopt() takes
_NEAREST = {_M_MMAP_MAX: 65536, _M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 64 << 20}
"""What a process that has freed large blocks comes to by itself: twice the largest block that it still keeps."""


class KeepFreed(Effect):
    """Memory that is freed stays with the process; variables were set when it started, or it is told as it runs."""

    switches = True
    way_back = "glibc adapts its thresholds only until they are set; afterwards the nearest fixed ones hold"

    def process(self) -> None:
        if not self.is_off and _TRIM_VARIABLE not in os.environ:
            _tell_malloc(_KEPT)

    def withdraw(self) -> None:
        _tell_malloc(_NEAREST)

    def check(self) -> str:
        if self.is_off:
            return ""
        # As many as the block takes even in huge pages: the system may take back a few at any time.
        if (faults := _faults_of_reuse(_REUSED_BYTES)) >= _REUSED_BYTES // _HUGE_PAGE_BYTES:
            raise IneffectiveError(
                f"{faults:,} pages of memory that was freed came back from the system: another allocator is loaded, or "
                "MALLOC_TRIM_THRESHOLD_ was less when the process started"
            )
        return "memory that is freed is kept"


def _tell_malloc(parameters: Mapping[int, int]) -> None:
    library = ctypes.CDLL(None)
    for parameter, value in parameters.items():
        library.mallopt(parameter, value)


def _faults_of_reuse(size: int) -> int:
    """Return how many pages the system hands out where a block is written that is as large as one just freed."""
    import resource  # not on Windows

    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    faults = 0
    for _ in range(2):
        block = library.malloc(size)
        if block is None:
            return 0  # nothing is free that could tell
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        ctypes.memset(block, 1, size)
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
        library.free(block)
    return faults


class HugePages(Effect):
    """Large tensors in huge pages."""

    def check(self) -> str:
        if self.is_off:
            return ""
        # Kept until it was looked for: what is freed no longer counts.
        large = torch.ones(8 << 20)
        rollup = Path("/proc/self/smaps_rollup").read_text()
        kibibytes = re.search(r"AnonHugePages:\s+(\d+)", rollup)
        if not kibibytes or int(kibibytes[1]) * 1024 < large.nbytes // 2:
            raise IneffectiveError("large tensors are not in huge pages; the system may have none left")
        return f"{int(kibibytes[1]) // 1024} MiB are in huge pages"


class ExpandableSegments(Effect):
    """CUDA memory that grows in place."""

    def check(self) -> str:
        if self.is_off:
            return ""
        if "expandable_segments:True" not in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):
            raise IneffectiveError("PYTORCH_CUDA_ALLOC_CONF was not set when the process started")
        if not has_expandable_segments():
            raise IneffectiveError("no segment of CUDA memory is expandable")
        return "segments of CUDA memory are expandable"


class KeepGradients(Effect):
    """Gradients become zero instead of nothing; those that a step has left zero are nothing to the optimizer.

    With zeros, one with momentum or weight decay would move a parameter that took no part in the step.
    """

    kept = 0

    def begin(self) -> None:
        self._zeros: dict[torch.Tensor, tuple[int, int]] = {}  # of each parameter its gradient when that became zero

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        if self._zeros:
            for parameter in _parameters(optimizer):
                if parameter.grad is not None and self._zeros.get(parameter) == _version(parameter.grad):
                    parameter.grad = None

    def zero_grad(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.is_off:
            return False
        optimizer.zero_grad(set_to_none=False)
        for parameter in _parameters(optimizer):
            if parameter.grad is not None:
                self._zeros[parameter] = _version(parameter.grad)
        self.kept = self.kept or len(self._zeros)
        return True

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.kept:
            raise IneffectiveError("no gradient was kept")
        return f"{self.kept} gradients are kept"


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _version(gradient: torch.Tensor) -> tuple[int, int]:
    """Return what changes when a gradient is added to, or is another tensor."""
    return id(gradient), gradient._version


class Checkpointing(Effect):
    """Activations inside repeated blocks are computed again in the backward pass."""

    blocks = 0

    def begin(self) -> None:
        self._shadows: weakref.WeakSet[Shadow] = weakref.WeakSet()

    def model(self, model: nn.Module) -> nn.Module:
        if self.is_off:
            return model
        shadow = Shadow(model)
        for parent, name in repeated_blocks(shadow.model):
            block = getattr(parent, name)
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
            self.blocks += 1
        self._shadows.add(shadow)
        return shadow.model

    def forward(self) -> AbstractContextManager[Any]:
        return followed(self._shadows)

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.blocks:
            raise IneffectiveError("the model has no repeated blocks")
        return f"{self.blocks} blocks are recomputed in the backward pass"
