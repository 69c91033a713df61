"""The commands `hardware` and `knobs`: what this machine has, and what can be changed on it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.cli.common import EXIT_FASTER, Commands, make_console, print_json
from autoaccel.errors import BadRequestError
from autoaccel.text import say

if TYPE_CHECKING:
    from autoaccel.records.machine import Machine


def add_hardware(commands: Commands) -> None:
    """Declare the command."""
    hardware = commands.add_parser("hardware", help="show the hardware and libraries of this machine")
    hardware.add_argument(
        "--topology",
        metavar="FILE",
        help="output of `nvidia-smi topo -m` from any machine: show which of its GPUs to train on together, and why",
    )
    hardware.add_argument("--json", action="store_true", help="print JSON")
    hardware.set_defaults(handler=_hardware)


def add_knobs(commands: Commands) -> None:
    """Declare the command."""
    knobs = commands.add_parser("knobs", help="list the knobs: the values of each on this machine, or why it has none")
    knobs.add_argument("--json", action="store_true", help="print JSON")
    knobs.set_defaults(handler=_knobs)


def _hardware(parsed: argparse.Namespace) -> int:
    from autoaccel.machine.quiet import read_load
    from autoaccel.report.tables import print_machine

    if parsed.topology is not None:
        return _topology(Path(parsed.topology), parsed.json)
    load = read_load()  # before anything of ours keeps the computer busy
    machine = _probe()
    if parsed.json:
        print_json(machine)
    else:
        print_machine(make_console(), machine)
        for hint in load.hints(machine):
            say(f"Note: {hint}.")
    return EXIT_FASTER


def _topology(path: Path, as_json: bool) -> int:
    from autoaccel.machine.gpu_sets import gpu_sets
    from autoaccel.machine.topology_text import parse_topology
    from autoaccel.records.files import MAX_TEXT_BYTES, read_file
    from autoaccel.report.tables import print_gpu_sets, print_interconnect

    text = read_file(path, "what `nvidia-smi topo -m` prints", MAX_TEXT_BYTES).decode(errors="replace")
    try:
        interconnect = parse_topology(text)
    except BadRequestError as error:
        raise BadRequestError(f"{path}: {error}") from error
    sets = gpu_sets(interconnect, {cpu for cpus in interconnect.cpus for cpu in cpus})
    if as_json:
        print_json({"interconnect": interconnect, "sets": sets})
    else:
        console = make_console()
        print_interconnect(console, interconnect)
        console.print()
        print_gpu_sets(console, sets)
    return EXIT_FASTER


def _knobs(parsed: argparse.Namespace) -> int:
    from autoaccel.report.tables import print_knobs
    from autoaccel.space.knobs import KnobContext, knob_rows

    rows = knob_rows(KnobContext(_probe()))
    if parsed.json:
        print_json(rows)
    else:
        print_knobs(make_console(), rows)
    return EXIT_FASTER


def _probe() -> Machine:
    from autoaccel.workers.describing import probe_machine
    from autoaccel.workers.starter import WorkerStarter
    from autoaccel.workers.temporary import TemporaryFolder

    with TemporaryFolder() as temporary, WorkerStarter(temporary.path) as starter:
        return probe_machine(starter)
