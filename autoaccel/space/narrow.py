"""Close the knobs that cannot win on this training, so that no trial is spent on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from autoaccel.records.profile import Finding
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.space.search_space import close_idle


def narrow(space: SearchSpace, baseline: Settings, findings: Sequence[Finding], min_speedup: float) -> SearchSpace:
    """Return the space without knobs whose every finding promises less than `min_speedup` at most.

    A knob that no finding speaks of stays open: silence closes nothing.
    """
    bounds: dict[str, Finding] = {}
    for finding in findings:
        for name in finding.knobs:
            if name not in bounds or finding.bound_speedup > bounds[name].bound_speedup:
                bounds[name] = finding
    hopeless = {
        name: f"{finding.title}: at most {finding.bound_speedup:.3f}x faster"
        for name, finding in bounds.items()
        if name in space.open and finding.bound_speedup < min_speedup
    }
    return close(space, baseline, hopeless)


def close(space: SearchSpace, baseline: Settings, reasons: Mapping[str, str]) -> SearchSpace:
    """Return the space without these open knobs, which keep the baseline's values, and without what needs them."""
    closed = msgspec.structs.replace(
        space,
        open={name: values for name, values in space.open.items() if name not in reasons},
        fixed={**space.fixed, **{name: baseline[name] for name in reasons}},
        closed={**space.closed, **reasons},
    )
    return close_idle(closed, baseline)
