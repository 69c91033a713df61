"""The knobs: every one thing that may be changed, declared once, by group. What each does is in runtime/knobs/."""

from autoaccel.space.knobs.chosen import (
    baseline_settings,
    compiled_part,
    compiles,
    default_settings,
    environment_of,
    idle_because,
    inexact_here,
    is_exact,
    is_of_compiling,
    knob_rows,
    modules_of,
    only_rounds,
    risky_part,
    slow_starters,
)
from autoaccel.space.knobs.knob import Clash, Knob, Need, Place
from autoaccel.space.knobs.parallel import ranks_of
from autoaccel.space.knobs.registry import KNOBS, check_value, find_knob, parse_value

__all__ = [
    "KNOBS",
    "Clash",
    "Knob",
    "Need",
    "Place",
    "baseline_settings",
    "check_value",
    "compiled_part",
    "compiles",
    "default_settings",
    "environment_of",
    "find_knob",
    "idle_because",
    "inexact_here",
    "is_exact",
    "is_of_compiling",
    "knob_rows",
    "modules_of",
    "only_rounds",
    "parse_value",
    "ranks_of",
    "risky_part",
    "slow_starters",
]
