"""Rules that read causes off observations, by theme. Each threshold stands beside its source."""

from __future__ import annotations

from autoaccel.advise.observations import Rule
from autoaccel.advise.rules import compute, data, evaluation, gpu, machine, memory, precision, python

RULES: dict[str, Rule] = {
    **data.RULES,
    **compute.RULES,
    **precision.RULES,
    **python.RULES,
    **evaluation.RULES,
    **memory.RULES,
    **machine.RULES,
    **gpu.RULES,
}
"""Code of the finding -> rule."""
