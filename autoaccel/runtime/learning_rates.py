"""Change the learning rate of each step without its schedule noticing."""

from __future__ import annotations

from typing import Any

import torch

from autoaccel.runtime.knobs.effect import IneffectiveError


def scale_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Multiply the learning rates of the optimizer's groups by this factor during each of its steps.

    They change only while a step is made: a schedule such as OneCycleLR sets learning rates of its own, and would undo
    what was set once. Outside of steps, the schedule reads and sets the training's own.

    Raises:
        IneffectiveError: If it is no torch optimizer, so that nobody can tell when it makes a step.
    """
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise IneffectiveError(
            f"{type(optimizer).__name__} is not a torch.optim.Optimizer, so its learning rates cannot be set"
        )
    own: list[list[Any]] = []  # for each call of step() that has begun: that of a subclass may call that of its base

    def scale(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        rates = [group["lr"] for group in optimizer.param_groups]
        if not own:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor
        own.append(rates)

    def restore(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, own.pop(), strict=True):
            group["lr"] = rate

    optimizer.register_step_pre_hook(scale)
    optimizer.register_step_post_hook(restore)
