"""Write docs/knobs.md from the knobs' declarations: `python tools/write_knobs.py`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from autoaccel.records.knob import Group
from autoaccel.space.knobs import KNOBS, Knob

PAGE = Path(__file__).parents[1] / "docs" / "knobs.md"
HEAD = """# The knobs

Everything that autoaccel can change, by group. `autoaccel knobs` says which values each has on your machine, and what
is missing where it has none. Written by `tools/write_knobs.py` from the declarations in
[autoaccel/space/knobs](../autoaccel/space/knobs).

*Risk*: **exact** gives the same numbers; **redraws** draws samples with other random numbers, as another seed does;
**rounding** runs the same algorithm with other rounding; **changes training** gives another model, batch, number of
steps or draw of samples. Whatever is not exact must keep the metric. What decides who loads a sample is exact unless
loading draws random numbers: that is found out for each training. Where workers would load other samples than the
training itself, because it changes its dataset as it trains or its files cannot be shared, such knobs are closed.
*Effect stage*: when it takes effect; knobs of the effect stages launch and environment must be set when a process
starts.

A package of yours can bring a knob of its own by an entry point of the group `autoaccel.knobs`:
[examples/own_knob](../examples/own_knob). Its `off` is the value at which it does nothing. If its value can be read off
a process or an optimizer, let the effect's `found` or `found_in` do so: what the user's own code has set is then the
default.
"""


def rows(knob: Knob) -> str:
    """Return what the page says of one knob."""
    lines = [f"### `{knob.name}`", "", f"{knob.help[0].upper()}{knob.help[1:]}.", ""]
    lines.append(f"- Helps when: {knob.helps_when}.")
    lines.append(f"- Effect stage: {knob.effect_stage}; risk: {_risk(knob)}.")
    for need in knob.needs:
        lines.append(f"- Does nothing unless `{need.knob}` is {need.words}.")
    for clash in knob.clashes:
        lines.append(f"- Not with every value of `{clash.knob}`: {clash.reason}.")
    return "\n".join(lines)


def _risk(knob: Knob) -> str:
    if knob.divides_batches:
        return "rounding; changes training where the model normalises by statistics of a batch"
    return f"{knob.risk.replace('_', ' ')}{', unless loading draws random numbers' if knob.decides_on_loading else ''}"


def page() -> str:
    """Return the whole page."""
    own = [knob for knob in KNOBS.values() if knob.effect.startswith("autoaccel.")]
    parts = [HEAD]
    for group in get_args(Group):
        parts.append(f"\n## {group.capitalize()}\n")
        parts.append("\n\n".join(rows(knob) for knob in own if knob.group == group) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
