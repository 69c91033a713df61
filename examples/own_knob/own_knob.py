"""A knob of another package: deterministic algorithms. `pip install examples/own_knob` adds it to `autoaccel knobs`."""

from autoaccel.space.knobs.knob import Knob

KNOB = Knob(
    name="own.deterministic",
    group="precision",
    effect_stage="process",
    risk="rounding",
    help="only algorithms that give the same bits in every run",
    helps_when="never faster by itself: it says what reproducible results cost",
    effect="own_knob_effect:Deterministic",
    values=lambda context: (False, True),
    usual=lambda context: False,
    off=False,
)
