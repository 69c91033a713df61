"""The section of the results page on rounding that was planted."""

from __future__ import annotations

from typing import Any

_KINDS = {"yes": "drops it by twice what is allowed", "no": "keeps it", "unclear": "not clear which"}
_HALVES = {"setting": "limits were set on", "held out": "held out"}
_SHORT = "in a short type"  # of the reason that such settings are refused for


def rounding(found: dict[str, Any]) -> list[str]:
    """Return how often what harms a metric is accepted, and what does not is refused."""
    columns = ["Trainings", "To the metric", "Cases", "Judged", "Accepted", "Refused", "and for a short type", "Open"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    cases = {name.removesuffix(": harm"): row for name, row in found.items() if name.endswith(": harm")}
    judged = {name: found[f"{name}: evidence"]["evidence"] for name in cases if f"{name}: evidence" in found}
    accepted = []
    for half, which in _HALVES.items():
        for harms, words in _KINDS.items():
            names = [name for name in judged if (cases[name]["set"], cases[name]["harms"]) == (half, harms)]
            found_here = [_outcome(one) for name in names for one in judged[name]]
            counts = [found_here.count(outcome) for outcome in ("holds", "too large", "short", "open")]
            numbers = [len(names), len(found_here), *counts]
            lines.append(f"| {which} | {words} | {' | '.join(map(str, numbers))} |")
            others = len(found_here) - found_here.count("short")
            if harms == "no" and others:
                holds = found_here.count("holds")
                accepted.append(f"{which}: {holds} of {others}, {holds / others:.0%}".replace("%", " %"))
    lines += [
        "",
        "What keeps weights or an optimizer's state in a short type is refused for that, however it does in these",
        "short trainings: what it loses adds up only later. Accepted of all else that keeps the metric:",
        f"{'; '.join(accepted) or 'nothing was judged'}.",
    ]
    for words, harms, outcome in (
        ("Harmful, and accepted", "yes", "holds"),
        ("Harmless, and refused", "no", "too large"),
    ):
        counted = {name: [_outcome(one) for one in judged[name]] for name in judged if cases[name]["harms"] == harms}
        listed = [f"{name} ({seen.count(outcome)} of {len(seen)})" for name, seen in counted.items() if outcome in seen]
        lines += ["", f"{words}: {'; '.join(listed) or 'none'}."]
    return lines


def _outcome(evidence: dict[str, Any]) -> str:
    """Return the verdict; of what is kept in a short type that."""
    return "short" if _SHORT in evidence["reason"] else str(evidence["verdict"])
