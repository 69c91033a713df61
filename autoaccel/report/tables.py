"""Print a machine, the knobs and the trials of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autoaccel.records.knob import KnobRow
from autoaccel.records.live import Remembered
from autoaccel.records.machine import GpuSet, Interconnect, Machine, TorchFacts
from autoaccel.records.messages import Failure
from autoaccel.records.ranks import MachineShare
from autoaccel.records.settings import Settings, Value, format_value
from autoaccel.records.trial import Trial
from autoaccel.report.wording import comparison_words, outcome_words, ring_words, short_change
from autoaccel.text import one_line
from autoaccel.units import format_bytes, format_duration, format_numbers

_COLUMNS_FOR_STEPS = 100
_NUMBERS = ("trial", "step", "whole run", "share", "calls/step", "forward", "own")


def machine_facts(machine: Machine) -> dict[str, str]:
    """Return what there is to know of a machine, by the name people know it by."""
    cpu, limits = machine.cpu, machine.limits
    memory = format_bytes(machine.memory_bytes)
    if limits.memory_bytes is not None:
        memory += f", of which this process may use {format_bytes(limits.memory_bytes)}"
    usable = f"{machine.usable_cores} of {cpu.logical_cores} logical ({cpu.physical_cores} physical)"
    if limits.cpu_quota is not None:
        usable += f", quota {limits.cpu_quota:g}"
    facts = {
        "System": f"{machine.system} {machine.architecture}, Python {machine.python}",
        "CPU": cpu.model,
        "Sockets": f"{cpu.sockets}, NUMA nodes {len(cpu.numa_nodes)}",
        "Usable cores": usable,
        "Instructions": " ".join(cpu.features),
        "Caches": ", ".join(
            f"L{cache.level} {cache.kind} {cache.count} x {format_bytes(cache.size_bytes)}" for cache in cpu.caches
        ),
        "Memory": memory,
        "GPUs": ", ".join(f"{gpu.name} {format_bytes(gpu.memory_bytes)}, driver {gpu.driver}" for gpu in machine.gpus)
        or "none",
        "C++ compiler": machine.compiler or "none, so torch.compile cannot run on the CPU",
        "OpenMP": ", ".join(library.name for library in machine.openmp) or "none found",
        "Allocators": ", ".join(library.name for library in machine.allocators) or "only the system's",
    }
    torch = machine.torch
    if torch is None:
        facts["torch"] = "not probed"
    else:
        facts["torch"] = (
            f"{torch.version} on {torch.device_name or torch.device}, {torch.cpu_capability}, "
            f"{torch.intra_op_threads} intra-op and {torch.inter_op_threads} inter-op threads"
        )
        facts["Autocast"] = _autocast_words(torch)
        facts["Fused optimizer"] = "yes" if torch.fused_optimizer else "no"
    return {name: one_line(text) for name, text in facts.items() if text}


def _autocast_words(torch: TorchFacts) -> str:
    if not torch.autocast:
        return "no dtype works under autocast"
    speedups = {
        name: f" (matrix products {of:.2g}x as fast as in float32)" for name, of in torch.product_speedups.items()
    }
    return ", ".join(name + speedups.get(name, "") for name in torch.autocast)


def print_machine(console: Console, machine: Machine) -> None:
    """Print what decides on training speed here."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in machine_facts(machine).items():
        grid.add_row(name, Text(text))
    console.print(grid)
    if machine.interconnect is not None and len(machine.gpus) > 1:
        console.print()
        print_interconnect(console, machine.interconnect)


def print_interconnect(console: Console, interconnect: Interconnect) -> None:
    """Print the links between GPUs as a matrix, and the memory node and the CPUs near each."""
    with_nodes = any(node is not None for node in interconnect.numa_nodes)
    with_cpus = any(interconnect.cpus)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for heading in ("GPU", *map(str, range(len(interconnect.links))), *(["node"] if with_nodes else [])):
        table.add_column(heading, no_wrap=True)
    if with_cpus:
        table.add_column("CPUs near it", overflow="fold")
    for gpu, links in enumerate(interconnect.links):
        node = interconnect.numa_nodes[gpu]
        table.add_row(
            str(gpu),
            *(Text("-" if link == "X" else one_line(link)) for link in links),
            *(["?" if node is None else str(node)] if with_nodes else []),
            *([format_numbers(interconnect.cpus[gpu])] if with_cpus else []),
        )
    console.print(table)


def print_gpu_sets(console: Console, sets: Sequence[GpuSet]) -> None:
    """Print which GPUs to train on together, why these, and the CPUs for the rank of each."""
    if not sets:
        console.print(Text("With one GPU there is nothing to choose."))
        return
    for gpu_set in sets:
        head = Text.assemble((f"{len(gpu_set.gpus)} GPUs: ", "bold"), (",".join(map(str, gpu_set.gpus)), "bold cyan"))
        console.print(head.append(f"  {one_line(ring_words(gpu_set))}"))
        for gpu, cores in zip(gpu_set.gpus, gpu_set.cores, strict=True):
            if cores:
                print_indented(console, f"GPU {gpu}: CPUs {format_numbers(cores)}", style="dim")
    console.print()
    console.print(
        Text(
            "To train on them: CUDA_DEVICE_ORDER=PCI_BUS_ID "
            f"CUDA_VISIBLE_DEVICES={','.join(map(str, sets[0].gpus))}. Without the first, CUDA may number GPUs "
            "differently from nvidia-smi.",
            style="dim",
        )
    )


def print_shares(console: Console, shares: Sequence[MachineShare]) -> None:
    """Print what each rank gets of this machine, in the order of local ranks."""
    rows = make_table("rank", "CPUs", "threads", "loader workers", "GPU")
    for number, share in enumerate(shares):
        cpus = format_numbers(share.cpus) if share.cpus else "any"
        threads = "torch's choice" if share.threads is None else str(share.threads)
        gpu = "none" if share.gpu is None else str(share.gpu)
        rows.add_row(str(number), cpus, threads, str(share.loader_workers), gpu)
    console.print(rows)


def print_history(console: Console, entries: Mapping[str, Remembered], in_full: bool) -> None:
    """Print what trainings that were tuned while they ran have found.

    Args:
        console: To print to.
        entries: By their names, in the order to be shown.
        in_full: Whether with all that is known of each.
    """
    if not in_full:
        rows = make_table("entry", "training", "settings", "speed-up", "last run")
        for name, one in entries.items():
            training, ended = one_line(Path(one.training).name), one_line(one.ended[:10])
            rows.add_row(name, training, short_change(one.settings, {}), _found_words(one), ended)
        console.print(rows)
        return
    for name, one in entries.items():
        console.print(Text.assemble((name, "bold cyan"), f"  {one_line(one.training)}"))
        for words in (
            *(f"{knob}={format_value(value)}" for knob, value in one.settings.items()),
            _found_words(one) or "too few steps were compared to say what they are worth",
            f"{one.runs} {'run' if one.runs == 1 else 'runs'}, the last on {one.ended}",
            f"{one.machine}, torch {one.torch}",
        ):
            print_indented(console, one_line(words))


def _found_words(entry: Remembered) -> str:
    if entry.speedup is None or entry.low is None or entry.high is None:
        return ""
    return f"{entry.speedup:.2f}x ({entry.low:.2f} to {entry.high:.2f})"


def print_knobs(console: Console, rows: Sequence[KnobRow]) -> None:
    """Print each knob: its values here with the default marked, when it takes effect, its risk, when it helps."""
    for row in rows:
        head = Text.assemble((one_line(row.name), "bold cyan" if row.available else "bold dim"), "  ")
        if row.available:
            head.append_text(_values(row.values, row.default))
        else:
            head.append(f"not available: {one_line(row.reason)}", style="yellow")
        console.print(head)
        print_indented(console, f"{one_line(row.help)}; {row.effect_stage} stage, {row.risk.replace('_', ' ')}")
        if row.helps_when:
            print_indented(console, f"helps when: {one_line(row.helps_when)}", style="dim")
    console.print()
    console.print(
        Text(
            "* marks the default. Risk: exact means the same numbers; rounding, the same algorithm with other "
            "rounding; changes training, another model, batch, number of steps or draw of samples. Settings that "
            "are not exact must keep the metric.",
            style="dim",
        )
    )


def print_indented(console: Console, text: str, style: str = "") -> None:
    """Print a paragraph that stands back from the line above."""
    console.print(Padding(Text(text, style=style), (0, 0, 0, 4)))


def _values(values: Sequence[Value], default: Value) -> Text:
    text = Text()
    for value in values:
        is_default = type(value) is type(default) and value == default
        text.append(one_line(format_value(value)) + ("*  " if is_default else "  "), style="bold" if is_default else "")
    text.rstrip()
    return text


def print_trials(console: Console, trials: Sequence[Trial], baseline_settings: Settings) -> None:
    """Print every trial in the order it was made; what failed says why."""
    if not trials:
        console.print(Text("No trials were made."))
        return
    # The whole run's time follows from the step's: where space is short, the settings need it more.
    with_steps = console.width >= _COLUMNS_FOR_STEPS
    table = make_table("trial", "settings", *(["step"] if with_steps else []), "speed-up", "outcome", "whole run")
    feasible = [trial for trial in trials if trial.feasible and trial.total_seconds is not None]
    best = min(feasible, key=lambda trial: trial.total_seconds or 0.0, default=None)
    if best is not None and (best.comparison is None or best.comparison.verdict != "faster"):
        best = None
    for trial in trials:
        table.add_row(
            Text(str(trial.number)),
            Text(short_change(trial.settings, baseline_settings)),
            *([Text(_duration(trial.step_seconds))] if with_steps else []),
            Text(comparison_words(trial.comparison) if trial.comparison else ""),
            Text(outcome_words(trial, best)),
            Text(_duration(trial.total_seconds)),
        )
    console.print(table)
    for trial in trials:
        if isinstance(trial.outcome, Failure):
            console.print(Text(f"trial {trial.number} failed: {one_line(trial.outcome.message)}", style="red"))


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def make_table(*headings: str) -> Table:
    """Return a table without lines; columns of numbers stand to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        # Numbers must not be broken over lines.
        table.add_column(
            heading,
            justify="right" if heading in _NUMBERS else "left",
            no_wrap=heading in (*_NUMBERS, "speed-up", "outcome", "entry", "last run"),
            overflow="fold",
        )
    return table
