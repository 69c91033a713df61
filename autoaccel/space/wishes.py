"""Refuse a value that no training could have on a machine, before anything of a training runs."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Machine
from autoaccel.space.domains import contexts_on
from autoaccel.space.knobs import Knob, KnobContext, parse_value
from autoaccel.space.search_space import split_wish


def check_values(wishes: Sequence[str], machine: Machine) -> None:
    """Refuse a wish that could be met on no device, whatever the training and its torch are.

    Args:
        wishes: Such as `precision.autocast=bfloat16`, as typed.
        machine: Where it is to be met; what its torch can do need not be known.

    Raises:
        BadRequestError: Naming the wish, and saying which values a CPU could have, or why it has none.
    """
    contexts = contexts_on(machine)
    for wish in wishes:
        knob, text = split_wish(wish)
        errors = [error for context in contexts if (error := _refusal(knob, text, context))]
        if len(errors) == len(contexts):
            raise errors[0]


def _refusal(knob: Knob, text: str, context: KnobContext) -> BadRequestError | None:
    try:
        parse_value(knob, text, context, "--set")
    except BadRequestError as error:
        return error
    return None
