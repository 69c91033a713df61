"""The unseen workloads, each a flat file in the folder of its half, and the settings that a person would try by hand.

Constants of the tuner may be chosen by the first half, and say so; none may be by the second. The second half is run
for the first time when the tuner's code is frozen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autoaccel.records.settings import Settings, Value

HALVES = ("first", "second")
MAX_SETTINGS = 12  # of a grid
WAITS = 0.05  # share of the step: waiting for data, from which on a person would try loader workers

Rule = Callable[[Settings], bool]


def workloads() -> dict[str, Path]:
    """Return name -> file of every workload, the first half first."""
    folder = Path(__file__).parent
    return {path.stem: path for half in HALVES for path in sorted((folder / half).glob("*.py"))}


def half_of(path: Path) -> str:
    """Return which half a workload's file belongs to."""
    return path.parent.name


def hand_grid(baseline: Settings, values: Mapping[str, Sequence[Value]], waits: bool) -> list[Settings]:
    """Return what a person would try by hand, the user's own settings first.

    Every combination of autocast, memory layout, one thread or all, compiling, and no loader workers or many; if these
    are too many, those are left out that seldom win, rule after rule until few enough are left.

    Args:
        baseline: The user's settings.
        values: What each knob can be here, of the knobs that can be changed at all.
        waits: Whether the step waits for its data, so that loader workers are worth a try.
    """
    axes: dict[str, list[Value]] = {name: [baseline[name]] for name in _TRIED}
    wanted = {
        **values,
        "threads.intra_op": (1,),
        "loader.workers": values.get("loader.workers", ())[-1:] if waits else (),
    }
    for name in axes.keys() & values.keys():
        axes[name] += [value for value in values[name] if value in wanted[name] and value != baseline[name]]
    every = [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())]
    found = [{**baseline, **combination} for combination in every]
    has_layouts, has_bfloat16 = len(axes["layout.channels_last"]) > 1, len(axes["precision.autocast"]) > 1
    for seldom_wins in _rules(waits, has_layouts, has_bfloat16):
        if len(found) <= MAX_SETTINGS:
            break
        found = [settings for settings in found if settings == baseline or not seldom_wins(settings)]
    return found


_TRIED = ("precision.autocast", "layout.channels_last", "threads.intra_op", "compile.mode", "loader.workers")


def _rules(waits: bool, has_layouts: bool, has_bfloat16: bool) -> list[Rule]:
    """Return what seldom wins, the seldomest first."""

    def compiles(settings: Settings) -> bool:
        return settings["compile.mode"] != "off"

    def idles(settings: Settings) -> bool:  # cores that neither a thread nor a worker uses
        return settings["threads.intra_op"] == 1 and not settings["loader.workers"]

    def rounds(settings: Settings) -> bool:
        return settings["precision.autocast"] != "off"

    return [
        lambda settings: compiles(settings) and idles(settings),
        lambda settings: has_layouts and rounds(settings) and not settings["layout.channels_last"],
        lambda settings: waits and idles(settings),
        lambda settings: compiles(settings) and bool(settings["loader.workers"]) and settings["threads.intra_op"] != 1,
        lambda settings: has_bfloat16 and compiles(settings) and not rounds(settings),
    ]
