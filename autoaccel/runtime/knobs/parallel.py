"""Ranks that train side by side: the model that agrees with the others' on its gradients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from autoaccel.records.settings import Value
from autoaccel.runtime import ranks
from autoaccel.runtime.knobs.batches import LearningRateRule
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.space.knobs.parallel import NCCL_VARIABLES

_STARTED_OTHERWISE = "its ranks must be there when training starts: start it with `autoaccel run` or a launcher"


class WorldSize(Effect):
    """Wrap the model, so that its gradients are the mean over all ranks."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.wrapped = False

    def model(self, model: nn.Module) -> nn.Module:
        if ranks.world_size() == 1:
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
        if int(self.value) == 1:
            return ""
        if not self.wrapped:
            raise IneffectiveError(_STARTED_OTHERWISE)
        return f"{ranks.world_size()} ranks agree on gradients"


class RankBatch(Effect):
    """Whether ranks share a batch; `Applied.batch_factor` tells it to whoever makes the loader."""

    def check(self) -> str:
        if self.value == "keep" and ranks.world_size() == 1:
            raise IneffectiveError(_STARTED_OTHERWISE)
        return "" if self.value == "split" else f"a batch for each of {ranks.world_size()} ranks"


class RankLearningRate(LearningRateRule):
    """The learning rate follows the number of ranks that keep their batch."""

    @property
    def factor(self) -> float:
        return float(ranks.world_size()) if self.settings.get("parallel.batch") == "keep" else 1.0


class Backend(Effect):
    """How ranks meet; `ranks.join` is told by whoever starts them."""

    def check(self) -> str:
        if not ranks.is_joined():
            return ""
        if (found := distributed.get_backend()) != self.value:
            raise IneffectiveError(f"ranks have met over {found}")
        return f"over {self.value}"


class Compression(Effect):
    """Gradients are sent in a shorter type."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.sent = 0

    def model(self, model: nn.Module) -> nn.Module:
        if self.value != "off" and isinstance(model, DistributedDataParallel):
            hook = default_hooks.bf16_compress_hook if self.value == "bfloat16" else default_hooks.fp16_compress_hook

            def counted(group, bucket):  # type: ignore[no-untyped-def]  # torch compares annotations as objects
                self.sent += 1
                return hook(group, bucket)

            model.register_comm_hook(None, counted)
        return model

    def check(self) -> str:
        if self.value == "off":
            return ""
        if not self.sent:
            raise IneffectiveError("no gradient was sent")
        return f"{self.sent} buckets of gradients sent as {self.value}"


class Sync(Effect):
    """Of several backward passes of a step only the last makes ranks agree."""

    def __init__(self, name: str, settings: Mapping[str, Value], device: torch.device) -> None:
        super().__init__(name, settings, device)
        self.parts = int(settings.get("optimizer.accumulation", 1))
        self.passes = 0
        self.wrapped: DistributedDataParallel | None = None

    def model(self, model: nn.Module) -> nn.Module:
        if isinstance(model, DistributedDataParallel):
            self.wrapped = model
        return model

    def forward(self) -> AbstractContextManager[Any]:
        if self.value == "every" or self.wrapped is None:
            return nullcontext()
        self.passes += 1
        # What a backward pass will send is decided in its forward pass.
        return nullcontext() if self.passes % self.parts == 0 else self.wrapped.no_sync()

    def check(self) -> str:
        if self.value == "every":
            return ""
        if self.parts == 1 or not self.passes:
            raise IneffectiveError("a step has one backward pass")
        return f"ranks agree after the last of {self.parts} backward passes"


class NcclVariable(Effect):
    """A variable that NCCL has read when ranks first met."""

    def check(self) -> str:
        if self.value == "auto":
            return ""
        variable = NCCL_VARIABLES[self.name]
        if os.environ.get(variable) != self.value:
            raise IneffectiveError(f"{variable} is not set; start it with `autoaccel run` or a launcher")
        return f"{variable}={self.value}"
