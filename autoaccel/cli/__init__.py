"""Commands and exit codes; the only place that prints errors.

One module for each command, or for two that share. Handlers import what they need when they are called: `--help` is
instant.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from autoaccel import __version__
from autoaccel.cli.advise import add_advise
from autoaccel.cli.common import EXIT_FASTER
from autoaccel.cli.explain import add_explain
from autoaccel.cli.init import add_init
from autoaccel.cli.launch import add_launch
from autoaccel.cli.machine import add_hardware, add_knobs
from autoaccel.cli.recipes import add_show, add_verify
from autoaccel.cli.run import add_run
from autoaccel.cli.scale import add_scale
from autoaccel.cli.tune import add_tune
from autoaccel.errors import AutoaccelError, BadRequestError
from autoaccel.units import excerpt, printable

EXIT_INTERRUPTED = 130

_MAX_ERROR_CHARACTERS = 500

_OF_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM)
"""What the system says of a name that was typed: asking whether there is such a file may already end so."""

_EPILOG = """exit codes: 0 a recipe was written (verify: the claim holds), 1 nothing faster was found (verify: the claim
does not hold, or --budget was too small to tell), 2 bad request, or a budget that is too small, 3 the training fails
under your own settings, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parsed = _parse(sys.argv[1:] if arguments is None else arguments)
    if parsed.command is None:
        _parser().print_help()
        return BadRequestError.exit_code
    # Killed politely, clean up as after Ctrl-C: no worker may outlive its tuner.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    handler: Callable[[argparse.Namespace], int] = parsed.handler
    try:
        return handler(parsed)
    except AutoaccelError as error:
        print(f"autoaccel: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("autoaccel: interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as head, is gone; Python would complain once more at exit
        return EXIT_FASTER
    except OSError as error:
        if error.errno not in _OF_NAMES or error.filename is None:
            raise
        name = excerpt(os.fsdecode(error.filename), _MAX_ERROR_CHARACTERS)
        print(f"autoaccel: {name}: cannot be used ({error.strerror}). Name another file.", file=sys.stderr)
        return BadRequestError.exit_code


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, in which all that follows `--` is the user's file's own."""
    # Taken off first: behind an option, argparse would refuse it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _parser()
    parsed = parser.parse_args(arguments[:end])
    for_file = list(arguments[end + 1 :])
    if for_file and not hasattr(parsed, "arguments"):
        parser.error(f"unrecognized arguments: {' '.join(for_file)}")
    if for_file:
        parsed.arguments = [*parsed.arguments, *for_file]
    return parsed


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, which somebody else may have put together."""
        super().error(excerpt(printable(message), _MAX_ERROR_CHARACTERS))


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="autoaccel",
        description="Measures which settings make your PyTorch training faster on this machine.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"autoaccel {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")

    for add in (
        add_tune,
        add_run,
        add_launch,
        add_verify,
        add_show,
        add_explain,
        add_init,
        add_hardware,
        add_advise,
        add_knobs,
        add_scale,
    ):
        add(commands)
    return parser
