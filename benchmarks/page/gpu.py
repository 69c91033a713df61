"""What the page says of a GPU."""

from __future__ import annotations

from typing import Any


def on_gpu(found: dict[str, Any]) -> list[str]:
    """Return what every knob came to on a GPU, and both picks beside each other."""
    lines: list[str] = []
    for name, row in found.items():
        if "knobs" in row:
            knobs = row["knobs"].values()
            counts = {kind: sum(kind in one for one in knobs) for kind in ("failure", "unavailable", "not reached")}
            traces = [one["shown"] for one in knobs if "shown" in one]
            lines.append(
                f"- {row['gpu']}: of {len(row['knobs'])} knobs {len(traces)} were applied; "
                f"{sum(map(bool, traces))} of these leave something to look at, and showed their effect. "
                f"{counts['failure']} failed, {counts['unavailable']} are not to be had there, "
                f"{counts['not reached']} were not reached in time."
            )
            continue
        lines.append(f"- {row['gpu']}, {name}, a tune of {row['budget_seconds']} s: {row['summary']}")
        for who, one in row["compared"].items():
            worth = one.get("failure") or f"{one['speedup']:.2f} ({one['low']:.2f} to {one['high']:.2f})"
            lines.append(f"- {row['gpu']}, {name}, {who}: {worth}")
        if failure := row["peer"].get("failure"):
            lines.append(f"- {row['gpu']}, {name}, pytorch-autotune: {failure}")
    return lines
