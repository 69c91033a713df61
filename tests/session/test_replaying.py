"""A claim that is measured again holds unless what was measured lies wholly below it."""

from __future__ import annotations

import pytest

from autoaccel.records.trial import Comparison
from autoaccel.session.replaying import Verification


def between(low: float, high: float) -> Comparison:
    return Comparison((low * high) ** 0.5, low, high, "faster", 0.95, 3, 10)


@pytest.mark.parametrize(
    ("measured", "holds"), [((1.45, 1.6), True), ((1.2, 1.41), True), ((2.0, 3.0), True), ((1.1, 1.39), False)]
)
def test_only_what_lies_wholly_below_refutes(measured: tuple[float, float], holds: bool) -> None:
    assert Verification(between(1.4, 1.6), between(*measured)).holds is holds
