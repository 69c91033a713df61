"""The page on planted rounding tells what updates decide from what is refused whatever they say."""

from __future__ import annotations

from typing import Any

from benchmarks.page.rounding import rounding


def case(half: str, harms: str, *reasons: str) -> dict[str, dict[str, Any]]:
    """Return the two rows of a case; an empty reason accepts it."""
    name = f"{half}, {harms}"
    evidence = [{"verdict": "too large" if reason else "holds", "reason": reason} for reason in reasons]
    return {f"{name}: harm": {"set": half, "harms": harms}, f"{name}: evidence": {"evidence": evidence}}


def test_harmless_cases_in_a_short_type_are_counted_apart() -> None:
    short = "it keeps the state of a in a short type, and the precision lost adds up only later"
    found = case("held out", "no", "", "", "", short, short, "its error is too large")
    lines = rounding({**found, **case("held out", "yes", "its error is too large"), **case("setting", "no", "")})
    assert "| held out | keeps it | 1 | 6 | 3 | 1 | 2 | 0 |" in lines
    assert "limits were set on: 1 of 1, 100 %; held out: 3 of 4, 75 %." in lines
    assert "Harmless, and refused: held out, no (1 of 6)." in lines


def test_nothing_is_divided_where_nothing_harmless_was_judged() -> None:
    assert "nothing was judged." in rounding(case("held out", "yes", "its error is too large"))
