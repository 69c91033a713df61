"""Clip: the limit that a training sets to its gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from autoaccel.errors import BadRequestError


@dataclass(frozen=True)
class Clip:
    """The limit of the gradients of each optimizer step: `Clip(norm=1.0)` or `Clip(value=0.5)`.

    It holds once for the whole gradient of a step, whatever settings have done: over all parts of a batch, all ranks,
    and without the factor that float16 trains with.

    Attributes:
        norm: The largest Euclidean norm of all gradients together; longer ones are shortened.
        value: The largest absolute value of each number in a gradient.
    """

    norm: float | None = None
    value: float | None = None

    def __post_init__(self) -> None:
        """Refuse what limits nothing, or twice.

        Raises:
            BadRequestError: Naming what must hold and what was found.
        """
        given = {name: limit for name, limit in vars(self).items() if limit is not None}
        if len(given) != 1:
            raise BadRequestError(
                f"Clip: exactly one of norm and value must be given, got {' and '.join(given) or 'neither'}."
            )
        ((name, limit),) = given.items()
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
            raise BadRequestError(f"Clip: {name} must be a number above 0, got {limit!r}. Try Clip({name}=1.0).")

    def apply(self, parameters: Iterable[nn.Parameter]) -> None:
        """Shorten the gradients of these parameters in place."""
        if self.norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.norm)
        elif self.value is not None:
            torch.nn.utils.clip_grad_value_(parameters, self.value)
