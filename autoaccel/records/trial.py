"""Trial: what was tried and what came of it."""

from __future__ import annotations

import statistics
from typing import Literal

import msgspec

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.base import Record
from autoaccel.records.bounds import Count, NotNegative, PositiveSeconds, Seconds, Share, SignedSeconds, Speedup
from autoaccel.records.messages import Failure, ModelSize, Turn
from autoaccel.records.settings import Settings


class Measurement(Record, frozen=True, tag="measurement"):
    """What a measuring worker showed: raw times only, everything else is derived."""

    startup_seconds: Seconds  # process start to first step; of a forked process with the imports that it was spared
    warmup_step_seconds: tuple[PositiveSeconds, ...]
    turns: tuple[Turn, ...]
    learned: dict[str, str] = {}
    lazy_import_seconds: Seconds = 0.0  # of imports that the first step would have waited for in a program of its own
    batch_factor: Speedup = 1.0  # samples of one of its steps, over those of a step of the training's own
    late_seconds: Seconds = 0.0  # see Ready
    model_size: ModelSize | None = None

    @property
    def peak_bytes(self) -> int:
        """Most memory that the process held."""
        return max((turn.peak_bytes for turn in self.turns), default=0)

    @property
    def compile_seconds(self) -> float:
        """The extra time of the first steps: compilation, start of loader workers, cold caches, a larger model.

        Before the first turn, the quickest of the first steps counts as settled.
        """
        steps = [second for turn in self.turns for second in turn.step_seconds]
        settled = statistics.median(steps or [min(self.warmup_step_seconds, default=0.0)])
        slower = sum(max(0.0, second - settled) for second in self.warmup_step_seconds)
        return self.lazy_import_seconds + self.late_seconds + slower

    @property
    def overhead_seconds(self) -> float:
        """What a run takes beside its settled steps: start-up and the extra time of the first steps."""
        return self.startup_seconds + self.compile_seconds


Verdict = Literal["faster", "slower", "within noise"]


class Comparison(Record, frozen=True):
    """Speed-up over the baseline: new / baseline throughput, above 1 is better; its interval; the verdict."""

    speedup: Speedup
    low: NotNegative
    high: NotNegative
    verdict: Verdict
    confidence: Share
    process_pairs: Count
    turns: Count
    drift: NotNegative = 0.0  # standard deviation of its logarithm from hour to hour, for which the interval has room
    steps: Count = 0  # of each side that pairs of processes have looked at; 0: of one process, or of earlier versions
    spared: NotNegative = 0.0  # speed-up at least by what the system no longer does; 0: it is no evidence here


class Trial(Record, frozen=True):
    """One line of trials.jsonl: what was tried and what came of it."""

    number: Count
    settings: Settings
    outcome: Measurement | Failure
    spent_seconds: SignedSeconds
    comparison: Comparison | None = None
    step_seconds: PositiveSeconds | None = None  # the baseline's settled step time divided by the speed-up
    total_seconds: PositiveSeconds | None = None  # projected for the whole planned run
    accuracy: Accuracy | None = None  # once it was measured in the proof of these settings, or of some like them
    feasible: bool = True  # False: the metric's drop may exceed the constraint, or such settings failed in a proof
    # Of the baseline, each right beside the outcome's turn.
    baseline_turns: tuple[Turn, ...] = msgspec.field(default=(), name="own_turns")
    again: bool = False  # these settings were measured before; all their readings count
    host: str = ""  # that measured it, where several machines share a study; empty: this one
