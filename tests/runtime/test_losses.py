"""The losses of a step's parts are put together without losing digits."""

from __future__ import annotations

import math

import pytest
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


def test_a_loss_that_gradients_go_through_is_kept_without_them() -> None:
    loss = torch.tensor(2.0, requires_grad=True) * 2
    assert last_of(loss) == 4.0


def test_the_loss_of_the_first_step_and_the_mean_of_those_that_are_asked_for_are_kept() -> None:
    losses = StepLosses(torch.mean)
    losses.kept_after = 2
    for step, parts in enumerate([(1.0, 3.0), (9.0,), (4.0, 6.0), (8.0,)], 1):
        for part in parts:
            losses.add(torch.tensor(part))
        losses.end_step(step)
    assert losses.kept() == (2.0, pytest.approx(6.5))


def test_only_losses_without_a_finite_one_among_the_last_steps_have_diverged() -> None:
    losses = StepLosses(torch.mean)
    for step, loss in enumerate([1.0, math.inf, math.nan, -math.inf], 1):
        assert not losses.have_diverged
        losses.add(torch.tensor(loss))
        losses.end_step(step)
    assert losses.have_diverged
