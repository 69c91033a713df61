"""Numbers by which a run's stages decide what is worth its time."""

from __future__ import annotations

from autoaccel.statistics.deciding import MIN_PAIRS

MAX_CANDIDATES = 3
"""Settings that are tried to be proven in one run: the third has an eighth of the error (`share_of_error`)."""

MIN_RUN_SPEEDUP = 1.05
"""A run that could not become this much faster if its steps took no time at all is left alone."""

HOPED_SPEEDUP = 3.0
"""What a search may hope for before it has begun: two of the 15 trainings of benchmarks/studies/unseen gained more."""

EVEN_CHANCE = 0.5
"""Chance of a proof below which the size of what was found keeps it from one, not its time."""

WORTH_TELLING = 1.05
"""Expected of a remedy that no knob is, from which on it is told."""

FIRST_LOOK_SHARE = 0.25
"""Of the budget for the look at a script's further steps: where they take longer, a run takes many times as long."""

FIRST_LOOK_STARTS = 3 + 2 * MIN_PAIRS
"""Processes of the leanest run: the one that is looked at, the baseline, a trial, and the pairs."""

PROFILE_WARMUP_SECONDS = 2.0
"""That come first in a profile, or the following steps, but at least one step."""

PROFILE_WARMUP_STEPS = 6

MIN_PROFILED_STEPS = 3.5
"""A step as it is, one that is recorded, which takes half as long again, and one with the model watched."""

UNTRACED_SECONDS = 1.0
"""Of a profile for steps whose phases are timed, but no more than the following share of the time that there is."""

UNTRACED_SHARE = 0.2
