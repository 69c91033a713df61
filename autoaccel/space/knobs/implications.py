"""What follows from settings: the variables and modules that they need, what they change, which of them are idle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import get_args

from autoaccel.records.knob import KnobRow, Risk
from autoaccel.records.settings import Settings, Value
from autoaccel.space.knobs.knob import Knob, KnobContext
from autoaccel.space.knobs.registry import KNOBS, check_value, find_knob, knobs_here

RISKS: tuple[Risk, ...] = get_args(Risk)
"""The least first."""


def default_settings(context: KnobContext) -> Settings:
    """Return every knob at its default: what happens if nobody changes anything."""
    return {knob.name: knob.default(context) for knob in knobs_here(context)}


def baseline_settings(context: KnobContext) -> Settings:
    """Return the user's own settings: what the Training declares, every other knob at its default.

    Raises:
        BadRequestError: If the Training declares what is no knob, or a value that it cannot have here.
    """
    settings = default_settings(context)
    declared = context.training.settings if context.training else {}
    for name, value in declared.items():
        where = "Training(settings=...)"
        settings[name] = check_value(find_knob(name, where), value, context, where)
    return settings


def environment_of(settings: Mapping[str, Value], context: KnobContext, at_start_only: bool = False) -> dict[str, str]:
    """Return the variables that carry settings into a process; several libraries to preload are joined.

    Args:
        settings: Whatever they are.
        context: The machine that they are for.
        at_start_only: Whether to leave out those that a process that has started can still be told.
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        knob = KNOBS.get(name)
        if knob is None or knob.is_off(value) or (at_start_only and knob.effect_stage not in ("launch", "environment")):
            continue
        for variable, text in knob.environment(value, context).items():
            joined = variable == "LD_PRELOAD" and variable in found
            found[variable] = f"{found[variable]}:{text}" if joined else text
    return found


def modules_of(settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Return what torch imports because of these settings, besides what it always does."""
    modules = (
        module
        for name, value in settings.items()
        if name in KNOBS and not KNOBS[name].is_off(value)
        for module in KNOBS[name].modules
    )
    return tuple(dict.fromkeys(modules))


def slow_starting_knobs(settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the knobs because of which the first steps take longer than later ones: what compiles or prunes."""
    return tuple(
        name
        for name, value in settings.items()
        if name in KNOBS and KNOBS[name].start_seconds is not None and not KNOBS[name].is_off(value)
    )


def is_on(name: str, settings: Mapping[str, Value]) -> bool:
    """Whether settings name this knob, at a value at which it is not off."""
    return name in settings and not KNOBS[name].is_off(settings[name])


def compiles(settings: Mapping[str, Value]) -> bool:
    """Whether something is compiled under these settings, and so is found compiled by the next process with them."""
    return any(is_of_compiling(name) for name in slow_starting_knobs(settings))


def is_of_compiling(name: str) -> bool:
    """Whether a knob is one of those that say what is compiled, and how."""
    return name in KNOBS and KNOBS[name].group == "compile"


def compiled_part(settings: Mapping[str, Value]) -> Settings:
    """Return the settings that the compiled model depends on: all but those of its data and its optimizer."""
    return {
        name: value
        for name, value in settings.items()
        if name not in KNOBS
        or KNOBS[name].effect_stage not in ("data", "optimizer")
        or name == "optimizer.batch_factor"
    }


def inexact_here(context: KnobContext) -> dict[str, str]:
    """Return the knobs that are exact elsewhere, but not in this context, and why."""
    return {knob.name: reason for knob in knobs_here(context) if (reason := knob.why_inexact(context))}


def is_exact(settings: Mapping[str, Value], baseline: Mapping[str, Value], inexact: Collection[str]) -> bool:
    """Whether the settings give the same numbers as the baseline: only exact knobs differ; see `risky_part`."""
    return not risky_part(settings, baseline, inexact)


def risky_part(settings: Mapping[str, Value], baseline: Mapping[str, Value], inexact: Collection[str]) -> Settings:
    """Return the settings that differ from the baseline and may change the numbers.

    Two settings with the same risky part train to the same metric.

    Args:
        settings: Whatever they are.
        baseline: The user's own.
        inexact: Knobs that are exact elsewhere, but not on this training; see `inexact_here`.
    """
    return {
        name: value
        for name, value in settings.items()
        if (KNOBS[name].risk != "exact" or name in inexact) and value != baseline.get(name)
    }


def risks_here(context: KnobContext) -> dict[str, Risk]:
    """Return what knobs may do to the numbers in this context, of those of which it is not what they do elsewhere."""
    return {knob.name: risk for knob in knobs_here(context) if (risk := knob.risk_at(context)) != knob.risk}


def idle_because(knob: Knob, settings: Mapping[str, Value]) -> str:
    """Return which need of a knob the settings do not meet, such as `it requires loader.workers above 0`; or nothing.

    A knob that the settings do not name has its default, and does not suit.
    """
    for need in knob.needs:
        if need.knob not in settings or not KNOBS[need.knob].passes(need.suits, settings[need.knob]):
            return f"it requires {need.knob} {need.words}"
    return ""


def knob_rows(context: KnobContext) -> list[KnobRow]:
    """Return what can be said of every knob in this context, in their order of declaration."""
    return [_row(knob, context) for knob in KNOBS.values()]


def _row(knob: Knob, context: KnobContext) -> KnobRow:
    reason = knob.why_closed(context) or knob.why_untried(context)
    return KnobRow(
        name=knob.name,
        group=knob.group,
        values=knob.values(context),
        default=knob.default(context),
        effect_stage=knob.effect_stage,
        risk=knob.risk_at(context),
        available=not reason,
        reason=reason,
        help=knob.help,
        helps_when=knob.helps_when,
        needs=tuple(f"{need.knob} {need.words}" for need in knob.needs),
    )
