"""When a trial ends: after the turns that say enough, or once it has taken longer than one may that could still win."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from autoaccel.records.messages import Failure, FailureKind
from autoaccel.records.settings import Settings
from autoaccel.search.knowledge import Knowledge
from autoaccel.space.knobs import compiles, slow_starting_knobs
from autoaccel.statistics.comparison import PROCESS_DEVIATION, Pair, log_ratios, middle, turns_deviation, z_of
from autoaccel.statistics.long_turns import long_turns
from autoaccel.statistics.sequences import normal_radius
from autoaccel.statistics.turn_plan import Enough, plan_turns

_MAX_TIMES_SLOWER = 10  # a trial may take, compared with usual: neighbours may slow one down that much for minutes

_CLEAR = 0.5 * PROCESS_DEVIATION  # a reading's own deviation below this is lost in its process's luck
_EVER_WRONG = 0.05  # probability that a trial is ever given up though it is no worse than the best

COMPILE_SHARE = 0.2
"""Of the budget, for which one trial may compile: most of what the search may take. That is two of the default ten
minutes, in which models of some ten layers compile on two cores (a transformer of four layers took 70 s there beside
other work, a BERT of four layers 105 s); machines with more cores to compile on would need less. With 0.15 replayed
searches of wide_mlp, whose best compiles, missed it."""


class Patience(NamedTuple):
    """How long a trial may take, and the failure that it is if it takes longer."""

    seconds: float
    kind: FailureKind
    why: str


def patience_for(settings: Settings, knowledge: Knowledge, budget_seconds: float) -> Patience:
    """Return how long a trial of these settings may take that could still win.

    Compiling may take as long as it could still win back over all trainings, and only a share of the budget, because
    it is one of many things to try. What the person has set, or does already, may take as long as a whole run, and so
    may other slow starts. All else needs no more time than it does beside the worst neighbours.

    Args:
        settings: To be tried.
        knowledge: Of what trials take, and what these settings could win.
        budget_seconds: Of the whole search.
    """
    usual = knowledge.trial_seconds
    if _is_proposed(settings, knowledge):
        share, worth = COMPILE_SHARE * budget_seconds, knowledge.max_cold_seconds(settings)
        limit = "it could save over all trainings" if worth < share else f"{COMPILE_SHARE:.0%} of the budget"
        return Patience(usual + max(usual, min(share, worth)), "slow start", f"compiling takes longer than {limit}")
    longest = math.inf if slow_starting_knobs(settings) else _MAX_TIMES_SLOWER * usual
    seconds = usual + max(usual, min(knowledge.task.economy.baseline_total_seconds, longest))
    if compiles(settings):
        return Patience(seconds, "slow start", "compiling takes longer than a whole run")
    return Patience(seconds, "hung", "it hangs, or is far too slow to win")


def given_up(failure: Failure, patience: Patience, timeout_seconds: float) -> Failure:
    """Return the failure of a trial that has taken too long.

    Args:
        failure: As its process was found: silent.
        patience: How long it was to take at most.
        timeout_seconds: How long it took; less if the budget had no more time for it.
    """
    if timeout_seconds == patience.seconds:
        kind, why, signature = patience.kind, patience.why, ""
    else:
        kind, why, signature = failure.kind, "the budget has no time left for it", "out of time"
    message = f"given up after {timeout_seconds:.0f} s: {why}"
    return msgspec.structs.replace(failure, kind=kind, message=message, signature=signature)


def max_trial_seconds(settings: Settings, knowledge: Knowledge, budget_seconds: float) -> float:
    """Return the most that a trial may be expected to cost: one that takes longer would be given up.

    Infinite for settings that compile nothing, or only where the user does so already or has asked for it.
    """
    if not _is_proposed(settings, knowledge):
        return math.inf
    usual = knowledge.trial_seconds
    return usual + max(usual, COMPILE_SHARE * budget_seconds)


def enough_for(settings: Settings, knowledge: Knowledge) -> Enough:
    """Return the rule by which a trial of these settings ends.

    It ends when it is clear that the settings are not the best, judged by an interval that holds at every look;
    when more turns could not make the reading better, because the process's luck is larger; or at the latest
    after the most turns that a trial is worth.
    """
    economy, ranked = knowledge.task.economy, knowledge.ranked()
    best_total = min([economy.baseline_total_seconds, *(entry.total_seconds for entry in ranked[:1])])
    needed = economy.log_speedup_for(best_total, knowledge.average_start(settings))
    plan = plan_turns(economy.step_seconds)

    def enough(pairs: Sequence[Pair]) -> bool:
        if len(pairs) < 2:
            return False
        logs = log_ratios(pairs)
        own_deviation = turns_deviation(logs)
        deviation = max(own_deviation * math.sqrt(len(logs)), plan.usual_deviation)
        long = long_turns([pairs], [middle(logs)])
        error = math.hypot(normal_radius(len(logs), deviation, _EVER_WRONG), long.above(z_of(1 - _EVER_WRONG)))
        hopeless = middle(logs) + long.excess + error + PROCESS_DEVIATION < needed
        clear = len(pairs) >= plan.min_turns and own_deviation < _CLEAR
        return hopeless or clear or len(pairs) >= plan.max_turns

    return enough


def _is_proposed(settings: Settings, knowledge: Knowledge) -> bool:
    """Whether settings compile where neither the user's own do nor what the person has set."""
    return compiles(settings) and not (compiles(knowledge.task.baseline) or compiles(knowledge.space.fixed))
