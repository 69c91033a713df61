"""Updates that a script makes itself, without an optimizer of torch's: told as those of an optimizer are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from autoaccel.records.script import BY_HAND


class UpdatesByHand(torch.optim.Optimizer):
    """Stands in for the optimizer that a script does without. It makes no update."""

    def __init__(self, parameters: Sequence[torch.Tensor] = ()) -> None:
        """Name what the script updates, as far as that is known."""
        super().__init__(list(parameters) or [torch.zeros(0)], {})


UpdatesByHand.__name__ = BY_HAND  # optimizers are told by the names of their classes; this one is none of the user's


class HearsUpdates(Protocol):
    """What is told of updates, such as `Events`."""

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to make an update."""

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has made an update."""


class OwnUpdates:
    """Tells of one update after each computation of gradients: it has been made once the next one begins.

    Whoever knows earlier that it has been made calls `end`.
    """

    def __init__(self, hears: HearsUpdates, by_backward: bool, parameters: Sequence[torch.Tensor] = ()) -> None:
        """Begin before the first one.

        Args:
            hears: Told of the updates.
            by_backward: Whether gradients for an update come from backward(); else from torch.func or autograd.grad().
            parameters: That are updated, as far as they are known.
        """
        self._hears = hears
        self._by_backward = by_backward
        self._optimizer = UpdatesByHand(parameters)
        self._awaits_update = False

    def hold(self, parameters: Sequence[torch.Tensor]) -> None:
        """Name what is updated: it was not known before."""
        self._optimizer.param_groups[0]["params"] = list(parameters)

    def gradients_begin(self, by_backward: bool) -> None:
        """Gradients are about to be computed, so the update from those before has been made."""
        if by_backward == self._by_backward:
            self.end()
            self._awaits_update = True

    def end(self) -> None:
        """The update from the last gradients has been made."""
        if self._awaits_update:
            self._awaits_update = False
            self._hears.update_begins(self._optimizer)
            self._hears.update_ended(self._optimizer)


class LeavesSeen:
    """The tensors that a script takes gradients for, as they were at its first loss: do they change by its own hand?"""

    def __init__(self, loss: torch.Tensor) -> None:
        """Remember what a loss is made of; its graph must still be there."""
        self.leaves = leaves_of(loss)
        self._sums = self._sum()

    def have_changed(self) -> bool:
        """Whether any has another value than then."""
        return self._sum() != self._sums

    def _sum(self) -> list[float]:
        return [float(leaf.detach().sum(dtype=torch.float64)) for leaf in self.leaves]


def leaves_of(loss: torch.Tensor) -> list[torch.Tensor]:
    """Return the leaves, of real numbers, that backward() would compute gradients for."""
    found: list[torch.Tensor] = []
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of a node that accumulates a gradient
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            found.append(leaf)
        waiting.extend(following for following, _ in node.next_functions)
    return found
