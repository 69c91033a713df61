"""The command `scale`: predict run times with other numbers of ranks."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import EXIT_FASTER, Commands, make_console, print_json
from autoaccel.errors import BadRequestError
from autoaccel.units import check_range, excerpt


def add_scale(commands: Commands) -> None:
    """Declare the command."""
    scale = commands.add_parser(
        "scale", help="predict the run time of a data-parallel training with other numbers of ranks"
    )
    scale.add_argument(
        "times",
        nargs="?",
        metavar="TIMES.json",
        help='file of measured run times in seconds, such as {"1": 707, "2": 393}',
    )
    scale.add_argument("--measured", metavar="N=SECONDS,...", help="the same without a file, such as 1=707,2=393,4=208")
    scale.add_argument("--predict", metavar="N,...", required=True, help="numbers of ranks to predict, such as 8,16,64")
    scale.add_argument(
        "--batch",
        choices=("keep", "split"),
        default="keep",
        help="keep: each rank keeps its batch size; split: the ranks share the global batch (default: keep)",
    )
    scale.add_argument("--machines-of", type=int, metavar="N", help="ranks per machine (default: all on one machine)")
    scale.add_argument("--within", metavar="LINK", help="link within a machine: nvlink3, nvlink4, pcie3, pcie4, pcie5")
    scale.add_argument("--between", metavar="LINK", help="network: '10 GbE', '25 GbE', '100 GbE', HDR, NDR")
    scale.add_argument(
        "--gradient-bytes", type=int, metavar="BYTES", help="bytes of gradients per step: usually 4 x parameters"
    )
    scale.add_argument("--steps", type=int, metavar="N", help="optimizer steps of the whole run with one rank")
    scale.add_argument("--json", action="store_true", help="print JSON")
    scale.set_defaults(handler=_scale)


def _scale(parsed: argparse.Namespace) -> int:
    from autoaccel.advise.all_reduce import find_link
    from autoaccel.advise.run_times import scale_runs
    from autoaccel.records.base import read_json
    from autoaccel.records.scaling import Exchange
    from autoaccel.report.scaling import print_scaling

    if (parsed.times is None) == (parsed.measured is None):
        raise BadRequestError("measured times must be given once, as TIMES.json or as --measured 1=707,2=393,4=208.")
    if parsed.times is not None:
        measured = read_json(Path(parsed.times), dict[int, float], "measured times")
    else:
        measured = _parse_times(parsed.measured)
    exchange = None
    if any(value is not None for value in (parsed.within, parsed.between, parsed.gradient_bytes, parsed.steps)):
        check_range("--gradient-bytes", parsed.gradient_bytes or 1, 0, 1 << 53)
        check_range("--steps", parsed.steps or 1, 0, 1 << 53)
        if (parsed.gradient_bytes or 0) < 1 or (parsed.steps or 0) < 1:
            raise BadRequestError(
                "the cost of links requires --gradient-bytes and --steps (of the whole run with one rank), both at "
                f"least 1, got {parsed.gradient_bytes} and {parsed.steps}."
            )
        within = find_link(parsed.within, "--within") if parsed.within else None
        between = find_link(parsed.between, "--between") if parsed.between else None
        exchange = Exchange(parsed.gradient_bytes, parsed.steps, within, between)
    scaling = scale_runs(
        measured,
        _parse_world_sizes(parsed.predict),
        batch=parsed.batch,
        machines_of=parsed.machines_of,
        exchange=exchange,
    )
    if parsed.json:
        print_json(scaling)
    else:
        print_scaling(make_console(), scaling)
    return EXIT_FASTER


def _parse_times(text: str) -> dict[int, float]:
    times = {}
    for part in text.split(","):
        world_size, _, seconds = part.partition("=")
        try:
            number, measured = int(world_size), float(seconds)
        except ValueError:
            raise BadRequestError(
                f"--measured must be ranks=seconds such as 1=707,2=393, got {excerpt(part)!r}."
            ) from None
        if number in times:
            raise BadRequestError(f"--measured must name each number of ranks once, got {excerpt(number)} twice.")
        times[number] = measured
    return times


def _parse_world_sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadRequestError(f"--predict must be numbers of ranks such as 8,16,64, got {excerpt(text)!r}.") from None
