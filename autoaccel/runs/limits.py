"""Numbers by which a run's budget is divided: the shares of its stages, and what these are expected to take."""

from __future__ import annotations

from autoaccel.statistics.deciding import MIN_PAIRS, decided_speedup

PROFILE_SHARE = 0.05
"""Of the budget for the profile at most: it makes nothing faster, it only tells where to look."""

LOOK_SECONDS, LOOK_STEPS = 6.0, 9
"""What a profile takes once its process has warmed up, where there is time for all of it: seconds, and steps of the
training. Chosen on the first half of benchmarks/studies/unseen; the seconds are two more since its second half and the
examples have shown that the start of a forked process is shorter than was assumed. A step of tens of thousands of
operators takes about five seconds longer: the profiler lists each of them, and counting their work calls Python."""

SEARCH_SHARE = 0.25
"""Of the budget for trials. Chosen on six trainings with steps of 0.2 to 2.6 s, ten minutes each (the first half of
benchmarks/studies/unseen, which therefore does not check it): of five of them what was proven had been tried by then,
of a GPT-2 in the trial that began when this time was over. What is found must still be proven; a search that no
longer pays ends before, and one whose best is refused continues."""

TRIALS = 12
"""Of a search that ends because nothing further pays: what two of the last three of the first half of
benchmarks/studies/unseen made; the third made 8, earlier ones 3 to 30."""

CONTINUATION_SHARE = 0.5
"""Of what a search has spent, what it is expected to take in addition if it continues: about the geometric mean of the
three of the first half of benchmarks/studies/unseen that did so in its rows until 27 November (by the times of their
proofs, 27 s after 147 s, 98 s after 137 s and about 110 s after 140 s). Of its second half, which did not set it, five
took 27 s after 133 s, 59 s after 129 s, about 45 s and 70 s after 150 s, and 167 s after 158 s."""

METRIC_SHARE = 0.4
"""Of the budget for training runs that judge the metric."""

EVIDENCE_SHARE = 0.25
"""Of what settings save over all trainings may go into trainings that show whether they keep the metric: 20 trainings
that become 1.5 times as fast repay three pairs of a third of a run each with a quarter."""

EXPLAINING_SHARE = 0.1
"""The same for what makes nothing faster: pairs that only make a proven speed-up clearer, and contributions. Each may
take a tenth."""

CONTRIBUTIONS_SHARE = 0.2
"""Of the budget for what each setting contributes, of what is left over: it only explains. More is taken only where not
even one setting would be told."""

REPORT_SECONDS = 1.0
"""For writing the report."""

PROOF_MARGIN = 1.2
"""Of a proof: a machine that slows down by less must not leave it open for want of seconds."""

BUDGET_MARGIN = 1.25
"""For how many times what the leanest run is expected to take after its baseline there must be time: on shared machines
steps take a fifth longer from one minute to the next. A recommended budget exceeds the least by the same factor,
because the next run may begin in a slower minute."""

LARGE_SPEEDUP = decided_speedup(MIN_PAIRS)
"""What the leanest run is expected to find: a smaller speed-up takes more pairs than the fewest."""

MIN_WARMUP_STEPS = 2
"""Of the leanest run: the second shows that the first was no slower."""

SHORT_STEP_SECONDS = 0.01
"""Where a step is not known."""

MAX_SECONDS_SHOWN, MAX_MINUTES_SHOWN = 120, 120
"""Budgets up to so many seconds are recommended in seconds, then up to so many minutes in minutes, longer in hours."""
