"""What is asked of a worker that looks at a training."""

from __future__ import annotations

import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.trial import MOST_PROFILE_SECONDS
from autoaccel.session.advising import profile_task


@pytest.mark.parametrize(("budget_seconds", "most"), [(60.0, 6.0), (600.0, MOST_PROFILE_SECONDS)])
def test_looking_at_slow_steps_takes_a_small_share_of_a_budget(
    budget_seconds: float, most: float, machine: Machine
) -> None:
    """Two minutes went into the profile of a training whose steps take two seconds, whatever the budget was."""
    assert profile_task(machine, 1.0, budget_seconds=budget_seconds).most_seconds == pytest.approx(most)
    assert profile_task(machine, 1.0).most_seconds == MOST_PROFILE_SECONDS
