"""The section of the results page on rounding that was planted."""

from __future__ import annotations

from typing import Any

_KINDS = {"yes": "drops it by twice what is allowed", "no": "keeps it", "unclear": "not clear which"}


def rounding(found: dict[str, Any]) -> list[str]:
    """Return how often what harms a metric is accepted, and what does not is refused."""
    columns = ["Trainings", "What is planted", "Cases", "Judged", "Accepted", "Refused", "Open"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    cases = {name.removesuffix(": harm"): row for name, row in found.items() if name.endswith(": harm")}
    judged = {name: found[f"{name}: evidence"]["evidence"] for name in cases if f"{name}: evidence" in found}
    for half in ("setting", "held out"):
        for harms, words in _KINDS.items():
            names = [name for name in judged if (cases[name]["set"], cases[name]["harms"]) == (half, harms)]
            verdicts = [one["verdict"] for name in names for one in judged[name]]
            counts = [f"{verdicts.count(verdict)}" for verdict in ("holds", "too large", "open")]
            which = "limits were set on" if half == "setting" else "held out"
            lines.append(f"| {which} | {words} | {len(names)} | {len(verdicts)} | {' | '.join(counts)} |")
    wrong = {"yes": "Harmful, and accepted", "no": "Harmless, and refused"}
    for harms, verdict in (("yes", "holds"), ("no", "too large")):
        names = [
            f"{name} ({sum(one['verdict'] == verdict for one in judged[name])} of {len(judged[name])})"
            for name in judged
            if cases[name]["harms"] == harms and any(one["verdict"] == verdict for one in judged[name])
        ]
        lines += ["", f"{wrong[harms]}: {'; '.join(names) or 'none'}."]
    return lines
