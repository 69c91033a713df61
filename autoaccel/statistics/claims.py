"""Whether a claim of another hour holds, by what was measured now."""

from __future__ import annotations

import math

from autoaccel.records.check import ClaimVerdict
from autoaccel.records.trial import Comparison
from autoaccel.statistics.comparison import NOISE_THRESHOLD


def judge_claim(claimed: Comparison, measured: Comparison) -> ClaimVerdict:
    """Return whether a claimed speed-up holds; no amount of noise makes it hold.

    It holds where the settings are shown to be faster still, with the whole measured interval above the noise
    threshold, by what was claimed: the estimate is no less than the claimed interval's lower end. It does not hold
    where they are shown not to be faster, or where the speed-up is less than was claimed by more than both
    measurements' errors allow: these are independent, so that the radius of the difference of the two logarithms is
    the root of the sum of their squares. The drift of the speed-up from hour to hour is part of the claimed
    interval (`Comparison.drift`). Between the two is what a longer measurement tells: the narrower the measured
    interval, the closer the second bound comes to the first. More than was claimed is no fault.

    Args:
        claimed: With the interval that the recipe states.
        measured: With an interval that holds at every look, so that one may measure on until the answer is clear.
    """
    allowed = math.log(claimed.speedup / claimed.low)
    own_error = math.log(measured.high / measured.speedup)
    shortfall = math.log(claimed.speedup / measured.speedup)
    if measured.high < 1 + NOISE_THRESHOLD or shortfall > math.hypot(allowed, own_error):
        return "does not hold"
    return "holds" if measured.verdict == "faster" and shortfall <= allowed else "inconclusive"
