"""Print advice: what costs the time of a step, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from autoaccel.records.advice import Advice
from autoaccel.records.profile import Finding, ModuleTime, Profile
from autoaccel.records.rates import Ceilings
from autoaccel.report.tables import make_table, print_indented
from autoaccel.report.wording import (
    left_out_words,
    memory_peak_words,
    rates_words,
    roofline_words,
    slowest_modules,
    speedup_words,
    step_words,
    tracing_words,
    worth_showing,
)
from autoaccel.text import one_line
from autoaccel.units import format_bytes, format_duration, format_share

_BAR_COLUMNS = 24
_TOP_OPERATORS = 10


def print_advice(console: Console, advice: Advice) -> None:
    """Print findings, the most valuable first, then what they rest on."""
    profile = advice.profile
    rate = f", {profile.samples_per_second:,.0f} samples/s" if profile.samples_per_second is not None else ""
    console.print(
        Text(
            f"{step_words(profile.step_seconds)}{rate}, peak memory {format_bytes(profile.peak_bytes)}, "
            f"{profile.parameters:,} parameters, "
            + (f"median of {profile.steps} steps" if profile.steps > 1 else "one step"),
            style="bold",
        )
    )
    if advice.ceilings is not None:
        _print_ceilings(console, advice.ceilings)
    _print_findings(console, advice.findings)
    _print_bars(console, "Phases of a step", profile.phases)
    _print_bars(console, "Operators by group", profile.groups)
    _print_operators(console, profile)
    _print_modules(console, profile.modules)
    if words := left_out_words(profile):
        console.print()
        console.print(Text(f"{words}.", style="dim"))


def _print_ceilings(console: Console, ceilings: Ceilings) -> None:
    if ceilings.roofline is not None:
        console.print(f"{roofline_words(ceilings.roofline)}.")
    console.print(Text(f"{rates_words(ceilings.rates)}.", style="dim"))


def _print_findings(console: Console, findings: Sequence[Finding]) -> None:
    shown = worth_showing(findings)
    if shown:
        console.print()
    for number, finding in enumerate(shown, start=1):
        console.print(
            Text.assemble(
                (f"{number}. {one_line(finding.title)}", "bold"),
                f": at most {speedup_words(finding.bound_speedup)} faster",
                f" ({', '.join(finding.knobs)})" if finding.knobs else "",
            )
        )
        if finding.advice:
            print_indented(console, one_line(finding.advice), style="dim")


def _print_operators(console: Console, profile: Profile) -> None:
    if not profile.operators:
        return
    table = make_table("operator", "group", "share", "calls/step", "shapes")
    for operator in profile.operators[:_TOP_OPERATORS]:
        table.add_row(
            Text(one_line(operator.name)),
            Text(one_line(operator.group)),
            Text(format_share(operator.share)),
            Text(f"{operator.calls_per_step:g}"),
            Text(operator.shapes),
        )
    console.print()
    console.print(table)
    for words in filter(None, (tracing_words(profile), memory_peak_words(profile))):
        console.print(Text(f"{words}.", style="dim"))


def _print_modules(console: Console, modules: Sequence[ModuleTime]) -> None:
    if not modules:
        return
    table = make_table("module", "class", "forward", "own", "calls/step")
    for module in slowest_modules(modules):
        table.add_row(
            Text(one_line(module.name) or "(model)"),
            Text(module.kind),
            Text(format_duration(module.forward_seconds)),
            Text(format_duration(module.own_seconds)),
            Text(f"{module.calls_per_step:g}"),
        )
    console.print()
    console.print(table)


def _print_bars(console: Console, title: str, shares: dict[str, float]) -> None:
    if not shares:
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=16)
    grid.add_column()
    grid.add_column(justify="right", no_wrap=True)
    for name, share in shares.items():
        bar = ProgressBar(
            total=1.0,
            completed=min(1.0, max(0.0, share)),
            width=_BAR_COLUMNS,
            complete_style="cyan",
            finished_style="cyan",
        )
        grid.add_row(Text(one_line(name)), bar, Text(format_share(share)))
    console.print()
    console.print(Text(title, style="dim"))
    console.print(grid)
