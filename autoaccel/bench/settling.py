"""Settling: how far into their training two processes must be before their ratio no longer changes."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.bench.limits import LATER_STEPS, MAX_LATER_SECONDS
from autoaccel.records.settings import Settings, settings_key
from autoaccel.search.instruments import Trend
from autoaccel.statistics.comparison import Pair, log_ratios
from autoaccel.statistics.trend import has_trend
from autoaccel.statistics.turn_plan import TurnPlan


class Settling:
    """Watches pairs of processes for a trend within them, and says how far into their training to look next."""

    def __init__(self, plan: TurnPlan) -> None:
        """Begin with no pair seen."""
        self._levels = [steps for steps in LATER_STEPS if 2 * steps * plan.step_seconds <= MAX_LATER_SECONDS]
        self._level: dict[str, int] = {}
        self._seen: dict[str, list[Sequence[Pair]]] = {}

    def later_steps(self, settings: Settings) -> int:
        """Return how many steps the next pair makes before its first turn."""
        return self._levels[min(self._level.get(settings_key(settings), 0), len(self._levels) - 1)]

    def take_in(self, settings: Settings, pairs: Sequence[Pair], trusted: bool) -> Trend:
        """Take in one more pair of processes that was measured as `later_steps` says; return what it shows.

        Args:
            settings: The candidate's.
            pairs: Its turns.
            trusted: Whether they count.
        """
        key = settings_key(settings)
        seen = self._seen.setdefault(key, [])
        if trusted:
            seen.append(pairs)
        if not has_trend([log_ratios(turns) for turns in seen]):
            return ""
        seen.clear()
        self._level[key] = self._level.get(key, 0) + 1
        return "look later" if self._level[key] < len(self._levels) else "given up"
