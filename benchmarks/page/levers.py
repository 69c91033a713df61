"""Tables of the results page about single knobs and the libraries behind them."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any


def pruning(found: dict[str, Any]) -> list[str]:
    """Return sparsity against time and accuracy."""
    lines = ["| Channels removed | Accuracy | Training | Steps, speed-up |", "|---|---|---|---|"]
    for name, row in found.items():
        if "accuracy" not in row or "train_seconds" not in row:
            continue  # the tuned recipe, and the libraries' versions
        speed = f"{row['speedup']:.2f}x ({row['low']:.2f} to {row['high']:.2f})" if "speedup" in row else ""
        lines.append(f"| {name} | {row['accuracy']:.4f} | {row['train_seconds']:.1f} s | {speed} |")
    lines += ["", "`digits_cnn`; accuracy is the mean of three seeds."]
    return [*lines, *(f"Tuned with pruning open: {row['summary']}" for row in found.values() if "summary" in row)]


def layouts(found: dict[str, Any]) -> list[str]:
    """Return what channels_last is worth where inputs of convolutions are converted, their weights, or both."""
    lines = ["| Training | Own | Inputs | Weights | Both |", "|---|---|---|---|---|"]
    for name, row in found.items():
        ways = [f"{middle:.2f}x ({low:.2f} to {high:.2f})" for middle, low, high in row["speedup"].values()]
        lines.append(f"| {name} | {1e3 * median(row['seconds']['own']):.1f} ms | {' | '.join(ways)} |")
    text = "A step in each of four ways, in turns within one process. `layout.channels_last` converts inputs alone."
    return [*lines, "", text]


def nni(found: dict[str, Any]) -> list[str]:
    """Return what NNI made of two models."""
    lines = ["| Model | Parameters | FLOPs | Loss over ten steps | Built again equal |", "|---|---|---|---|---|"]
    for name, row in found["models"].items():
        before, after = row["parameters"]
        flops = " -> ".join(f"{count:.3g}" for count in row["flops"])
        losses = f"{row['losses'][0]:.2f} -> {row['losses'][-1]:.2f}"
        lines.append(f"| {name} | {before:,} -> {after:,} | {flops} | {losses} | {row['rebuilt_is_equal']} |")
    return lines


def pairs(found: dict[str, Any]) -> list[str]:
    """Return how many pairs of knobs work together, and why the others are never tried."""
    tried = {pair: outcome for row in found.values() for pair, outcome in row.get("pairs", {}).items()}
    values = {name for row in found.values() for name in row.get("values", {})}
    counts = Counter(outcome["outcome"] for outcome in tried.values())
    shown = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
    reasons: dict[str, list[str]] = {}
    for pair, outcome in sorted(tried.items()):
        if outcome["outcome"] != "works":
            reasons.setdefault(outcome["reason"], []).append(pair)
    lines = [f"{len(values)} knobs with another value than their default, every two in one process: {shown}."]
    lines += ["", "| Never tried together | Because |", "|---|---|"]
    for reason, named in reasons.items():
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        lines.append(f"| {', '.join(f'`{pair}`' for pair in named[:3])}{more} | {reason} |")
    unavailable = {name: why for row in found.values() for name, why in row.get("unavailable", {}).items()}
    missing = ", ".join(f"`{name}` ({why})" for name, why in unavailable.items() if name not in values)
    return [*lines, "", f"Not to be had on that machine: {missing}."]


def libraries(found: dict[str, Any]) -> list[str]:
    """Return what each runtime and allocator did to each workload, and what a search over them came to."""
    keys = list(dict.fromkeys(key for row in found.values() for key in row["changes"]))
    lines = [f"| Changed | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for key in keys:
        cells = []
        for row in found.values():
            change = row["changes"].get(key, {})
            failed = change.get("failure", "")
            cells.append(failed if failed else f"{change['speedup']:.2f} ({change['low']:.2f} to {change['high']:.2f})")
        lines.append(f"| {key} | {' | '.join(cells)} |")
    told = [f"- `{name}`, tuned with nothing else: {row['tuned']['summary']}" for name, row in found.items()]
    return ["Speed-up of the steps, 95 % interval.", "", *lines, "", *told]


def ipex(found: dict[str, Any]) -> list[str]:
    """Return what Intel's extension did."""
    lines = [
        f"With torch {found['versions']['torch']}. {found['summary']}",
        "",
        "| ipex.optimize | Other changes | Speed-up | Seen |",
        "|---|---|---|---|",
    ]
    plain = {"off", False, 1, "none", "unset", "auto"}
    for row in found["trials"]:
        others = ", ".join(
            f"{name} {value}"
            for name, value in row["settings"].items()
            if name != "ipex.optimize"
            and name.startswith(("precision.autocast", "compile", "layout"))
            and value not in plain
        )
        speed = f"{row['speedup']:.2f}" if row["speedup"] else "failed"
        lines.append(
            f"| {row['settings']['ipex.optimize']} | {others} | {speed} | {row['learned'] or row['failure']} |"
        )
    return lines


def versions(found: dict[str, Any]) -> list[str]:
    """Return what the suite, a tune and a launch came to with each set of versions."""
    lines = ["| Versions | Python | torch | numpy | optuna | Came to |", "|---|---|---|---|---|---|"]
    for name, row in found.items():
        have = row["versions"]
        if "passed" in row:
            told = f"{row['passed']} passed, {row['skipped']} skipped, {len(row['failed'])} failed"
            told += "".join(f"<br>`{failed}`" for failed in row["failed"])
        else:
            told = row.get("summary") or f"two ranks trained to an accuracy of {row['accuracy']:.4f}"
        lines.append(f"| {name} | {have['python']} | {have['torch']} | {have['numpy']} | {have['optuna']} | {told} |")
    return lines
