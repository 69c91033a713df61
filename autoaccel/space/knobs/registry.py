"""KNOBS: every knob by name, in the order of their effects, those of other packages included; find and check one."""

from __future__ import annotations

import difflib
import importlib.metadata
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import get_args

from autoaccel.errors import BadRequestError
from autoaccel.records.knob import EffectStage
from autoaccel.records.settings import Value, format_value
from autoaccel.space.knobs import (
    compiling,
    data,
    extension,
    memory,
    model,
    openmp,
    optimizers,
    parallel,
    precision,
    threads,
)
from autoaccel.space.knobs.arguments import PREFIX, argument_knob, argument_knobs
from autoaccel.space.knobs.knob import Clash, Knob, KnobContext
from autoaccel.units import excerpt, parse_digits

_MAX_DIGITS = 20  # of a number that somebody types

ENTRY_POINTS = "autoaccel.knobs"
"""Group of the entry points by which other packages bring knobs: each names a `Knob`."""

_EFFECT_STAGES: tuple[EffectStage, ...] = get_args(EffectStage)

_PARTS = (
    *threads.KNOBS,
    *openmp.KNOBS,
    *memory.KNOBS,
    # Workers before what only workers are told: a knob may override what their number implies. Pinned memory before
    # the copies from it.
    *data.KNOBS,
    *precision.KNOBS,
    *model.KNOBS,
    # An extension may replace the optimizer: its form is switched while it is still torch's.
    *optimizers.KNOBS,
    *extension.KNOBS,
)
"""Those that change a part of the training."""

_WHOLE = (
    # What is compiled is what all others have left.
    *compiling.KNOBS,
    # Ranks wrap what is compiled; how they agree is told to the module that wraps it.
    *parallel.KNOBS,
)
"""Those that take the training as all others have left it."""


def _of_other_packages() -> Iterator[Knob]:
    """Yield the knobs of other packages, each checked as far as it can be without torch.

    Raises:
        BadRequestError: If one cannot be loaded, is no Knob, or has the name of another.
    """
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        where = f"the knob {entry.name!r} of {entry.dist.name if entry.dist else entry.value}"
        try:
            knob = entry.load()
        except Exception as error:  # whatever the package raises
            raise BadRequestError(f"{where} cannot be loaded: {error}. Repair or uninstall the package.") from error
        if not isinstance(knob, Knob):
            raise BadRequestError(f"{where} must be an autoaccel Knob, got {type(knob).__name__}.")
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}\.[a-z][a-z0-9_]{0,80}", knob.name) or knob.name.startswith(PREFIX):
            raise BadRequestError(
                f"{where} must have a name of small letters, such as group.what, got {excerpt(knob.name)}."
            )
        if any(knob.name == known.name for known in (*_PARTS, *_WHOLE)):
            raise BadRequestError(f"{where} conflicts with the built-in knob {knob.name}. Give it another name.")
        yield knob


class _Knobs(Mapping[str, Knob]):
    """The knobs that are declared, in their order. Those of a script's arguments are found, too, but not listed."""

    def __init__(self, declared: Iterable[Knob]) -> None:
        self._declared = {knob.name: knob for knob in declared}

    def __getitem__(self, name: str) -> Knob:
        if name not in self._declared and name.startswith(PREFIX):
            return argument_knob(name)
        return self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


KNOBS: Mapping[str, Knob] = _Knobs((*_PARTS, *_of_other_packages(), *_WHOLE))
"""Every knob by name. Within an effect stage, effects take their turns in this order; see `in_order`."""


def knobs_here(context: KnobContext) -> list[Knob]:
    """Return all knobs that there are in a context: those that are declared, and those of a script's arguments."""
    return [*KNOBS.values(), *argument_knobs(context)]


def in_order(names: Collection[str]) -> list[Knob]:
    """Return the knobs of these names in the order in which their effects take their turns.

    An earlier effect stage comes first: the process is set before anything is built in it, the model before its
    optimizer.
    Knobs of one effect stage follow each other as in `KNOBS`, where the reasons stand.
    """
    return sorted(
        (knob for name, knob in KNOBS.items() if name in names),
        key=lambda knob: _EFFECT_STAGES.index(knob.effect_stage),
    )


def clash_holds(clash: Clash, knob: Knob, pair: Mapping[str, Value], context: KnobContext) -> bool:
    """Whether two values cannot be had together in a context.

    Args:
        clash: What rules them out.
        knob: Whose clash it is.
        pair: The values of both knobs, by name.
        context: Where that is asked.
    """
    mine, theirs = pair[knob.name], pair[clash.knob]
    if not (knob.passes(clash.mine, mine) and KNOBS[clash.knob].passes(clash.theirs, theirs)):
        return False
    return clash.where(context, mine, theirs)


def find_knob(name: str, where: str) -> Knob:
    """Return the knob of this name; `where` begins the error if there is none.

    Raises:
        BadRequestError: Naming the nearest knob.
    """
    if name in KNOBS:
        return KNOBS[name]
    near = difflib.get_close_matches(name, KNOBS, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]}?" if near else "`autoaccel knobs` lists them."
    raise BadRequestError(f"{where}: there is no knob {excerpt(name)!r}. {hint}")


def check_value(knob: Knob, value: object, context: KnobContext, where: str) -> Value:
    """Return the value, if the knob can have it in this context.

    Raises:
        BadRequestError: Saying which values it can have, or why it is unavailable.
    """
    default = knob.default(context)
    if type(value) is type(default) and value == default:
        return default
    if reason := knob.why_closed(context):
        raise BadRequestError(f"{where}: {knob.name} cannot be {_shown(value)} here: {reason}.")
    for possible in knob.values(context):
        if type(possible) is type(value) and possible == value:
            return possible
    if knob.why_wrong is not None and isinstance(value, str):
        if rule := knob.why_wrong(value, context):
            offered = _offered(knob, context)
            raise BadRequestError(f"{where}: {knob.name} must be {offered}, or {rule}, got {_shown(value)}.")
        return value
    if knob.value_range is None:
        raise BadRequestError(f"{where}: {knob.name} must be one of {_offered(knob, context)}, got {_shown(value)}.")
    return _in_range(knob, value, type(default), knob.value_range(context), where)


def check_own_value(knob: Knob, value: object, context: KnobContext, where: str) -> Value:
    """Return a value that a file says the user's own code has, if any code could have it.

    Raises:
        BadRequestError: Naming the knob, what must hold and what was found.
    """
    default = knob.default(context)
    for possible in (default, *knob.values(context)):
        if type(possible) is type(value) and possible == value:
            return possible
    if knob.value_range is not None:
        low, high = knob.value_range(context)
        least, most = knob.own_range or (low, high)
        return _in_range(knob, value, type(default), (min(low, least), max(high, most)), where)
    if isinstance(value, str) and knob.why_wrong is not None and not knob.why_wrong(value, context):
        return value
    raise BadRequestError(f"{where}: {knob.name} must be one of {_offered(knob, context)}, got {_shown(value)}.")


def _in_range(knob: Knob, value: object, kind: type, limits: tuple[float, float], where: str) -> Value:
    low, high = limits
    if isinstance(value, (int, float)) and type(value) is kind and low <= value <= high:
        return value
    noun = "whole number" if kind is int else "number"
    raise BadRequestError(f"{where}: {knob.name} must be a {noun} from {low:g} to {high:g}, got {_shown(value)}.")


def parse_value(knob: Knob, text: str, context: KnobContext, where: str) -> Value:
    """Return the value that a person typed: `on`, `off`, a number or a word.

    Raises:
        BadRequestError: If the knob cannot have it in this context.
    """
    default = knob.default(context)
    value: Value = text
    if isinstance(default, bool):
        value = {"on": True, "true": True, "off": False, "false": False}.get(text.lower(), text)
    elif isinstance(default, int):
        number = parse_digits(text, _MAX_DIGITS)
        value = text if number is None else number
    elif isinstance(default, float):
        value = float(text) if text.replace(".", "", 1).isdecimal() and len(text) <= _MAX_DIGITS else text
    return check_value(knob, value, context, where)


def _offered(knob: Knob, context: KnobContext) -> str:
    return ", ".join(format_value(possible) for possible in knob.values(context))


def _shown(value: object) -> str:
    return format_value(value) if isinstance(value, (bool, float)) else excerpt(value)
