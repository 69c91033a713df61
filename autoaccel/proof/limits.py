"""Numbers by which a proof decides how the metric is judged, and how long."""

from __future__ import annotations

MIN_STEPS = 20
"""Of a part of the planned run: a metric after fewer says nothing."""

MIN_SHARE = 0.2
"""A metric after less of the planned run says nothing either: many have hardly left their beginning. Chosen on a
ResNet-34, a U-Net and a ConvNeXt of benchmarks/studies/unseen: after 5 to 8 % of their runs two pairs stood at chance
or left a drop of many times what is allowed open, and took three times as long as updates or longer."""

MAX_TIMES = 2
"""As many pairs as were asked for train at most."""

MIN_PAIRS_TO_GIVE_UP = 2
"""With one nothing is known of the scatter."""

SURE = 0.5
"""Probability that evidence decides from which on nothing surer is looked for: where it is as likely as not that runs
tell nothing, updates come first, or what needs no runs."""

RESUMED = 0.5
"""Part of a proof's error for the looks of one that is resumed, which has looked already, and again for each further
part of the run: resumed once, it errs at most half as often again, and however often, at most twice as often, if no
part was interrupted: such a part leaves no result by which it could be counted."""

EVALUATION_STEPS = 1 / 3
"""What evaluating a batch takes, in steps: a forward pass is about a third of the work of a step."""

FASTEST = 1000.0
"""A speed-up of steps that take hardly any time, which leave the most for everything else."""

MIN_PAIRS_EACH, MAX_PAIRS_EACH = 3, 5
"""Pairs for the contribution of each setting."""
