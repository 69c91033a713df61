"""What the folder of a run asks for, and only a person may: it must be typed again when the run is resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoaccel.errors import BadRequestError
from autoaccel.records.options import OWN_SAMPLER, TuneOptions, as_arguments, to_repeat
from autoaccel.runs.script_arguments import parse_arguments
from autoaccel.text import shell_command


def check_repeated(typed: TuneOptions, kept: TuneOptions, folder: Path) -> None:
    """Refuse to resume a run with a sampler, script arguments or a place to write that nobody has typed now.

    Args:
        typed: The options of the command that resumes it.
        kept: Those in its folder, which may be a stranger's.
        folder: Of the run.

    Raises:
        BadRequestError: Saying what to add to the command.
    """
    wanted, values, now = to_repeat(kept), parse_arguments(kept.args), parse_arguments(typed.args)
    if others := [name for name in now if name not in values or now[name] not in ((False, True), values[name])]:
        raise BadRequestError(
            f"--arg {others[0]}: the run in {folder} was not asked to try that. Name its own arguments without values, "
            "or start without --resume."
        )
    missing = replace(
        wanted,
        sampler=OWN_SAMPLER if wanted.sampler == typed.sampler else wanted.sampler,
        args=tuple(name for name in values if name not in now),
        in_place=wanted.in_place and not typed.in_place,
    )
    if add := shell_command(as_arguments(missing)):
        asked = shell_command(as_arguments(replace(missing, args=tuple(kept.args))))
        raise BadRequestError(
            f"{folder}: the run there was started with {asked}. A folder may be a stranger's, so that this holds only "
            f"if you type it again. To go on, add: {add}"
        )
