"""How much each knob could matter: where the search should look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from autoaccel.advise.bounds import bound_beside_others
from autoaccel.records.profile import Finding
from autoaccel.records.settings import Settings
from autoaccel.space.knobs import KNOBS, KnobContext

_LEAST = 0.02  # of the logarithm of a speed-up: as good as nothing
_MOST = 0.3
"""The same: what the best knobs do. From the benchmark's own workloads: over its six tables (CPU, two cores) the
effect of autocast has a root mean square of 0.33, that of a fused update 0.17, of compilation 0.08. `Knob.usual_effect`
has the first two, because without a profile, as in a script, readings would be believed too little, and what is changed
beside these credited with a part of what they do. On GPUs autocast does more; a search expects too little of it there,
and finds out with its first trial."""


def effect_deviations(names: Iterable[str], findings: Sequence[Finding]) -> dict[str, float]:
    """Return for each knob the standard deviation of its effect, as the logarithm of a speed-up.

    Half of the largest bound that a finding names for it, once other remedies have shortened the rest of the step and
    nothing waits for data any more: two deviations are the most that it could win. For a knob that no finding names,
    what it usually does.
    """
    deviations = {}
    waits = [finding for finding in findings if finding.code == "data-wait"]
    for name in names:
        waiting = max([1.0, *(finding.bound_speedup for finding in waits if name not in finding.knobs)])
        found = [finding.bound_speedup for finding in findings if name in finding.knobs]
        bounds = [bound_beside_others(bound, waiting) for bound in found]
        expected = 0.5 * math.log(max(bounds)) if bounds else KNOBS[name].usual_effect
        deviations[name] = min(max(expected, _LEAST), _MOST)
    return deviations


_HALF_AS_MANY_THREADS = -0.25
"""Mean of the logarithm of a step's speed-up by half as many threads. From the benchmark's own workloads: one thread
instead of two made the steps of its six tables 0.58 to 1.15 times as fast. On more cores a step scales worse, and half
of them cost less; but a search that expects too little of fewer threads loses less than one that always tries them."""


class Halving(NamedTuple):
    """What fewer of a count are expected to do."""

    log_speedup: float  # mean of the logarithm of the speed-up by half as many
    below: int  # the count from which on fewer do that; more than that are expected to do nothing


def halving_means(context: KnobContext, baseline: Settings, findings: Sequence[Finding]) -> dict[str, Halving]:
    """Return what halving a count is expected to do to the logarithm of the speed, for counts where it matters.

    Fewer threads make a step slower as a rule, from the baseline's or from as many as there are cores on: more wait for
    one another. Nothing is expected where operators are small, or where an accelerator computes.
    """
    below = min(int(baseline["threads.intra_op"]), context.machine.usable_physical_cores)
    small = any(finding.code == "small-operators" for finding in findings)
    return {} if small or context.device != "cpu" else {"threads.intra_op": Halving(_HALF_AS_MANY_THREADS, below)}
