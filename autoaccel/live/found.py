"""What a training that was tuned while it ran has found: kept line by line, and told at its end."""

from __future__ import annotations

import math
import time
from pathlib import Path

from autoaccel.live.tuner import Tried
from autoaccel.live.watching import Watch
from autoaccel.records.base import encode
from autoaccel.records.live import LiveTried
from autoaccel.records.settings import Settings, changed, describe_change
from autoaccel.records.trial import Comparison
from autoaccel.units import format_duration


class Found:
    """Writes down each comparison, and sums them up."""

    def __init__(self, folder: Path, own: Settings, began: float) -> None:
        """Begin with nothing.

        Args:
            folder: Of the run; it is made when there is something to write.
            own: The user's own settings.
            began: When the training did, by the monotonic clock.
        """
        self.log = folder / "live.jsonl"
        self.steps = 0
        """That were made since it was known what is trained."""
        self.has_failed = False
        """Whether tuning has, so that nothing is in use that was found."""
        self._own = own
        self._began = began
        self._kept: list[Tried] = []

    @property
    def seconds(self) -> float:
        """Since the training began."""
        return time.monotonic() - self._began

    def add(self, tried: Tried) -> None:
        """Write a comparison down."""
        if tried.is_kept:
            self._kept.append(tried)
        elif tried.became == "given up":
            self._kept = [one for one in self._kept if one.compared is not None and one.compared.lasts]
        found = LiveTried(
            after_seconds=self.seconds,
            after_steps=self.steps,
            settings=changed(tried.settings, self._own),
            against=changed(tried.against, self._own),
            comparison=tried.compared.comparison if tried.compared is not None else None,
            rounding=tried.rounding,
            became=tried.became,
            harm=tried.harm,
        )
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.log.open("ab") as file:
            file.write(encode(found) + b"\n")

    def comparison(self, watch: Watch | None) -> Comparison | None:
        """Return what the settings in use are worth against the user's own; None where blocks are too few to say.

        Settings that cannot be taken back are worth what the blocks before them said; all others what was seen since
        the search ended, or what made them be chosen as long as that is less.

        Args:
            watch: Of the settings in use; None if there is none.
        """
        seen = watch.comparison if watch is not None else None
        parts = [one.compared.comparison for one in self._kept if one.compared is not None
                 and (seen is None or one.compared.lasts)]  # fmt: skip
        found = [one for one in (*parts, seen) if one is not None]
        return _product(found) if found else None

    def summary(self, best: Settings, watch: Watch | None) -> str:
        """Return what came of it, in a sentence.

        Args:
            best: The settings in use.
            watch: Of them; None if there is none.
        """
        if self.has_failed:
            return "your own settings were in use from where it was no longer tuned"
        if best == self._own:
            return "your own settings were kept: nothing that was tried made its steps faster"
        found, change = self.comparison(watch), describe_change(best, self._own)
        if found is None:
            return f"it went on with what an earlier run has found, {change}; it was too short to measure that again"
        pairs = found.process_pairs
        return (
            f"its steps were {found.speedup:.2f}x as fast as under your own settings ({found.low:.2f} to "
            f"{found.high:.2f}), measured in {2 * pairs} blocks of them over {format_duration(self.seconds)}: {change}"
        )


def _product(parts: list[Comparison]) -> Comparison:
    """Return what changes one after the other are worth together; their errors are independent."""
    log = math.fsum(math.log(one.speedup) for one in parts)
    below = math.hypot(*(math.log(one.speedup / one.low) for one in parts))
    above = math.hypot(*(math.log(one.high / one.speedup) for one in parts))
    low, high = math.exp(log - below), math.exp(log + above)
    return Comparison(
        speedup=math.exp(log),
        low=low,
        high=high,
        verdict="faster" if low > 1 else "slower" if high < 1 else "within noise",
        confidence=min(one.confidence for one in parts),
        process_pairs=sum(one.process_pairs for one in parts),
        turns=sum(one.turns for one in parts),
    )
