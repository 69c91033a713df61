"""What is asked of a worker that looks at a training."""

from __future__ import annotations

from autoaccel.records.machine import Machine
from autoaccel.records.messages import MAX_PROFILE_SECONDS
from autoaccel.workers.profiling import profile_task


def test_looking_at_slow_steps_takes_the_time_that_it_is_given(machine: Machine) -> None:
    """Two minutes went into the profile of a training whose steps take two seconds, whatever the budget was."""
    assert profile_task(machine, 1.0, max_seconds=6.0).max_seconds == 6.0
    assert profile_task(machine, 1.0).max_seconds == MAX_PROFILE_SECONDS
