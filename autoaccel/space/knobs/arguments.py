"""Knobs that a person makes of a script's own command line arguments: `--arg batch-size=32,64,128`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.records.script import NOT_GIVEN, ScriptArgument
from autoaccel.records.settings import Value, changed, format_value
from autoaccel.space.knobs.knob import NO_EFFECT_OF_ITS_OWN, Clash, Knob, KnobContext
from autoaccel.text import shell_word

PREFIX = "arg."

_OF_LOADING = {
    "workers": "loader.workers",
    "num-workers": "loader.workers",
    "n-workers": "loader.workers",
    "nworkers": "loader.workers",
    "loader-workers": "loader.workers",
    "num-loader-workers": "loader.workers",
    "data-workers": "loader.workers",
    "num-data-workers": "loader.workers",
    "dataloader-workers": "loader.workers",
    "dataloader-num-workers": "loader.workers",
    "pin-memory": "loader.pin_memory",
    "pin-mem": "loader.pin_memory",
    "no-pin-memory": "loader.pin_memory",
    "dataloader-pin-memory": "loader.pin_memory",
    "prefetch-factor": "loader.prefetch",
    "dataloader-prefetch-factor": "loader.prefetch",
    "persistent-workers": "loader.persistent",
    "dataloader-persistent-workers": "loader.persistent",
}
"""Names that say in nearly all scripts who loads the samples and when: the one thing that changes no training. Whatever
has another name may change it, and must keep the metric."""

_UNSEEN = (
    "how many samples a step takes under it cannot be seen: no DataLoader feeds the training, or several do, or it "
    "makes its batches itself"
)


def is_harmless(name: str) -> bool:
    """Whether an argument changes no training, as far as names can tell."""
    return _plain(name) in _OF_LOADING


def _plain(name: str) -> str:
    return name.lstrip("-").lower().replace("_", "-")


def argument_knobs(context: KnobContext) -> list[Knob]:
    """Return the knobs of a script's arguments, those that a person has named."""
    return [argument_knob(PREFIX + one.name) for one in context.seen.arguments]


@functools.cache
def argument_knob(name: str) -> Knob:
    """Return the knob of an argument; what its values are the script's facts say.

    Args:
        name: Of the knob, such as `arg.batch-size`.
    """
    argument = name.removeprefix(PREFIX)
    harmless = is_harmless(argument)
    return Knob(
        name=name,
        group="data",
        effect_stage="launch",
        risk="exact" if harmless else "changes_training",
        help=f"the script's own argument {flag_of(argument)}",
        helps_when="only whoever wrote the script knows",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=lambda context: _declared(argument, context).values,
        usual=lambda context: _declared(argument, context).values[0],
        why_unavailable=lambda context: "" if harmless or _shows_samples(context) else _UNSEEN,
        clashes=(_clash(name, _OF_LOADING[_plain(argument)]),) if harmless else (),
        decides_on_loading=harmless,
        acts_in=("script",),
    )


def _declared(argument: str, context: KnobContext) -> ScriptArgument:
    found = (one for one in context.seen.arguments if one.name == argument)
    return next(found, ScriptArgument(argument, (NOT_GIVEN,)))


def _shows_samples(context: KnobContext) -> bool:
    loader = context.seen.loader
    return loader is not None and loader.key.batch_size is not None


def _clash(name: str, other: str) -> Clash:
    """Return that a knob of ours would override what the argument says."""

    def both_differ(context: KnobContext, mine: Value, theirs: Value) -> bool:
        return mine != argument_knob(name).default(context) and theirs != context.found.get(other, theirs)

    return Clash(lambda mine: True, other, lambda theirs: True, f"{other} would override {name}", both_differ)


# --- command lines -------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where an argument stands on a command line."""

    first: int
    value: str | None  # None: it is a flag without one
    is_joined: bool  # as `--name=value`
    prefix: str  # what stands before the value there


def flag_of(argument: str) -> str:
    """Return how an argument is spelled on a command line: as a person has, else with two dashes."""
    return argument if argument.startswith("-") else f"--{argument}"


def own_value(argument: str, is_flag: bool, arguments: Sequence[str]) -> Value:
    """Return what a command line says of an argument; NOT_GIVEN if nothing, of a flag whether it is there."""
    place = _find(argument, is_flag, arguments)
    if is_flag:
        return place is not None
    return NOT_GIVEN if place is None or place.value is None else place.value


def is_given(argument: str, arguments: Sequence[str]) -> bool:
    """Whether an argument stands on a command line, with a value or without."""
    return _find(argument, False, arguments) is not None or _find(argument, True, arguments) is not None


def arguments_with(arguments: Sequence[str], settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Return a command line on which arguments have the values that settings give them; all others stay."""
    found = tuple(arguments)
    for name, value in settings.items():
        if name.startswith(PREFIX) and value != NOT_GIVEN:
            found = _with(found, name.removeprefix(PREFIX), value)
    return found


def changed_arguments(settings: Mapping[str, Value], baseline: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of the arguments in which settings differ from the baseline, by the arguments' names."""
    return {
        name.removeprefix(PREFIX): value
        for name, value in changed(settings, baseline).items()
        if name.startswith(PREFIX) and value != NOT_GIVEN
    }


def check_declared(settings: Mapping[str, Value], declared: Sequence[ScriptArgument]) -> None:
    """Refuse settings that hold an argument which nobody has asked for, or a value which nobody has named.

    Settings are read from run folders, studies and recipes; what an argument makes a script do only its user knows.

    Raises:
        BadRequestError: Naming the first.
    """
    values = {one.name: one.values for one in declared}
    for name, value in settings.items():
        argument = name.removeprefix(PREFIX)
        if argument != name and value != NOT_GIVEN and value not in values.get(argument, ()):
            shown = shell_word(f"{argument}={format_value(value)}")
            raise BadRequestError(
                f"settings that were read hold the script's argument {shown}, which was not asked for with --arg. "
                "Tune anew, without what they were read from."
            )


def changes_samples(settings: Mapping[str, Value]) -> bool:
    """Whether settings may give a step other samples: they hold an argument that is not known to be harmless."""
    return any(name.startswith(PREFIX) and not is_harmless(name.removeprefix(PREFIX)) for name in settings)


def _with(arguments: tuple[str, ...], argument: str, value: Value) -> tuple[str, ...]:
    place = _find(argument, isinstance(value, bool), arguments)
    if isinstance(value, bool):
        if place is None:
            return (*arguments, flag_of(argument)) if value else arguments
        return arguments if value else (*arguments[: place.first], *arguments[place.first + 1 :])
    if place is None:
        # Programs whose arguments all look like name=value want this one to look like that, too.
        plain = bool(arguments) and all("=" in text and not text.startswith("-") for text in arguments)
        return (*arguments, f"{argument}={value}") if plain else (*arguments, flag_of(argument), str(value))
    if place.is_joined:
        return (*arguments[: place.first], f"{place.prefix}{value}", *arguments[place.first + 1 :])
    return (*arguments[: place.first + 1], str(value), *arguments[place.first + 2 :])


def _find(argument: str, is_flag: bool, arguments: Sequence[str]) -> _Place | None:
    """Return where an argument stands; of several places the last, as nearly all programs see it."""
    flag = flag_of(argument)
    for number in reversed(range(len(arguments))):
        text = arguments[number]
        if is_flag and text == flag:
            return _Place(number, None, False, "")
        if not is_flag and text == flag and number + 1 < len(arguments):
            return _Place(number, arguments[number + 1], False, "")
        for prefix in (f"{flag}=", f"{argument}="):
            if not is_flag and text.startswith(prefix):
                return _Place(number, text.removeprefix(prefix), True, prefix)
    return None
