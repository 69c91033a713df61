"""Claims that are measured again: which there are, and what the page says of them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.page.claims import claims
from benchmarks.studies.claims import CLAIMS, all_claims
from benchmarks.studies.unseen.suite import workloads


def measured_again(claimed: float, measured: float) -> dict[str, Any]:
    one = {"speedup": claimed, "low": 0.9 * claimed, "high": 1.1 * claimed}
    error = measured / claimed - 1
    return {
        "claimed": one,
        "measured": {"speedup": measured},
        "hours_between": 1.2,
        "error": error,
        "covered": one["low"] <= measured <= one["high"],
    }


def test_claims_of_all_unseen_trainings_are_measured_again_as_well() -> None:
    found = all_claims()
    assert list(found) == [*CLAIMS, *(f"unseen: {name}" for name in workloads())]
    assert len({claim.path for claim in found.values()}) == len(found)
    for name, path in workloads().items():
        assert path.as_posix().endswith(found[f"unseen: {name}"].arguments[0])


def test_the_page_says_whether_claims_are_too_high_on_average_of_small_and_of_unseen_trainings() -> None:
    rows = {"digits": measured_again(2.0, 1.9), "wide": measured_again(1.5, 1.5)}
    assert any("Mean error over 2 small trainings: -2.5% (95 %: " in line for line in claims(rows))
    assert not any("unseen" in line for line in claims(rows))
    unseen = {f"unseen: {name}": measured_again(2.0, 2.0 * factor) for name, factor in {"a": 1.1, "b": 1.1}.items()}
    lines = claims({**rows, **unseen})
    assert "Mean error over 2 unseen trainings: +10.0% (95 %: +10.0% to +10.0%)." in lines
    assert any("Mean error over 2 small trainings: -2.5% (95 %: " in line for line in lines)
    assert any("Mean error over 4 trainings of both kinds: +3.5% (95 %: " in line for line in lines)


@pytest.mark.parametrize(("measured", "covered"), [(2.1, "yes"), (2.3, "no")])
def test_the_page_says_which_intervals_hold(measured: float, covered: str) -> None:
    assert any(line.endswith(f"| {covered} |") for line in claims({"digits": measured_again(2.0, measured)}))
