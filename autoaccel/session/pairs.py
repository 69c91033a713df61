"""Fresh pairs of processes, the baseline's and a candidate's, measured in turns."""

from __future__ import annotations

from typing import NamedTuple

from autoaccel.records.settings import Settings
from autoaccel.records.trial import Failure, Measure, ProofPair
from autoaccel.session.run import Run
from autoaccel.session.run_folder import PairsFor
from autoaccel.session.turns import TurnFailed, take_turns
from autoaccel.statistics.comparison import Pair

TURNS = 8
"""Of each process in a pair, unless it trains to its end and has more. Of the two costs, starting processes and taking
turns, and the two spreads, between processes and within, Kalibera and Jones (ISMM 2013) make the best number:
sqrt(1.6 s / 0.5 s) * 0.12 / 0.03, about 7."""

_MOST_TURNS = 40  # more could not make a pair's ratio better: its processes' luck is larger by then


class PairReading(NamedTuple):
    """What one pair showed."""

    turns: list[Pair]  # those that count
    trusted: bool  # enough of them were undisturbed
    metrics: tuple[float, float] | None  # the baseline's and the candidate's, if they trained to their end


class FreshPairs:
    """Starts a pair of processes for each reading."""

    def __init__(
        self,
        run: Run,
        own: Settings,
        steps_per_epoch: int,
        turn_seconds: float,
        usual: float,
        fresh: bool = False,
        purpose: PairsFor = "proof",
    ) -> None:
        """Begin with no pair measured.

        Args:
            run: What all stages share.
            own: The baseline's settings; of contributions the recipe's.
            steps_per_epoch: Of the training.
            turn_seconds: How long a turn is.
            usual: What a step of the baseline takes while nothing disturbs it.
            fresh: Whether the processes must be programs of their own, where forking would cost less.
            purpose: What the pairs are kept as.
        """
        self._run = run
        self._own = own
        self._steps_per_epoch = steps_per_epoch
        self._turn_seconds = turn_seconds
        self._own_seconds = [usual]
        self._fresh = fresh
        self._purpose = purpose
        self._started = 0
        self._disturbed = 0

    @property
    def disturbed_share(self) -> float:
        """Share of the turns that were disturbed."""
        return self._disturbed / max(1, len(self._own_seconds) - 1)

    def is_short(self, steps: int) -> bool:
        """Whether a training of so many steps takes hardly longer than the turns that judge the speed."""
        return steps * self._own_seconds[0] <= 2 * TURNS * self._turn_seconds

    def measure(self, settings: Settings, seed: int, steps: int | None) -> PairReading | Failure:
        """Return what one pair shows, both from this seed.

        Args:
            settings: The candidate's.
            seed: Of the first weights and the order of the data.
            steps: After so many the trainings end and are evaluated; None: they are not.
        """
        self._started += 1
        sides = ("baseline", "recipe") if self._purpose == "proof" else ("recipe", "without")
        names = [f"{self._purpose}-{self._started:02d}-{side}" for side in sides]
        runner, clock = self._run.runner, self._run.clock
        task = Measure(seed=seed, steps=steps)
        measuring = runner.start_all_measuring(task, [self._own, settings], names, clock.left, self._fresh)
        try:
            own, other = measuring
            if isinstance(own, Failure):
                return own
            if isinstance(other, Failure):
                return other
            most = TURNS if steps is None else _MOST_TURNS
            turns = take_turns(
                own,
                other,
                self._turn_seconds,
                self._steps_per_epoch,
                self._own_seconds,
                lambda pairs: len(pairs) >= most,
                clock.left,
            )
            if isinstance(turns, TurnFailed):
                return turns.failure
            self._own_seconds.extend(turns.own_seconds)
            self._disturbed += turns.disturbed
            if not turns.pairs:
                return Failure(kind="invalid", message="the training is too short for a turn")
            metrics: tuple[float, float] | None = None
            if steps is not None:
                ended = [own.finish(clock.left), other.finish(clock.left)]
                found = [answer.metric for answer in ended if not isinstance(answer, Failure)]
                if len(found) < 2:
                    return next(answer for answer in ended if isinstance(answer, Failure))
                metrics = (found[0], found[1])
            pair = ProofPair(settings, seed, own.measurement, other.measurement, metrics)
            self._run.folder.add_pair(pair, self._purpose)
            return PairReading(turns.pairs, turns.trusted, metrics)
        finally:
            for side in measuring:
                if not isinstance(side, Failure):
                    side.close()
