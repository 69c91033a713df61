"""The command `advise`: what costs the time of a training step, and what would help."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from autoaccel.cli.common import EXIT_FASTER, Commands, add_model, make_console, print_json, workload_of
from autoaccel.errors import BadRequestError


def add_advise(commands: Commands) -> None:
    """Declare the command."""
    advise = commands.add_parser("advise", help="show where the time of a training step goes, and what would reduce it")
    add_model(advise, or_script=True)
    advise.add_argument("--json", action="store_true", help="print JSON")
    advise.add_argument("--trace", metavar="FILE", help="write a trace of a few steps to FILE, for ui.perfetto.dev")
    advise.add_argument("--tensorboard", metavar="DIR", help="write step times, phases and operators for TensorBoard")
    advise.set_defaults(handler=_advise)


def _advise(parsed: argparse.Namespace) -> int:
    from autoaccel.commands.advising import advise_workload
    from autoaccel.report.advice import print_advice

    trace = Path(parsed.trace) if parsed.trace else None
    if trace is not None and not trace.absolute().parent.is_dir():
        raise BadRequestError(f"--trace {trace}: its folder does not exist.")
    board = Path(parsed.tensorboard) if parsed.tensorboard else None
    if board is not None and find_spec("tensorboard") is None:
        raise BadRequestError("--tensorboard needs tensorboard: pip install 'autoaccel[tensorboard]'.")
    advice = advise_workload(workload_of(parsed), trace, board)
    if parsed.json:
        print_json(advice)
    else:
        print_advice(make_console(), advice)
    return EXIT_FASTER
