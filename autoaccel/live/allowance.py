"""What tuning may cost a training that goes on: little as long as nothing is won, more once it has become faster."""

from __future__ import annotations

START_SECONDS = 1.0
"""To search, and to see what was found, however short the run is: with less, one of a minute could not tell any
settings from its own."""
SHARE, FASTER_SHARE = 0.01, 0.05
"""Of the time of the whole run: where nothing was found that is faster, and where something was. What somebody who
trains would not mind; no study has chosen them."""
WATCHING_SHARE = 0.01
"""Of the time since the run is faster, for steps that show by how much, under settings that are slower."""

PROBATION = (60, 150)
"""Steps under new settings after which their mean must not be longer than that of the steps before them: a step that is
long every twentieth, or every fiftieth time, is met by then in 95 of 100 trainings (the rule of three; see
`rarest_seen`), whatever blocks of eight steps have missed."""

KNOWN_STEPS = 20  # before them, by which these are judged
DISAPPOINTING = 1.1
"""Times as long: beside a neighbour that comes and goes, less is often the neighbour's doing (`studies/replays.py`)."""


class Allowance:
    """Counts what steps lose that are made otherwise than under the settings in use, and how much more they may."""

    def __init__(self, steps_left: int | None, start_seconds: float = START_SECONDS) -> None:
        """Begin between two steps.

        Args:
            steps_left: That the training will still make; None if nobody knows: as many again as it has made.
            start_seconds: That it may cost in any case.
        """
        self._steps_left = steps_left
        self._start_seconds = start_seconds
        self._steps = 0  # all that were made since then
        self._passed = 0.0  # seconds
        self._lost = 0.0
        self._watching_since: float | None = None  # by `_passed`
        self._watching_lost = 0.0
        self._counted, self._seconds = 0, 0.0  # steps under what is in use, and what they took
        self._usual, self._counted_before = 0.0, 0  # the same of the settings before these, and of how many

    @property
    def usual_seconds(self) -> float:
        """What a step takes under the settings in use, in the mean; 0 until one was made."""
        return self._seconds / self._counted if self._counted else self._usual

    @property
    def seconds_left(self) -> float:
        """What the rest of the run is expected to take."""
        steps = self._steps if self._steps_left is None else max(0, self._steps_left - self._steps)
        return steps * self.usual_seconds

    @property
    def passed_seconds(self) -> float:
        """What the steps so far have taken."""
        return self._passed

    def add(self, seconds: float | None, is_tried: bool) -> None:
        """Count a step.

        Args:
            seconds: That it took; None if something else was done beside it.
            is_tried: Whether it was made otherwise than under the settings in use.
        """
        self._steps += 1
        taken = self.usual_seconds if seconds is None else seconds
        self._passed += taken
        if is_tried:
            self._lose(taken - self.usual_seconds)
        elif seconds is not None:
            self._counted += 1
            self._seconds += seconds

    @property
    def is_disappointed(self) -> bool:
        """Whether steps under the settings in use take longer than those before them, rare long ones included.

        Asked after each step, it is so after a few counts of them alone: what comes later, a machine may do by itself.
        """
        if self._counted not in PROBATION or self._counted_before < KNOWN_STEPS:
            return False
        return self._seconds / self._counted > DISAPPOINTING * self._usual

    def add_between(self, seconds: float) -> None:
        """Count what was spent between two steps, to change settings or to think."""
        self._passed += seconds
        self._lose(seconds)

    def go_on_with_others(self) -> None:
        """The settings in use are others from now on; what their steps take is as it was until it is known."""
        self._counted_before = self._counted
        self._usual, self._counted, self._seconds = self.usual_seconds, 0, 0.0

    def watch(self) -> None:
        """The search is over: what is spent from now on shows what it was worth."""
        self._watching_since, self._watching_lost = self._passed, 0.0

    def search_again(self) -> None:
        """What was found is of no use any more."""
        self._watching_since = None

    def may(self, seconds: float, is_faster: bool, gain: float = FASTER_SHARE) -> bool:
        """Return whether so much more may be lost.

        Args:
            seconds: Expected.
            is_faster: Whether settings were found that are faster.
            gain: Share of the rest of the run that it is expected to save at most.
        """
        if self._watching_since is not None:
            allowed = self._start_seconds + WATCHING_SHARE * (self._passed - self._watching_since)
            return self._watching_lost + seconds <= allowed
        whole = self._passed + self.seconds_left
        allowed = self._start_seconds + (FASTER_SHARE if is_faster else SHARE) * whole
        # Near its end a run does not get back what it spends on looking.
        return self._lost + seconds <= allowed and seconds <= gain * self.seconds_left

    def has_time_for(self, steps: int) -> bool:
        """Return whether as much as so many steps take is little of the whole run, as far as its end is known."""
        seconds, whole = steps * self.usual_seconds, self._passed + self.seconds_left
        return self._steps_left is None or seconds <= self._start_seconds + FASTER_SHARE * whole

    def _lose(self, seconds: float) -> None:
        if self._watching_since is None:
            self._lost += seconds
        else:
            self._watching_lost += seconds
