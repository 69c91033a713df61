"""TuneOptions: each option of a tuning run, declared once.

The name, type, default and help of an option stand here. `autoaccel tune --help`, the signature and docstring of
`autotune()`, the checks of both, the options that a run keeps (`Request.options`) and every command that repeats or
resumes a run come from them.

No msgspec: `autoaccel --help` imports this, and is instant.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from autoaccel.errors import BadRequestError
from autoaccel.records.option import Option, options_of
from autoaccel.units import MAX_SEED, check_range, excerpt

if TYPE_CHECKING:
    from pathlib import Path

    PathText: TypeAlias = str | Path
else:
    PathText = str  # the stored form: TuneOptions turns paths into text, and msgspec reads it from JSON

EvidenceWish = Literal["any", "whole"]
"""What must show that settings keep the metric: what fits, the strongest first; or whole planned runs."""

DEFAULT_BUDGET = "10m"
DEFAULT_MAX_DROP = "1%"
DEFAULT_TRAININGS = 20
OWN_SAMPLER = "autoaccel"
OPTUNAS_SAMPLERS = {"tpe": "TPESampler", "gp": "GPSampler", "cmaes": "CmaEsSampler", "random": "RandomSampler"}
"""Short names of Optuna's samplers -> their classes."""

_DOCSTRING_WIDTH = 120
_PLACE = "{options}"  # where the options stand in a docstring


def _either(names: Iterable[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join(", ".join(names).rsplit(", ", 1))


def _duration_text(budget: str | float | None) -> str | None:
    """Return a budget as it is typed; a number is seconds."""
    if budget is None or isinstance(budget, str):
        return budget.strip() if budget else budget
    return f"{budget:.3f}".rstrip("0").rstrip(".") + "s"


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What a person asks of a tuning run, apart from the training. Values are as typed; `check` judges them."""

    budget: Annotated[
        str | float | None,
        Option(
            "maximum time, such as 90s, 10m or 1h; a bare number is seconds; for a resumed run, +5m adds five "
            "minutes to the time already spent",
            unset=f"{DEFAULT_BUDGET}; for a resumed run, what is left of its budget",
            store=_duration_text,
        ),
    ] = None
    trials: Annotated[
        int | None,
        Option("maximum number of trials", unset="as many as the budget allows", metavar="N", min=1, max=1_000_000),
    ] = None
    max_drop: Annotated[
        str | float | None,
        Option(
            "maximum drop of the metric: 0.5% of the baseline's, or an amount such as 0.005; if given, the model "
            "may be altered",
            unset=f"{DEFAULT_MAX_DROP}, and the model is not altered",
            metavar="DROP",
            store=_text_or_none,
        ),
    ] = None
    metric_repeats: Annotated[
        int,
        Option(
            "number of paired training runs that judge settings which may change the metric",
            metavar="K",
            min=2,
            max=1000,
            reason="because one run does not show the spread",
        ),
    ] = 3
    evidence: Annotated[
        EvidenceWish,
        Option(
            "evidence that the metric is kept: any (the strongest that fits the budget) or whole (complete planned "
            "runs)"
        ),
    ] = "any"
    space: Annotated[
        PathText, Option("search space: default, quick, exact-only, everything, or a .toml file", store=str)
    ] = "default"
    fixed: Annotated[
        Sequence[str],
        Option(
            "value of a knob in every trial, such as precision.autocast=bfloat16",
            spelling="set",
            metavar="KNOB=VALUE",
            store=tuple,
        ),
    ] = ()
    excluded: Annotated[
        Sequence[str],
        Option("knob that keeps your own value", spelling="exclude", metavar="KNOB", store=tuple),
    ] = ()
    output: Annotated[
        PathText | None,
        Option("folder of the run", unset="autoaccel-runs/MODEL-N", metavar="DIR", store=_text_or_none),
    ] = None
    resume: Annotated[
        bool,
        Option(
            "resume the run in the output folder, or the latest run of this training, if it was interrupted or "
            "its budget ended before a proof"
        ),
    ] = False
    sampler: Annotated[
        str,
        Option(
            f"sampler that proposes the trials: {OWN_SAMPLER}, one of Optuna's ({_either(OPTUNAS_SAMPLERS)}), or your "
            "own as module:Class",
            metavar="NAME",
        ),
    ] = OWN_SAMPLER
    seed: Annotated[int, Option("seed of the search", min=0, max=MAX_SEED)] = 0
    trainings: Annotated[
        int,
        Option(
            "how many times you will train like this; the search ends when it can no longer pay off over that "
            "many trainings",
            metavar="N",
            min=1,
            max=1_000_000_000,
        ),
    ] = DEFAULT_TRAININGS
    steps: Annotated[
        int | None,
        Option(
            "number of optimizer steps that it will train",
            unset="read from the script's own loops, else assumed",
            metavar="N",
            min=1,
            max=1_000_000_000_000,
            of_scripts=True,
        ),
    ] = None
    hours: Annotated[
        float | None,
        Option(
            "how long it will train, which gives the number of steps at the pace of its first ones",
            unset="as for --steps",
            metavar="H",
            max=1_000_000,
            of_scripts=True,
        ),
    ] = None
    metric: Annotated[
        str | None,
        Option(
            "what judges it, with --direction; a regular expression with one group, the number in a line "
            "of its output, or the name that it calls autoaccel.report() with",
            unset="its training loss",
            metavar="REGEX|NAME",
            of_scripts=True,
        ),
    ] = None
    metric_file: Annotated[
        str | None,
        Option(
            "what judges it, with --direction; a number in a JSON file that it writes, such as metrics.json:accuracy",
            unset="as for --metric",
            metavar="FILE:KEY",
            of_scripts=True,
        ),
    ] = None
    direction: Annotated[
        Literal["maximize", "minimize"] | None,
        Option("which way its metric is better", unset="minimize, for its training loss", of_scripts=True),
    ] = None

    no_history: Annotated[
        bool, Option("begin without what `autoaccel run` has found of the same training while it trained")
    ] = False
    in_place: Annotated[
        bool, Option("let trials work on your own files; what they write stays there", of_scripts=True)
    ] = False
    args: Annotated[
        Sequence[str],
        Option(
            "an argument of its own to tune, with the values to try, such as batch-size=32,64; without "
            "values a flag. The metric must be kept, unless its name says that it is about loader workers",
            spelling="arg",
            metavar="NAME[=VALUE,...]",
            store=tuple,
            of_scripts=True,
        ),
    ] = ()

    def __post_init__(self) -> None:
        for option in OPTIONS:
            object.__setattr__(self, option.name, option.store(getattr(self, option.name)))


OPTIONS = options_of(TuneOptions)


def options_in(source: object) -> TuneOptions:
    """Return the options among the attributes of something else, such as a parsed command line."""
    return TuneOptions(**{option.name: getattr(source, option.name) for option in OPTIONS})


def check(options: TuneOptions) -> None:
    """Refuse a value that an option cannot have.

    Raises:
        BadRequestError: Naming the option, what must hold and what was found.
    """
    for option in OPTIONS:
        value = getattr(options, option.name)
        if (option.min, option.max) != (None, None) and not (value is None and option.default is None):
            kinds, noun = ((int,), "a whole number") if option.parse is int else ((int, float), "a number")
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise BadRequestError(f"{option.flag} must be {noun}, got {excerpt(value)}.")
            least, most = option.min or 0, math.inf if option.max is None else option.max
            check_range(option.flag, value, least, most, option.reason)
        if option.choices and value not in (*option.choices, option.default):
            raise BadRequestError(f"{option.flag} must be {' or '.join(option.choices)}, got {excerpt(value)}.")


def as_arguments(options: TuneOptions, always: Collection[str] = ()) -> list[str]:
    """Return the arguments with which the command line asks for these options, in the order of their declaration.

    Args:
        options: What they ask for.
        always: Names of options that are spelled out even if they have their default value.
    """
    arguments: list[str] = []
    for option in OPTIONS:
        value = getattr(options, option.name)
        if value is None or (value == option.default and option.name not in always):
            continue
        if option.is_switch:
            arguments += [option.flag] if value else []
            continue
        for text in map(str, value if option.is_repeated else [value]):
            # A value that begins with a dash would be read as another flag.
            arguments += [f"{option.flag}={text}"] if text.startswith("-") else [option.flag, text]
    return arguments


def to_repeat(options: TuneOptions) -> TuneOptions:
    """Return those of a run's options that hold for a resumed run only if they are typed again, as one may type them.

    A run folder is data: the class that it names is not imported, the arguments that it names are not given to a
    script, and trials write nowhere but in a copy, unless a person says so. Arguments are named without their values.
    """
    return TuneOptions(
        sampler=options.sampler if ":" in options.sampler else OWN_SAMPLER,
        args=tuple(text.partition("=")[0] for text in options.args),
        in_place=options.in_place,
    )


def documented(docstring: str) -> str:
    """Return a docstring with an entry for each option in place of its line `{options}`."""
    lines: list[str] = []
    for line in docstring.splitlines():
        if line.strip() != _PLACE:
            lines.append(line)
            continue
        indent = line.partition(_PLACE)[0]
        for option in OPTIONS:
            text = option.help_with_default
            lines += textwrap.wrap(
                f"{option.name}: {text[0].upper()}{text[1:]}.",
                _DOCSTRING_WIDTH,
                initial_indent=indent,
                subsequent_indent=f"{indent}    ",
                break_on_hyphens=False,
            )
    return "\n".join(lines)
