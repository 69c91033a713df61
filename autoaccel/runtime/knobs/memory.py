"""Who hands out memory, in which pages, and what is kept between steps."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autoaccel.runtime.accelerator import has_expandable_segments
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.knobs.threads import is_loaded
from autoaccel.runtime.modules import repeated_blocks, shadow


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
    """Gradients become zero instead of nothing."""

    kept = 0

    def zero_grad(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.is_off:
            return False
        optimizer.zero_grad(set_to_none=False)
        if not self.kept:
            parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
            self.kept = sum(parameter.grad is not None for parameter in parameters)
        return True

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.kept:
            raise IneffectiveError("no gradient was kept")
        return f"{self.kept} gradients are kept"


class Checkpointing(Effect):
    """Activations inside repeated blocks are computed again in the backward pass."""

    blocks = 0

    def model(self, model: nn.Module) -> nn.Module:
        if self.is_off:
            return model
        copy = shadow(model)
        for parent, name in repeated_blocks(copy):
            block = getattr(parent, name)
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
            self.blocks += 1
        return copy

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.blocks:
            raise IneffectiveError("the model has no repeated blocks")
        return f"{self.blocks} blocks are recomputed in the backward pass"
