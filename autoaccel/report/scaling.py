"""Print how a data-parallel training grows with ranks."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autoaccel.records.scaling import Bottleneck, RunPoint, RunScaling

_TEXTS = ("95 % interval", "limited by")
_BAD_FIT = 0.1  # run times repeat within a few percent; what deviates by a tenth is not noise but another law


def print_scaling(console: Console, scaling: RunScaling) -> None:
    """Print a line for each number of ranks, and what the predictions rest on."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("ranks", "seconds", "95 % interval", "speed-up", "efficiency", "limited by"):
        table.add_column(heading, justify="left" if heading in _TEXTS else "right", no_wrap=True)
    for point in scaling.points:
        told = f"{point.low:,.1f} to {point.high:,.1f}"
        if not point.predicted:
            told = f"measured, fit {point.fitted_seconds / point.seconds - 1:+.1%}"
        table.add_row(
            Text(str(point.ranks)),
            Text(f"{point.seconds:,.1f}", style="cyan" if point.predicted else "bold"),
            Text(told, style="" if point.predicted else "dim"),
            Text(f"{point.speedup:.2f}x"),
            Text(f"{point.efficiency:.0%}"),
            Text(_limit_words(point)),
        )
    console.print(table)
    console.print()
    for note in _notes(scaling):
        console.print(Text(note, style="dim"))


def _notes(scaling: RunScaling) -> list[str]:
    notes = []
    if scaling.batch == "keep":
        notes.append(
            "Each rank keeps its batch size. The intervals cannot cover effects that begin only beyond the measured "
            "ranks."
        )
    else:
        notes.append(
            "The global batch is split among the ranks: fixed cost and all-reduce within a machine grow alike, so "
            "run times cannot distinguish them. The intervals cannot cover effects that begin only beyond the "
            "measured ranks."
        )
    if scaling.deviation > _BAD_FIT:
        notes.append(
            f"The measured times deviate from the model by {scaling.deviation:.0%}: do not rely on its predictions. "
            "Measure again, with more numbers of ranks."
        )
    if scaling.effective_bytes_per_second is not None:
        notes.append(
            "Within a machine, ranks slow each other down as much as a link of "
            f"{scaling.effective_bytes_per_second / 1e9:.2g} GB/s would, besides known links: by all-reduce that is "
            "not hidden, and by waiting for the slowest rank."
        )
    if scaling.links:
        figures = ", ".join(f"{link.name} {link.bytes_per_second / 1e9:g} GB/s" for link in scaling.links)
        notes.append(f"Published figures: {figures}. --json gives their sources.")
    return notes


def _limit_words(point: RunPoint) -> str:
    seconds: dict[Bottleneck, float] = {
        "compute": point.compute_seconds,
        "all-reduce": point.all_reduce_seconds,
        "fixed cost": point.fixed_seconds,
    }
    return f"{point.bottleneck} ({seconds[point.bottleneck] / point.fitted_seconds:.0%})"
