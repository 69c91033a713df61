"""The proof: the best few against the baseline, in fresh processes, interleaved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoaccel.records.progress import RoundFinished
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison, Failure, Measurement, Trial
from autoaccel.session.run import Run
from autoaccel.session.workers import alternate_turns, start_together
from autoaccel.statistics.comparison import Pair, compare
from autoaccel.statistics.steps import step_seconds_of_turns

MOST_ROUNDS = 6  # fresh pairs of processes; the noise between pairs is the larger one, so pairs before turns
LEAST_ROUNDS = 3  # with fewer an interval is too wide to prove anything but a twofold gain
TURNS = 8  # of each process in a round


def round_seconds(overhead_seconds: float, turn_seconds: float) -> float:
    """Return about how long a round takes, given how long one process takes to be ready when alone."""
    # Two processes that start side by side share the cores; a turn ends with a whole step and begins with one
    # that does not count.
    return 1.5 * overhead_seconds + 2 * TURNS * 1.4 * turn_seconds


class Proof:
    """Fresh pairs of processes of the baseline and of some settings, measured in turns."""

    def __init__(self, run: Run, baseline: Settings, steps_per_epoch: int, turn_seconds: float) -> None:
        self._run = run
        self._baseline = baseline
        self._steps_per_epoch = steps_per_epoch
        self._turn_seconds = turn_seconds
        self._started = 0

    def run_round(self, settings: Settings) -> list[Pair] | Failure:
        """Return the turns of one fresh pair of processes: (baseline, settings) step seconds."""
        self._started += 1
        names = [f"proof-{self._started:02d}-{side}" for side in ("baseline", "recipe")]
        own, other = start_together(self._run.runner, [self._baseline, settings], names, self._run.clock.left)
        try:
            if isinstance(own, Failure):
                return own
            if isinstance(other, Failure):
                return other
            if failed := alternate_turns((own, other), TURNS, self._turn_seconds, self._run.clock.left):
                return failed[1]
            return list(
                zip(
                    step_seconds_of_turns(own.turns, self._steps_per_epoch),
                    step_seconds_of_turns(other.turns, self._steps_per_epoch),
                    strict=True,
                )
            )
        finally:
            for measuring in (own, other):
                if not isinstance(measuring, Failure):
                    measuring.close()

    def rank(self, finalists: Sequence[Trial], baseline_steps_seconds: float) -> Trial:
        """Return the finalist whose whole run is shortest, judged by one fresh pair of processes for each.

        The proof that follows takes fresh processes again: a choice among several favours the lucky one.

        Args:
            finalists: Successful trials, best first by the search.
            baseline_steps_seconds: What the steps of the whole planned run take under the user's own settings.
        """
        totals = []
        for trial in finalists:
            turns = self.run_round(trial.settings)
            if isinstance(turns, Failure):
                totals.append(math.inf)
            else:
                assert isinstance(trial.outcome, Measurement)  # finalists have succeeded
                steps_seconds = baseline_steps_seconds / compare([turns]).speedup
                totals.append(trial.outcome.compile_seconds + steps_seconds)
        return finalists[totals.index(min(totals))]

    def prove(self, settings: Settings, rounds: int) -> tuple[Comparison, list[list[Pair]]] | Failure:
        """Return what this many fresh pairs say, and their turns.

        A pair that fails, most often because the budget is spent, ends the proof; too few before it fail it.
        """
        pairs: list[list[Pair]] = []
        for number in range(1, rounds + 1):
            turns = self.run_round(settings)
            if isinstance(turns, Failure):
                if len(pairs) < LEAST_ROUNDS:
                    return turns
                break
            pairs.append(turns)
            comparison = compare(pairs) if number > 1 else None
            self._run.tell(RoundFinished(number=number, of=rounds, settings=settings, comparison=comparison))
        return compare(pairs), pairs
