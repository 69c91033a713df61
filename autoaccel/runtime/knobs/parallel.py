"""Ranks that train side by side: a model whose gradients are averaged over all of them."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from autoaccel.runtime.knobs.batches import LearningRateRule
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.ranks import is_alone, is_joined, world_size
from autoaccel.space.knobs import is_on
from autoaccel.space.knobs.parallel import NCCL_VARIABLES

_STARTED_OTHERWISE = "its ranks must exist when training starts: start it with `autoaccel run` or a launcher"


class WorldSize(Effect):
    """Wrap the model, so that its gradients are the mean over all ranks."""

    wrapped = False

    def model(self, model: nn.Module) -> nn.Module:
        if is_alone():
            return model
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        self.wrapped = True
        return DistributedDataParallel(
            model,
            device_ids=[device] if device.type == "cuda" else None,
            bucket_cap_mb=int(self.settings.get("parallel.bucket_mb", 25)),
            gradient_as_bucket_view=bool(self.settings.get("parallel.bucket_view", False)),
            static_graph=bool(self.settings.get("parallel.static_graph", False)),
        )

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.wrapped:
            raise IneffectiveError(_STARTED_OTHERWISE)
        return f"{world_size()} ranks all-reduce gradients"


class ParallelBatch(Effect):
    """Whether ranks share a batch, or each has one."""

    def batch_factor(self) -> float:
        return 1.0 if self.is_off else float(world_size())

    def check(self) -> str:
        if self.is_off:
            return ""
        if is_alone():
            raise IneffectiveError(_STARTED_OTHERWISE)
        return f"a batch for each of {world_size()} ranks"


class ParallelLearningRate(LearningRateRule):
    """The learning rate follows the number of ranks that keep their batch."""

    @property
    def factor(self) -> float:
        return float(world_size()) if is_on("parallel.batch", self.settings) else 1.0


class Backend(Effect):
    """How ranks meet; `join_others` is told by whoever starts them."""

    def check(self) -> str:
        if not is_joined():
            return ""
        if (found := distributed.get_backend()) != self.value:
            raise IneffectiveError(f"ranks have met over {found}")
        return f"over {self.value}"


class Compression(Effect):
    """Gradients are sent in a shorter type."""

    sent = 0

    def model(self, model: nn.Module) -> nn.Module:
        if not self.is_off and isinstance(model, DistributedDataParallel):
            hook = default_hooks.bf16_compress_hook if self.value == "bfloat16" else default_hooks.fp16_compress_hook

            def counted(group, bucket):  # type: ignore[no-untyped-def]  # torch compares annotations as objects
                self.sent += 1
                return hook(group, bucket)

            model.register_comm_hook(None, counted)
        return model

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.sent:
            raise IneffectiveError("no gradient was sent")
        return f"{self.sent} buckets of gradients sent as {self.value}"


class Sync(Effect):
    """Only the last of several backward passes of a step reduces gradients over all ranks."""

    passes = 0
    wrapped: DistributedDataParallel | None = None

    @property
    def passes_of_step(self) -> int:
        """Backward passes of a step, as the knob that this one needs has it."""
        return int(self.settings.get("optimizer.accumulation", 1))

    def model(self, model: nn.Module) -> nn.Module:
        if isinstance(model, DistributedDataParallel):
            self.wrapped = model
        return model

    def forward(self) -> AbstractContextManager[Any]:
        if self.is_off or self.wrapped is None:
            return nullcontext()
        self.passes += 1
        # What a backward pass will send is decided in its forward pass.
        return nullcontext() if self.passes % self.passes_of_step == 0 else self.wrapped.no_sync()

    def check(self) -> str:
        if self.is_off:
            return ""
        if self.passes_of_step == 1 or not self.passes:
            raise IneffectiveError("a step has one backward pass")
        return f"ranks all-reduce after the last of {self.passes_of_step} backward passes"


class NcclVariable(Effect):
    """A variable that NCCL has read when ranks first met."""

    def check(self) -> str:
        if self.is_off:
            return ""
        variable = NCCL_VARIABLES[self.name]
        if os.environ.get(variable) != self.value:
            raise IneffectiveError(f"{variable} is not set; start it with `autoaccel run` or a launcher")
        return f"{variable}={self.value}"
