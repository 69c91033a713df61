"""Profile: where the time of a step goes; Finding: one cause read off it."""

from __future__ import annotations

from autoaccel.records.base import Record

PHASES = ("data wait", "host to device", "forward", "backward", "optimizer", "other")
"""Phases of a step, in the order in which they happen; their shares add up to 1."""


class OperatorShare(Record, frozen=True):
    """One operator: its own time (children excluded) as a share of all operators' own time."""

    name: str
    group: str
    share: float
    calls_per_step: float


class Profile(Record, frozen=True):
    """Share of the step per phase and per operator, under the user's own settings."""

    step_seconds: float  # median, untraced
    samples_per_second: float | None
    phases: dict[str, float]  # phase -> share of the step, untraced; see PHASES
    operators: tuple[OperatorShare, ...]  # largest first
    groups: dict[str, float]  # group -> share of all operators' own time
    peak_bytes: int  # resident memory of the process, or memory allocated on the accelerator
    parameters: int
    steps: int  # untraced steps that the phases come from


class Finding(Record, frozen=True):
    """One cause read off a Profile, and the most that removing it could win."""

    code: str
    title: str
    share: float  # of the step
    bound_speedup: float  # if that share vanished
    knobs: tuple[str, ...] = ()
    advice: str = ""
