"""The effect of the knob, in a file of its own, because torch is imported only where training happens."""

import torch

from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class Deterministic(Effect):
    """Deterministic algorithms."""

    @classmethod
    def found(cls, device: torch.device) -> bool:
        """Return what the user's own code has chosen, which is the knob's default."""
        return torch.are_deterministic_algorithms_enabled()

    def process(self) -> None:
        torch.use_deterministic_algorithms(bool(self.value))

    def check(self) -> str:
        if not self.value:
            return ""
        if not torch.are_deterministic_algorithms_enabled():
            raise IneffectiveError("something has allowed other algorithms again")
        return "algorithms are deterministic"
