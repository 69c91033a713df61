"""What failed settings have in common: the likely reason, which is then left alone while all else is tried."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from autoaccel.records.conclusion import CommonCause, Part
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings, Value, changed, settings_key
from autoaccel.records.trial import Trial

_MIN_FAILURES = 2  # in different settings: one may be chance
_MAX_TOGETHER = 2  # settings that fail only together; more are blamed only as a whole


class Failed(NamedTuple):
    """Settings that failed: what they change of the user's own, and how."""

    change: Settings
    failure: Failure


class Cause(NamedTuple):
    """What could explain some failures."""

    suspects: tuple[Part, ...]  # each would: all of these failures have it, and nothing that works
    failures: int  # different settings
    failure: Failure  # the last of them

    @property
    def closed(self) -> Part | None:
        """What is to blame, and not tried again; None while that is not clear."""
        return self.suspects[0] if len(self.suspects) == 1 and self.failures >= _MIN_FAILURES else None

    def doubt(self, change: Mapping[str, Value]) -> float:
        """Return the probability that what some settings change fails for this cause: each suspect is as likely.

        After a single failure chance is one suspect more.
        """
        chance = 1 if self.failures < _MIN_FAILURES else 0
        return sum(contains(change, part) for part in self.suspects) / (len(self.suspects) + chance)

    @property
    def common(self) -> CommonCause | None:
        """What is to blame, with the failures that show it; None while that is not clear."""
        return CommonCause(self.closed, self.failures, self.failure.message) if self.closed else None


def contains(change: Mapping[str, Value], part: Part) -> bool:
    """Whether all of a part is among what some settings change."""
    return all(name in change and value in (None, change[name]) for name, value in part)


class FailedProofs:
    """What settings that failed in their proofs have in common.

    A trial makes fewer steps than a proof: that other settings worked in theirs excuses nothing.
    """

    def __init__(self, baseline: Settings) -> None:
        """Begin with none."""
        self._baseline = baseline
        self._failed: list[Failed] = []
        self._causes: list[Cause] = []

    def learn(self, settings: Settings, failure: Failure) -> list[Settings]:
        """Take in settings that failed; return what is not to be tried again: them, and values that are to blame."""
        self._failed.append(Failed(changed(settings, self._baseline), failure))
        self._causes = find_causes(self._failed, ())
        parts = [cause.closed for cause in self._causes if cause.closed]
        return [settings, *(_values(part) for part in parts if all(value is not None for _, value in part))]

    def chance(self, settings: Settings) -> float:
        """Return the probability that settings do not fail in their proof."""
        change = changed(settings, self._baseline)
        return math.prod(1 - cause.doubt(change) for cause in self._causes)


def _values(part: Part) -> Settings:
    return {name: value for name, value in part if value is not None}


def causes_of(trials: Sequence[Trial], baseline: Settings) -> list[Cause]:
    """Return what explains the failures among these trials; see `find_causes`."""
    failed = [
        Failed(changed(one.settings, baseline), one.outcome) for one in trials if isinstance(one.outcome, Failure)
    ]
    return find_causes(failed, [changed(one.settings, baseline) for one in trials if one.comparison is not None])


def find_causes(failed: Sequence[Failed], works: Collection[Settings]) -> list[Cause]:
    """Return what explains these failures: for each kind the smallest parts that all of them share and nothing else.

    A part that works in any other settings explains nothing, and what works as a whole elsewhere failed by chance.
    Where failures of one kind share nothing, what explains most of them comes first, then the rest.

    Args:
        failed: In the order in which they failed.
        works: What settings that did not fail change of the user's own.
    """
    kinds: dict[tuple[str, str], list[Failed]] = {}
    for one in failed:
        kinds.setdefault(one.failure.likeness, []).append(one)
    explained: dict[tuple[Part, ...], list[Failed]] = {}
    for alike in kinds.values():
        for suspects, some in _explain(alike, works):
            explained.setdefault(suspects, []).extend(some)
    return [
        Cause(suspects, len({settings_key(one.change) for one in some}), some[-1].failure)
        for suspects, some in explained.items()
    ]


def _explain(failed: Sequence[Failed], works: Collection[Settings]) -> Iterator[tuple[tuple[Part, ...], list[Failed]]]:
    """Yield suspects and the failures that each of them explains, those that explain most first."""
    left = list(failed)
    while left:
        possible = dict.fromkeys(part for one in left for part in _parts(one.change))
        explains = {
            part: tuple(number for number, one in enumerate(left) if contains(one.change, part))
            for part in possible
            if not any(contains(change, part) for change in works)
        }
        if not explains:
            return
        # What explains most; of that what takes the fewest settings, and then the fewest values of them.
        best = max(explains, key=lambda part: _order(part, explains[part]))
        suspects = [
            part
            for part in explains
            if explains[part] == explains[best] and _order(part, explains[part]) == _order(best, explains[best])
        ]
        yield tuple(suspects), [left[number] for number in explains[best]]
        left = [one for number, one in enumerate(left) if number not in explains[best]]


def _order(part: Part, explains: Sequence[int]) -> tuple[int, int, int]:
    return len(explains), -len(part), -sum(value is None for _, value in part)


def _parts(change: Settings) -> Iterator[Part]:
    """Yield the parts of a change that may be to blame, the smallest first; and all of it."""
    each: list[list[tuple[str, Value | None]]] = [[(name, value), (name, None)] for name, value in change.items()]
    for size in range(1, min(_MAX_TOGETHER, len(each)) + 1):
        for combination in itertools.combinations(each, size):
            yield from itertools.product(*combination)
    if len(each) > _MAX_TOGETHER:
        yield tuple(change.items())
