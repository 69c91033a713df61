"""What tells whether settings only round differently: the updates that steps make under them, beside the user's own."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from autoaccel.records.base import Record


class RecordUpdates(Record, frozen=True, tag="record-updates"):
    """Train some steps from a seed; at some points keep the state, and the updates that a few batches make from it."""

    folder: str  # where all is kept; it exists
    points: tuple[int, ...]  # after how many steps; the last is the end of the short training
    batches: int  # at each point


class CompareUpdates(Record, frozen=True, tag="compare-updates"):
    """Train the same steps under other settings; at the same points make the updates from the states that were kept."""

    folder: str


class UpdatesRecorded(Record, frozen=True, tag="updates-recorded"):
    """Answer to RecordUpdates: the folder holds what any number of CompareUpdates need."""


Kind = Literal["parameter", "state", "buffer"]
"""What a step changes: what is trained, what the optimizer remembers of it, what else the model keeps."""


class UpdateError(Record, frozen=True):
    """How far the updates of one tensor are from the user's own, at one point, from the same state on the same batches.

    All are squared lengths, summed over the coordinates that were looked at. Each coordinate is weighed by the root
    mean square of its gradient, so that lengths are in the unit of the loss. A buffer has none: the running statistics
    of a normalisation are in the unit of what it divides by (see `TrainedState.units`), all others as they are.
    """

    name: str
    kind: Kind
    point: int
    elements: int  # of the tensor
    coordinates: int  # of it that were looked at
    gradient: float  # mean square of one element's gradient; 0 for a buffer
    error: float  # of an update, mean over the batches
    systematic: float  # of the mean error over the batches, less what their scatter adds; below zero: nothing is seen
    repeat_error: float  # of the user's own update, made once more; 0 at points where none is
    noise: float  # variance: of the user's own update around its mean over batches, unbiased; 1 a running statistic
    mean: float  # of what the batches' mean gradient makes of the user's update, without momentum
    squares: bool = False  # whether it is a state that is never negative: Adam's average of squared gradients


class UpdatesCompared(Record, frozen=True, tag="updates-compared"):
    """Answer to CompareUpdates."""

    finite: bool  # whether all numbers under the settings are; if not, there are no errors
    draws_numbers: bool  # whether a step draws random numbers, as dropout does
    shortened: tuple[str, ...]  # tensors that are kept in a short type at the last point, and are not by the user
    batches: int  # at each point
    errors: tuple[UpdateError, ...]
    baseline_losses: tuple[float, ...] = msgspec.field(name="own_losses")  # of each step of the short training
    losses: tuple[float, ...]  # of the same steps on the same batches, under the settings; as many, if all are finite


Verdict = Literal["holds", "open", "too large"]
"""Of settings that change rounding: nothing but that; it cannot be told; more than that, or it may be."""


class RoundingEvidence(Record, frozen=True):
    """Whether what settings change is little beside the noise of a training: how updates on other batches differ."""

    # Where a number is of several points, it is their median; of several tensors, the largest of these.
    verdict: Verdict
    reason: str  # in a few words; empty where it holds
    steps: int  # of the short training
    points: int
    batches: int  # at each point
    error_share: float = 0.0  # mean square of the error of an update, over the noise's variance; of all parameters
    worst_error_share: float = 0.0  # of the one tensor with the largest; of squares, that of what is squared
    worst_tensor: str = ""
    systematic_share: float = 0.0  # length of the mean error, which adds up over a run, over that of the mean update
    repeat_share: float = 0.0  # as error_share, of the user's own updates made once more
    loss_difference: float = 0.0  # mean over the last half of the steps, over the scatter of the user's own losses

    @property
    def relative_error(self) -> float:
        """Length of the error of an update, over the length by which the updates of two batches differ."""
        return math.sqrt(self.error_share / 2)
