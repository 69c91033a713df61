"""What the benchmark of `verify` lets pass."""

from __future__ import annotations

import pytest

from benchmarks.studies.verify import judge


def rows(true: dict[str, int], false: dict[str, int]) -> dict[str, dict[str, object]]:
    """Return rows of so many claims of each kind with each verdict."""
    return {
        f"{kind} {verdict} {number}": {"claim": kind, "verdict": verdict, "exit_code": int(verdict != "holds")}
        for kind, counts in (("true", true), ("false", false))
        for verdict, count in counts.items()
        for number in range(count)
    }


@pytest.mark.parametrize(
    ("true", "false", "passes"),
    [
        ({"holds": 30}, {"does not hold": 30}, True),
        ({"holds": 27, "inconclusive": 3}, {"does not hold": 20, "inconclusive": 10}, True),
        ({"holds": 26, "inconclusive": 4}, {"does not hold": 30}, False),
        ({"holds": 30}, {"does not hold": 29, "holds": 1}, False),
    ],
)
def test_no_false_claim_may_hold_and_nine_of_ten_true_ones_must(
    true: dict[str, int], false: dict[str, int], passes: bool
) -> None:
    assert judge(rows(true, false))[0] is passes


def test_the_exit_code_must_say_what_the_verdict_says() -> None:
    found = rows({"holds": 30}, {"does not hold": 30})
    next(iter(found.values()))["exit_code"] = 1
    assert not judge(found)[0]
