"""The command `history`: what trainings that were tuned while they ran have found."""

from __future__ import annotations

import argparse

from autoaccel.cli.common import EXIT_FASTER, Commands, make_console, print_json
from autoaccel.errors import BadRequestError
from autoaccel.text import say


def add_history(commands: Commands) -> None:
    """Declare the command."""
    history = commands.add_parser("history", help="list or clear what `autoaccel run` has found without a recipe")
    history.add_argument("action", nargs="?", choices=("list", "show", "clear"), default="list",
                         help="what to do (default: list)")  # fmt: skip
    history.add_argument("name", nargs="?", metavar="NAME", help="entry, as `autoaccel history` names it (clear: all)")
    history.add_argument("--json", action="store_true", help="print JSON")
    history.set_defaults(handler=_history)


def _history(parsed: argparse.Namespace) -> int:
    from autoaccel.report.tables import print_history
    from autoaccel.runs.history import History

    history = History()
    found = dict(history.entries())
    if parsed.name is not None and parsed.name not in found:
        raise BadRequestError(f"{parsed.name}: there is no such entry in {history.folder}. See `autoaccel history`.")
    if parsed.action == "show" and parsed.name is None:
        raise BadRequestError("history show: name an entry. See `autoaccel history`.")
    if parsed.action == "clear":
        names = [parsed.name] if parsed.name is not None else list(found)
        for name in names:
            history.forget(name)
        say(f"{len(names)} {'entry' if len(names) == 1 else 'entries'} removed from {history.folder}")
        return EXIT_FASTER
    shown = {name: entry for name, entry in found.items() if parsed.name in (None, name)}
    whole = {name: entry for name, entry in shown.items() if not isinstance(entry, BadRequestError)}
    if parsed.json:
        print_json(whole)
    elif whole:
        print_history(make_console(), whole, in_full=parsed.name is not None)
    else:
        say(f"nothing is remembered in {history.folder}")
    for entry in shown.values():
        if isinstance(entry, BadRequestError):
            say(str(entry), to_stderr=True)
    return EXIT_FASTER
