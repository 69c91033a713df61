"""How much each knob could matter: where the search should look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autoaccel.advise.bounds import bound_beside_others
from autoaccel.records.profile import Finding
from autoaccel.space.knobs import KNOBS

_LEAST = 0.02  # of the logarithm of a speed-up: as good as nothing
_MOST = 0.3
"""The same: what the best knobs do. From the benchmark's own workloads: over its six tables (CPU, two cores) the
effect of autocast has a root mean square of 0.33, that of a fused update 0.17, of compilation 0.08. On GPUs autocast
does more; a search expects too little of it there, and finds out with its first trial."""


def effect_deviations(names: Iterable[str], findings: Sequence[Finding]) -> dict[str, float]:
    """Return for each knob the standard deviation of its effect, as the logarithm of a speed-up.

    Half of the largest bound that a finding names for it, once other remedies have shortened the rest of the step: two
    deviations are the most that it could win. Of a knob of which no finding speaks, what it usually does.
    """
    deviations = {}
    for name in names:
        bounds = [bound_beside_others(finding.bound_speedup) for finding in findings if name in finding.knobs]
        expected = 0.5 * math.log(max(bounds)) if bounds else KNOBS[name].usual_effect
        deviations[name] = min(max(expected, _LEAST), _MOST)
    return deviations
