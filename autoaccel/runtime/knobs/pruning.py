"""Structured pruning: the least important channels are removed for good, and the rest trains on."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from torch import nn

from autoaccel.records.messages import ModelSize
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.knobs.inspecting import LossOf, count_flops, executed_layers
from autoaccel.runtime.knobs.removal import Removal
from autoaccel.runtime.modules import count_parameters


class Pruning(Effect):
    """Remove a share of the channels after a warm-up."""

    size: ModelSize | None = None

    def shrinks_after(self) -> int | None:
        return None if self.is_off else int(self.settings.get("model.pruning_warmup", 1))

    def shrink(self, model: nn.Module, loss_of: LossOf) -> tuple[nn.Module, ModelSize]:
        norm = 1 if self.settings.get("model.pruning_criterion", "l1") == "l1" else 2
        used = executed_layers(model, loss_of)
        kept = used[-1:] if self.settings.get("model.pruning_keeps", "last") == "last" else [*used[:1], *used[-1:]]
        if self.settings.get("model.pruning_library", "torch-pruning") == "nni":
            from autoaccel.runtime.knobs.pruning_nni import prune
        else:
            from autoaccel.runtime.knobs.pruning_torch import prune
        before = count_parameters(model), count_flops(model, loss_of)
        removal = Removal(float(self.value), norm, kept_names(model, kept))
        smaller = prune(copy.deepcopy(model), loss_of, removal)
        self.size = ModelSize(before[0], count_parameters(smaller), before[1], count_flops(smaller, loss_of))
        if self.size.parameters == self.size.baseline_parameters:
            raise IneffectiveError("no channel of the model could be removed")
        return smaller, self.size

    def check(self) -> str:
        if self.is_off:
            return ""
        if self.size is None:
            raise IneffectiveError("the training ended before its channels were removed")
        return (
            f"{self.size.baseline_parameters:,} -> {self.size.parameters:,} parameters, "
            f"{self.size.baseline_flops:.3g} -> {self.size.flops:.3g} FLOPs a step"
        )


def kept_names(model: nn.Module, kept: Sequence[nn.Module]) -> frozenset[str]:
    """Return the names of the layers whose outputs keep their number."""
    wanted = {id(module) for module in kept}
    return frozenset(name for name, module in model.named_modules() if id(module) in wanted)
