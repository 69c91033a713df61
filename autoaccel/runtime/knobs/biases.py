"""Biases that are dropped."""

from __future__ import annotations

from torch import nn

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.modules import before_norm, with_bias


class _Drop(Effect):
    """Drop the biases of some layers."""

    dropped = 0

    def layers(self, model: nn.Module) -> list[nn.Module]:
        """Return the layers whose biases are dropped."""
        raise NotImplementedError

    def model(self, model: nn.Module) -> nn.Module:
        if not self.is_off:
            for layer in self.layers(model):
                layer.register_parameter("bias", None)
                self.dropped += 1
        return model

    def restore(self, model: nn.Module) -> nn.Module:
        return self.model(model)

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.dropped:
            raise IneffectiveError("the model has no such bias")
        return f"{self.dropped} biases dropped"


class NormBiases(_Drop):
    """Drop what batch normalisation subtracts again."""

    def layers(self, model: nn.Module) -> list[nn.Module]:
        return before_norm(model)


class Biases(_Drop):
    """Drop all biases of convolutions and linear layers."""

    def layers(self, model: nn.Module) -> list[nn.Module]:
        return with_bias(model)
