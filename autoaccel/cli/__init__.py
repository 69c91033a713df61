"""Commands and exit codes; the only place that prints errors.

One module for each command, or for two that share. Handlers import what they need when they are called: `--help` is
instant.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from autoaccel import __version__
from autoaccel.cli.advise import add_advise
from autoaccel.cli.explain import add_explain
from autoaccel.cli.history import add_history
from autoaccel.cli.init import add_init
from autoaccel.cli.internal import EXIT_INTERNAL, internal_failure_words
from autoaccel.cli.launch import add_launch
from autoaccel.cli.machine import add_hardware, add_knobs
from autoaccel.cli.recipes import add_show, add_verify
from autoaccel.cli.run import add_run, with_recipe
from autoaccel.cli.scale import add_scale
from autoaccel.cli.surroundings import (
    check_surroundings,
    drop_output,
    failed_surroundings,
    open_standard_streams,
    say,
)
from autoaccel.cli.tune import add_tune
from autoaccel.errors import AutoaccelError, BadRequestError, WorkloadFailedError
from autoaccel.machine.interruptions import watch_stops
from autoaccel.text import printable
from autoaccel.units import excerpt

EXIT_INTERRUPTED = 130

_MAX_ERROR_CHARACTERS = 500

_EPILOG = """exit codes: 0 a recipe was written (verify: the claim holds), 1 nothing faster was found (verify: the claim
does not hold, or --budget was too small to tell), 2 bad request, or a budget that is too small, 3 the training fails
or diverges under your own settings, 4 internal failure, 130 interrupted, 141 the reader of the output is gone"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    open_standard_streams()
    parsed = argparse.Namespace()
    try:
        parsed = _parse(sys.argv[1:] if arguments is None else arguments)
        code = _run(parsed)
        sys.stdout.flush()  # here, so that an error in that is told like any other
        return code
    except AutoaccelError as error:
        # Only a traceback of the user's own has lines; any other line end is in a name, and must not begin a sentence.
        say(str(error) if isinstance(error, WorkloadFailedError) else str(error).replace("\n", " "))
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted.")
        return EXIT_INTERRUPTED
    except Exception as error:
        found = failed_surroundings(error) if isinstance(error, OSError) else None
        if found is None:
            say(internal_failure_words(error, getattr(parsed, "folder", None)))
            return EXIT_INTERNAL
        say(found.words)
        return found.exit_code
    finally:
        drop_output()


def _run(parsed: argparse.Namespace) -> int:
    if parsed.command is None:
        _parser().print_help()
        return BadRequestError.exit_code
    # Killed politely, clean up as after Ctrl-C: no worker may outlive its tuner.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    watch_stops()
    check_surroundings()
    handler: Callable[[argparse.Namespace], int] = parsed.handler
    return handler(parsed)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, in which all that follows `--` is the user's file's own."""
    # Taken off first: behind an option, argparse would refuse it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = _parser()
    own = arguments[:end]
    parsed = parser.parse_args(with_recipe(own) if own[:1] == ["run"] else own)
    for_file = list(arguments[end + 1 :])
    if for_file and not hasattr(parsed, "arguments"):
        parser.error(f"unrecognized arguments: {' '.join(for_file)}")
    if for_file:
        parsed.arguments = [*parsed.arguments, *for_file]
    return parsed


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are short and show what was typed in visible characters: it may come from strangers."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit."""
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
        add_history,
    ):
        add(commands)
    return parser
