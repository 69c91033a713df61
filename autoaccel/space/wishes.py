"""Refuse a value that no training could have on a machine, before anything of a training runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Machine, TorchFacts
from autoaccel.space.knobs import Knob, KnobContext, parse_value
from autoaccel.space.search_space import split_wish

_DEVICES = ("cpu", "cuda", "xpu", "mps")
_TYPES = ("float32", "bfloat16", "float16")
_ABLE = TorchFacts(
    version="",
    intra_op_threads=1,
    inter_op_threads=1,
    cpu_capability="",
    device="cpu",
    device_name="",
    autocast=_TYPES[1:],
    fused_optimizer=True,
    compile_backends=("cudagraphs", "ipex", "onnxrt", "openxla", "tvm"),
    attention=dict.fromkeys(("flash", "cudnn", "efficient", "math"), _TYPES),
)
"""A torch that can do all that torch can: what is not known of the one that will train rules nothing out."""


def check_values(wishes: Sequence[str], machine: Machine) -> None:
    """Refuse a wish that could be met on no device, whatever the training and its torch are.

    Args:
        wishes: Such as `precision.autocast=bfloat16`, as typed.
        machine: Where it is to be met; what its torch can do need not be known.

    Raises:
        BadRequestError: Naming the wish, and saying which values a CPU could have, or why it has none.
    """
    contexts = [_context_on(device, machine) for device in _DEVICES]
    for wish in wishes:
        knob, text = split_wish(wish)
        errors = [error for context in contexts if (error := _refusal(knob, text, context))]
        if len(errors) == len(contexts):
            raise errors[0]


def _context_on(device: str, machine: Machine) -> KnobContext:
    # A quota of a container does not keep torch from taking a thread for each CPU, and a training may keep to that.
    cpus = machine.cpu.logical_cores
    torch = msgspec.structs.replace(_ABLE, device=device, intra_op_threads=cpus, inter_op_threads=cpus)
    return KnobContext(msgspec.structs.replace(machine, torch=torch))


def _refusal(knob: Knob, text: str, context: KnobContext) -> BadRequestError | None:
    try:
        parse_value(knob, text, context, "--set")
    except BadRequestError as error:
        return error
    return None
