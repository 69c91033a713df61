"""The plan: which part of the budget each stage of a run may spend, once the first steps tell what everything costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from autoaccel.records.progress import StageName
from autoaccel.runs.limits import (
    BUDGET_MARGIN,
    CONTINUATION_SHARE,
    CONTRIBUTIONS_SHARE,
    LOOK_SECONDS,
    LOOK_STEPS,
    MAX_MINUTES_SHOWN,
    MAX_SECONDS_SHOWN,
    METRIC_SHARE,
    PROFILE_SHARE,
    PROOF_MARGIN,
    REPORT_SECONDS,
    SEARCH_SHARE,
    TRIALS,
)
from autoaccel.units import format_duration


@dataclass(frozen=True)
class Costs:
    """What the parts of a run take, in seconds, as far as is known when the plan is made."""

    budget: float  # that there was when this part of the run began
    hardware: float  # spent
    baseline: float  # the whole stage: spent, and still to come
    profile: float  # the fewest steps that make a profile, and the start of its process
    trial: float  # the shortest that tells anything
    pair: float  # of processes, for the proof
    min_pair: float  # the same under settings with a large speed-up, whose steps take less
    min_pairs: int  # that prove a large speed-up
    pairs: int  # that a proof usually takes
    min_evidence: float  # the cheapest, with a large speed-up; 0 where nothing in the space can change the metric
    evidence: float  # the strongest evidence that is asked for
    trials: int = 1  # that are needed before anything can be proven; 0 if an earlier part of the run made some
    earlier: float = 0.0  # spent by an earlier part of the run, beside this budget

    @property
    def min_proof(self) -> float:
        """The fewest pairs that prove a speed-up, and the cheapest evidence for the metric."""
        return self.min_pairs * self.min_pair + self.min_evidence

    @property
    def leanest_run(self) -> float:
        """The least that can end with a proven recipe: the baseline, one trial, and the least proof."""
        return self.hardware + self.baseline + self.trials * self.trial + self.min_proof + REPORT_SECONDS

    @property
    def least_budget(self) -> float:
        """What the leanest run takes if the machine becomes slower: with less it might well end with nothing."""
        return self.leanest_run + (BUDGET_MARGIN - 1) * (self.trials * self.trial + self.min_proof)


@dataclass(frozen=True)
class Plan:
    """The seconds of each stage, and what a proof must be left in any case."""

    budget: float
    seconds: Mapping[StageName, float]
    min_proof: float

    def end_of(self, stage: StageName) -> float:
        """Return by when a stage should have ended, in seconds since the start of the run.

        It may use what the stages before it left over.
        """
        upto = itertools.takewhile(lambda name: name != stage, self.seconds)
        return sum(self.seconds[name] for name in upto) + self.seconds[stage]

    def expected_profile(self, start_seconds: float, step_seconds: float) -> float:
        """Return the seconds that the profile is expected to take: where steps are short, less than it may take.

        Args:
            start_seconds: Until its process has warmed up.
            step_seconds: What a step takes.
        """
        return min(self.seconds["profile"], start_seconds + LOOK_SECONDS + LOOK_STEPS * step_seconds)

    def expected_search(self, trial_seconds: float) -> float:
        """Return the seconds that the search is expected to take: where trials are short, less than it may take.

        Args:
            trial_seconds: What a trial takes.
        """
        return min(self.seconds["search"], TRIALS * trial_seconds)

    @property
    def proof(self) -> float:
        """Seconds of the proof of one candidate, speed and metric."""
        return self.seconds["confirm"] + self.seconds["metric"]

    def held_back(self, needed: float, trials: int) -> float:
        """Return how much of the budget a trial must leave.

        A proof never holds back more than is planned for it, and before the first trial less than its least: without a
        trial there is nothing to prove, and it tells what all of this takes here. After it the search keeps to its own
        share as well.

        Args:
            needed: What the proof of its settings is expected to take.
            trials: That were made.
        """
        if not trials:
            return min(needed, self.min_proof) / PROOF_MARGIN
        return max(min(needed, self.proof), self.budget - self.end_of("search"))


def expected_continuation(spent_seconds: float, trial_seconds: float, most_seconds: float) -> float:
    """Return the seconds that a search is expected to take in addition if it continues: one trial, if there is time.

    Args:
        spent_seconds: That it has taken.
        trial_seconds: What a trial takes.
        most_seconds: That it may take; below zero if there is no time for it.
    """
    return max(0.0, min(most_seconds, max(trial_seconds, CONTINUATION_SHARE * spent_seconds)))


def plan_stages(costs: Costs) -> Plan | None:
    """Return what each stage may spend; None if the budget is smaller than the least.

    First comes the leanest run, then a profile, if there is room for one beside its margin. The rest goes to the search
    and to the proof, in proportion to what each could still use; only what they leave goes to the contributions.
    """
    spare = costs.budget - costs.least_budget
    if spare < 0:
        return None
    profile = min(PROFILE_SHARE * costs.budget, spare)
    profile = profile if profile >= costs.profile else 0.0
    free = costs.budget - costs.leanest_run - profile
    least: dict[StageName, float] = {
        "search": costs.trials * costs.trial,
        "confirm": costs.min_pairs * costs.min_pair,
        "metric": costs.min_evidence,
    }
    wanted: dict[StageName, float] = {
        "search": SEARCH_SHARE * costs.budget,
        "confirm": costs.pairs * costs.pair,
        "metric": min(costs.evidence, METRIC_SHARE * costs.budget),
    }
    more = {stage: max(0.0, wanted[stage] - least[stage]) for stage in least}
    part = min(1.0, free / (sum(more.values()) or 1.0))
    left = free - part * sum(more.values())
    seconds: dict[StageName, float] = {
        "hardware": costs.hardware,
        "baseline": costs.baseline,
        "profile": profile,
        **{stage: least[stage] + part * more[stage] for stage in least},
        "contributions": min(max(0.0, left), CONTRIBUTIONS_SHARE * costs.budget),
        "report": REPORT_SECONDS,
    }
    return Plan(costs.budget, seconds, costs.min_proof)


def enough_budget(costs: Costs) -> str:
    """Return the budget that would do, as it is typed: `90s`, `6m`, `3h`."""
    seconds = costs.earlier + BUDGET_MARGIN * costs.least_budget
    if seconds <= MAX_SECONDS_SHOWN:
        return f"{10 * math.ceil(seconds / 10)}s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes}m" if minutes <= MAX_MINUTES_SHOWN else f"{math.ceil(minutes / 60)}h"


def too_small(costs: Costs, why: str) -> str:
    """Return the sentence for a budget that is smaller than the least, with one that would do.

    Args:
        costs: Of the run.
        why: What takes so long, as a clause: "a step takes 2.0 s here".
    """
    metric = " and the cheapest evidence for the metric" if costs.min_evidence else ""
    budget = format_duration(costs.earlier + costs.budget)
    return (
        f"the budget of {budget} is too small: {why}, so the baseline, one trial, a proof in "
        f"{costs.min_pairs} pairs of processes{metric} take about {format_duration(costs.leanest_run)} in total, and "
        f"{format_duration(costs.least_budget)} if the machine becomes slower. Use --budget {enough_budget(costs)}."
    )
