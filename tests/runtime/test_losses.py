"""The losses of a step's parts are put together without losing digits."""

from __future__ import annotations

import torch

from autoaccel.runtime.losses import StepLosses


def last_of(*parts: torch.Tensor) -> float:
    """Return the loss of a step that is the sum of these."""
    losses = StepLosses(torch.sum)
    for part in parts:
        losses.add(part)
    losses.end_step(1)
    return losses.last


def test_double_precision_is_kept_and_parts_may_have_a_dimension() -> None:
    loss = 1 + 2.0**-40
    assert last_of(torch.tensor(loss, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)) == loss


def test_short_types_are_summed_in_float32() -> None:
    third = torch.tensor(1 + 2.0**-7, dtype=torch.bfloat16)
    assert last_of(third, third, third) == 3 + 3 * 2.0**-7
    assert float(third + third + third) != 3 + 3 * 2.0**-7


def test_what_the_training_writes_over_later_is_kept_as_it_was() -> None:
    losses = StepLosses(torch.mean)
    loss = torch.tensor(2.0)
    losses.add(loss)
    loss.zero_()
    losses.end_step(1)
    assert losses.last == 2.0
