"""Load a search space from a TOML file and check it against the machine, the training and the person's wishes.

title = "one line"

[knobs]
"optimizer.fused" = "all"               # every value that is worth trying here
"threads.intra_op" = [1, 2, 4]          # those of them that work here

[native]                                # the same, only if the processor need not emulate it
"precision.autocast" = "all"

[altering]                              # the same, only if a person has said how much worse the metric may get
"model.sparsity" = [0.3, 0.5]

[[forbidden]]
settings = { "precision.autocast" = "float16", "compile.mode" = "default" }
reason = "why"
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.base import MAX_REASON
from autoaccel.records.files import is_there, read_text
from autoaccel.records.settings import Settings, Value, format_value
from autoaccel.records.space import Condition, Forbidden, SearchSpace
from autoaccel.space.knobs import (
    KNOBS,
    Knob,
    KnobContext,
    argument_knobs,
    baseline_settings,
    check_value,
    clash_holds,
    find_knob,
    inexact_here,
    knobs_here,
    parse_value,
    risks_here,
)
from autoaccel.space.room import without_room
from autoaccel.units import excerpt

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class _SpaceFile(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of a search space file."""

    title: str
    knobs: dict[str, Any]
    native: dict[str, Any] = {}  # knobs that need what the processor may have to emulate
    altering: dict[str, Any] = {}  # knobs that alter the model itself
    forbidden: list[Forbidden] = []
    exact: bool = False  # whether only what is exact on the training may be searched

    @property
    def listed(self) -> dict[str, Any]:
        """Knob -> the values that are searched, where nothing speaks against it."""
        return {**self.knobs, **self.native, **self.altering}


_MAX_VALUES = 1000  # of a knob: more than any search could try

ALTERS = "it alters the model itself: allow a drop of the metric with --max-drop"
"""Why a knob is closed that only a person who has said so may want."""


def spaces_folder() -> Path:
    """Return the folder of the search spaces that come with autoaccel.

    A wheel has it in the package. A checkout, and so an editable install, has it beside the package.
    """
    package = Path(__file__).parents[1]
    inside = package / "search_spaces"
    return inside if inside.is_dir() else package.with_name("search_spaces")


def space_names() -> list[str]:
    """Return the names of the search spaces that come with autoaccel."""
    return sorted(path.stem for path in spaces_folder().glob("*.toml"))


def _read(name: str) -> _SpaceFile:
    if name in space_names():
        path = spaces_folder() / f"{name}.toml"
    else:
        path = Path(name)
        if path.suffix != ".toml" or not is_there(path):
            raise BadRequestError(
                f"--space {excerpt(name)}: must be one of {', '.join(space_names())} or a .toml file, and there is no "
                "such file."
            )
    text = read_text(path, "a search space")
    try:
        return msgspec.convert(tomllib.loads(text), _SpaceFile)
    except RecursionError as error:
        raise BadRequestError(f"{name}: this is not a search space: it is nested too deeply.") from error
    except ValueError as error:  # of TOML, of msgspec, or a number of more digits than Python reads
        raise BadRequestError(f"{name}: this is not a search space: {excerpt(str(error), MAX_REASON)}.") from error


def check_wishes(name: str, fixed: Sequence[str] = (), excluded: Sequence[str] = ()) -> None:
    """Refuse what is wrong with a search space and with wishes on any machine; see load_space.

    Raises:
        BadRequestError: If the file is none, or something names a knob that does not exist.
    """
    file = _read(name)
    for rule in file.forbidden:
        for knob_name in rule.settings:
            find_knob(knob_name, f"{name}: forbidden")
    for knob_name, wish in file.listed.items():
        find_knob(knob_name, name)
        _check_listed(knob_name, wish, name)
    for knob_name in excluded:
        find_knob(knob_name, "--exclude")
    wished = {split_wish(text)[0].name for text in fixed}
    if both := sorted(wished.intersection(excluded)):
        raise BadRequestError(f"{both[0]} is both set and excluded; choose one of --set and --exclude.")


def load_space(
    name: str,
    context: KnobContext,
    fixed: Sequence[str] = (),
    excluded: Sequence[str] = (),
    may_alter: bool = False,
) -> SearchSpace:
    """Return the search space of this name, with only values that work in this context.

    A knob that is not searched keeps its value of the user's own settings.

    Args:
        name: A space that comes with autoaccel, or the path of a .toml file.
        context: The machine and the training; what the training needs, once that was measured.
        fixed: Wishes such as `precision.autocast=bfloat16`: every trial has this value.
        excluded: Names of knobs that keep the baseline's value.
        may_alter: Whether a person has said how much worse the metric may get: a model is altered for no less.

    Raises:
        BadRequestError: If the file or a wish names something that does not exist or cannot be had here.
    """
    check_wishes(name, fixed, excluded)
    file = _read(name)
    baseline = baseline_settings(context)
    listed = {**file.listed, **{knob.name: "all" for knob in argument_knobs(context)}}
    wishes = dict(_parse_wish(text, context) for text in fixed)
    requested = dict.fromkeys(excluded, "excluded as requested")
    requested |= {wished: f"set to {format_value(value)} as requested" for wished, value in wishes.items()}

    opened: dict[str, tuple[Value, ...]] = {}
    closed: dict[str, str] = {}
    for knob in knobs_here(context):
        if knob.name in requested:
            closed[knob.name] = requested[knob.name]
        elif knob.name in listed:  # what nobody has named needs no reason
            found = _opened(knob, listed[knob.name], baseline[knob.name], file, name, context, may_alter)
            if isinstance(found, str):
                closed[knob.name] = found
            else:
                opened[knob.name] = found
    held = {name: wishes.get(name, baseline[name]) for name in baseline if name not in opened}
    possible = {**{name: (value,) for name, value in held.items()}, **opened}
    forbidden = (
        *file.forbidden,
        *_clashes(context, opened, held, baseline),
        *without_room(context, possible, baseline),
    )
    space = SearchSpace(
        name=name,
        open=opened,
        fixed=held,
        closed=closed,
        forbidden=forbidden,
        inexact=inexact_here(context),
        risks=risks_here(context),
        title=file.title,
    )
    return close_idle(space, baseline)


def _opened(
    knob: Knob, wish: Any, own: Value, file: _SpaceFile, where: str, context: KnobContext, may_alter: bool
) -> tuple[Value, ...] | str:
    """Return the values of a listed knob that are searched, the user's own first; or why none is."""
    if reason := _why_closed(knob, file, context, may_alter):
        return reason
    others = [value for value in _values_of(knob, wish, context, where) if value != own]
    slower = _slower_values(knob, others, context) if knob.name in file.native else {}
    if native := tuple(value for value in others if value not in slower):
        return own, *native
    why = knob.why_untried(context) if wish == "all" else ""
    return next(iter(slower.values()), why or "no listed value except your own works here")


def _why_closed(knob: Knob, file: _SpaceFile, context: KnobContext, may_alter: bool) -> str:
    """Return why no value of a listed knob is searched in this context; empty if values may be."""
    if reason := knob.why_closed(context):
        return reason
    if knob.name in file.altering and not may_alter:
        return ALTERS
    if file.exact and knob.risk_at(context) != "exact":
        return f"it is not exact here: {knob.why_inexact(context) or 'it may change the numbers'}"
    return ""


def _slower_values(knob: Knob, values: Sequence[Value], context: KnobContext) -> dict[Value, str]:
    """Return the short types in which this processor computes more slowly than in float32, each with the reason.

    With AVX2 alone, on two cores, steps of a recommender took twice as long in bfloat16 as in float32 (`recommender:
    grid` in benchmarks/results/unseen.jsonl). Those who train in short types already may be faster without them, so
    that is tried.
    """
    cpu, torch = context.machine.cpu, context.machine.torch
    if context.device != "cpu" or baseline_settings(context)[knob.name] != knob.off:
        return {}
    if cpu.features and not cpu.has_bfloat16:  # without features nobody could tell
        why = "this processor has no instructions for 16-bit types: PyTorch would emulate them, which is slower"
        return dict.fromkeys(values, why)
    speedups = torch.product_speedups if torch is not None else {}
    return {
        value: f"matrix products are {speedups[value]:.2g}x as fast in {value} as in float32 on this processor"
        for value in values
        if isinstance(value, str) and speedups.get(value, 1.0) < 1
    }


def _without_impossible(space: SearchSpace, baseline: Settings) -> SearchSpace:
    """Return the space without values that what is not searched rules out, nor knobs that have no other left."""
    opened, fixed, closed = dict(space.open), dict(space.fixed), dict(space.closed)
    for rule in space.forbidden:
        free = [name for name in rule.settings if name in opened]
        if len(free) != 1 or any(fixed.get(name) != value for name, value in rule.settings.items() if name not in free):
            continue
        (name,) = free
        left = tuple(value for value in opened[name] if value != rule.settings[name])
        if len(left) > 1:
            opened[name] = left
        else:
            del opened[name]
            closed[name], fixed[name] = rule.reason, left[0] if left else baseline[name]
    return msgspec.structs.replace(space, open=opened, fixed=fixed, closed=closed)


def close_idle(space: SearchSpace, baseline: Settings) -> SearchSpace:
    """Return the space without what fits into no combination or does nothing in any, with the others' conditions."""
    space = _without_impossible(space, baseline)
    opened, fixed, closed = dict(space.open), dict(space.fixed), dict(space.closed)
    conditions: dict[str, tuple[Condition, ...]] = {}
    # In the order of needs: what closes one knob may close those that need it.
    for _ in space.open:
        conditions = {}
        for name in list(opened):
            found = []
            for need in KNOBS[name].needs:
                possible = opened.get(need.knob, (fixed[need.knob],) if need.knob in fixed else ())
                suiting = tuple(value for value in possible if KNOBS[need.knob].passes(need.suits, value))
                if not suiting:
                    closed[name] = f"it requires {need.knob} {need.words}"
                    fixed[name] = baseline[name]
                    opened.pop(name, None)
                elif len(suiting) < len(possible):
                    found.append(Condition(need.knob, suiting))
            if found and name in opened:
                conditions[name] = tuple(found)
    resting = {name: baseline[name] for name in conditions}
    return msgspec.structs.replace(
        space, open=opened, fixed=fixed, closed=closed, conditions=conditions, resting=resting
    )


def _clashes(
    context: KnobContext,
    opened: Mapping[str, tuple[Value, ...]],
    held: Mapping[str, Value],
    baseline: Mapping[str, Value],
) -> list[Forbidden]:
    """Return the combinations that the knobs themselves rule out.

    Raises:
        BadRequestError: If a person has asked for such a combination.
    """
    possible = {**{name: (value,) for name, value in held.items()}, **opened}
    found = []
    for name, values in possible.items():
        for clash in KNOBS[name].clashes:
            for mine, theirs in itertools.product(values, possible.get(clash.knob, ())):
                pair: Settings = {name: mine, clash.knob: theirs}
                if not clash_holds(clash, KNOBS[name], pair, context):
                    continue
                if all(baseline.get(one) == value for one, value in pair.items()):
                    continue  # the user's own training does it already
                if not held.keys() >= pair.keys():
                    found.append(Forbidden(pair, clash.reason))
                elif any(held[one] != baseline[one] for one in pair):
                    shown = " and ".join(f"{one}={format_value(value)}" for one, value in pair.items())
                    raise BadRequestError(f"--set: {shown} cannot be combined: {clash.reason}.")
    return found


def split_wish(text: str) -> tuple[Knob, str]:
    """Return the knob of a wish, and its value as typed.

    Raises:
        BadRequestError: If it is no wish, or names a knob that does not exist.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise BadRequestError(f"--set {excerpt(text)}: must be knob=value, such as precision.autocast=bfloat16.")
    return find_knob(name.strip(), "--set"), value.strip()


def _parse_wish(text: str, context: KnobContext) -> tuple[str, Value]:
    knob, value = split_wish(text)
    return knob.name, parse_value(knob, value, context, "--set")


def _check_listed(knob_name: str, wish: Any, where: str) -> None:
    if wish != "all" and not (isinstance(wish, list) and wish):
        raise BadRequestError(f'{where}: {knob_name} must be "all" or a list of values, got {excerpt(repr(wish))}.')
    if wish != "all" and len(wish) > _MAX_VALUES:
        raise BadRequestError(f"{where}: {knob_name} must list at most {_MAX_VALUES} values, got {len(wish):,}.")


def _values_of(knob: Knob, wish: Any, context: KnobContext, where: str) -> Sequence[Value]:
    """Return the listed values that work here.

    One that this machine lacks (a dtype, more cores) is left out: one file serves many machines.
    """
    return knob.values(context) if wish == "all" else [value for value in wish if _works(knob, value, context, where)]


def _works(knob: Knob, value: object, context: KnobContext, where: str) -> bool:
    kind = type(knob.default(context))
    if type(value) is not kind:
        raise BadRequestError(
            f"{where}: values of {knob.name} must be of type {kind.__name__}, got {excerpt(repr(value))}."
        )
    try:
        check_value(knob, value, context, where)
    except BadRequestError:
        return False
    return True
