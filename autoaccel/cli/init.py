"""The command `init`: a draft of build() for a script."""

from __future__ import annotations

import argparse
from pathlib import Path

from autoaccel.cli.common import EXIT_FASTER, Commands
from autoaccel.errors import BadRequestError
from autoaccel.text import one_line, say
from autoaccel.units import excerpt


def add_init(commands: Commands) -> None:
    """Declare the command."""
    init = commands.add_parser("init", help="write a draft of build() for a script")
    init.add_argument("script", metavar="SCRIPT.py", help="Python file that trains; it is read, not run")
    init.add_argument("--output", metavar="FILE", help="file to write (default: SCRIPT_build.py)")
    init.set_defaults(handler=_init)


def _init(parsed: argparse.Namespace) -> int:
    from autoaccel.commands.drafting import draft_build, todo_lines
    from autoaccel.records.files import check_output, is_regular

    script = Path(parsed.script)
    if not is_regular(script):
        raise BadRequestError(f"{excerpt(str(script), 300)}: there is no such file. Name a Python file that trains.")
    output = Path(parsed.output) if parsed.output else script.with_name(f"{script.stem}_build.py")
    if output.exists():
        raise BadRequestError(f"{output}: exists already. Name another file with --output.")
    check_output("--output", output)
    text = draft_build(script, str(output))
    output.write_text(text, encoding="utf-8")
    todo = todo_lines(text)
    say(f"{output} is written. Complete its {len(todo)} lines marked TODO, then tune it.")
    for number, what in todo:
        say(f"  line {number}: {one_line(what)}")
    return EXIT_FASTER
