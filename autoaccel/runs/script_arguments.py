"""The arguments of a script's own command line that a person wants tuned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autoaccel.errors import BadRequestError
from autoaccel.records.script import NOT_GIVEN, ScriptArgument
from autoaccel.records.settings import Value
from autoaccel.records.workload import Workload
from autoaccel.space.knobs.arguments import own_value


def parse_arguments(texts: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Return the values to try of each argument that a person has named; of a flag, without it and with it.

    Args:
        texts: As typed, such as `batch-size=32,64`, or `amp` for a flag.

    Raises:
        BadRequestError: If one says something else.
    """
    found: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        values = tuple(value.strip() for value in listed.split(","))
        if not re.fullmatch(r"-{0,2}[A-Za-z][\w.-]*", name) or (equals and not all(values)):
            raise BadRequestError(
                f"--arg {text}: must be NAME=VALUE,VALUE, such as batch-size=32,64, or the NAME of a flag."
            )
        if name in found:
            raise BadRequestError(f"--arg {text}: {name} is named twice. Give all its values at once.")
        found[name] = tuple(dict.fromkeys(values)) if equals else (False, True)
    return found


def tuned_arguments(parsed: Mapping[str, str], workload: Workload, texts: Sequence[str]) -> tuple[ScriptArgument, ...]:
    """Return the arguments of a script that are tuned, its own value of each first.

    That is the one on its command line, else the one that its argument parser was seen to find.

    Args:
        parsed: What that has found, by name.
        workload: Has the command line.
        texts: As typed.
    """
    found = []
    for name, values in parse_arguments(texts).items():
        own = own_value(name, False in values, workload.arguments)
        if own == NOT_GIVEN:
            own = parsed.get(name.lstrip("-").replace("_", "-").lower(), NOT_GIVEN)
        found.append(ScriptArgument(name, (own, *(value for value in values if value != own))))
    return tuple(found)
