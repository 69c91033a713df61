"""How long a first compilation is expected to take, before anything was compiled."""

from __future__ import annotations

from autoaccel.space.knobs import KnobContext

_START_SECONDS, _TENSOR_SECONDS = 12.0, 0.42
"""Of a first compilation of the whole model on a CPU: a constant, and as much for each tensor of parameters, of which
every layer has one or two. Fitted to the first half of benchmarks/studies/unseen (an EPYC's two cores, torch 2.13, 6 to
128 tensors, 14 to 64 s): all within a tenth. The second half on the same processor: 71 s expected of a MobileNet that
took 78 to 85, 43 of a Llama that took 43 to 46, 28 of an audio network that took 40. More cores compile faster."""

_CHANGING_SHAPES = 2.4  # times as long where shapes change: a BERT of that half


def first_compile_seconds(context: KnobContext) -> float | None:
    """Return the seconds that a first compilation of the whole model is expected to take; None if that is not known.

    Args:
        context: Knows the training. For accelerators nothing is known: they compile other code.
    """
    training = context.training
    if training is None or context.device != "cpu" or not training.parameter_tensors:
        return None
    seconds = _START_SECONDS + _TENSOR_SECONDS * training.parameter_tensors
    return seconds * (_CHANGING_SHAPES if training.shapes_change else 1.0)
