"""Whether settings that others wrote could be had: each value within the domain of its knob, before any takes effect.

The domain is declared with the knob (`Knob.values`, `value_range`, `why_wrong`, `own_range`); `check_value` judges one
value by it. Here, all those of a recipe are judged, of a run folder, or of a study that others write to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Library, Machine, TorchFacts
from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import Value
from autoaccel.space.knobs import KNOBS, KnobContext, check_own_value, check_value, find_knob
from autoaccel.space.knobs.arguments import PREFIX
from autoaccel.space.knobs.model import PRUNING_LIBRARIES

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


def contexts_on(machine: Machine) -> list[KnobContext]:
    """Return what a training on a machine could run under, whatever its torch is: a context for each type of device."""
    # A quota of a container does not keep torch from taking a thread for each CPU, and a training may keep to that.
    cpus = machine.cpu.logical_cores
    torch = msgspec.structs.replace(_ABLE, intra_op_threads=cpus, inter_op_threads=cpus)
    return [
        KnobContext(msgspec.structs.replace(machine, torch=msgspec.structs.replace(torch, device=device)))
        for device in _DEVICES
    ]


def check_settings(
    given: Iterable[Mapping[str, Value]], own: Mapping[str, Value], contexts: Sequence[KnobContext], where: str
) -> None:
    """Refuse settings of which a value can be had in none of these contexts.

    A value that the user's own code has is only refused if no code could: it is not for us to choose. Arguments of a
    script are texts of its author's, and not judged.

    Args:
        given: Settings of others.
        own: What they say the user's own settings are.
        contexts: Where the settings are to take effect, as far as that is known.
        where: Begins the error.

    Raises:
        BadRequestError: Naming the knob, what must hold and what was found.
    """
    # Thousands of trials hold the same few values again and again.
    values = {(name, type(value), value) for settings in given for name, value in settings.items()}
    for name, kind, value in sorted(values, key=str):
        is_own = name in own and (type(own[name]), own[name]) == (kind, value)
        if name.startswith(PREFIX) or (is_own and name not in KNOBS):  # which some version or package once had
            continue
        knob, check = find_knob(name, where), check_own_value if is_own else check_value
        errors = []
        for context in contexts:
            try:
                check(knob, value, context, where)
            except BadRequestError as error:
                errors.append(error)
        if len(errors) == len(contexts):
            raise errors[0]


def check_recipe(recipe: Recipe, where: str) -> None:
    """Refuse a recipe with values that the machine could not have that it says it was made on.

    Raises:
        BadRequestError: Naming the knob, what must hold and what was found.
    """
    contexts = contexts_on(_with_any_software(recipe.machine))
    check_settings((recipe.baseline.settings, recipe.settings), recipe.baseline.settings, contexts, where)


def check_recipe_here(recipe: Recipe, contexts: Sequence[KnobContext], where: str) -> None:
    """Refuse a recipe with values that cannot be had here.

    Args:
        recipe: That is to take effect.
        contexts: Where, as far as that is known.
        where: Begins the error.

    Raises:
        BadRequestError: Naming the knob, what must hold and what was found.
    """
    try:
        check_settings((recipe.settings,), recipe.baseline.settings, contexts, where)
    except BadRequestError as error:
        raise BadRequestError(f"{error} Tune on this machine.") from error


def whole_computer(machine: Machine) -> Machine:
    """Return a machine whose processes may use all of its CPUs: a launcher may have left this one only a rank's."""
    cpus = tuple(range(machine.cpu.logical_cores))
    limits = msgspec.structs.replace(
        machine.limits, affinity=cpus, physical_cores=machine.cpu.physical_cores, cores=(), cpu_quota=None
    )
    return msgspec.structs.replace(machine, limits=limits)


def _with_any_software(machine: Machine) -> Machine:
    """Return a machine that lacks no software and no instructions: recipes of earlier versions do not tell of all."""
    cpu = msgspec.structs.replace(machine.cpu, features=(*machine.cpu.features, "amx_fp16", "amx_bf16"))
    return msgspec.structs.replace(
        machine,
        cpu=cpu,
        openmp=(Library("libiomp5", ""),),
        packages={**machine.packages, **dict.fromkeys((*PRUNING_LIBRARIES, "oneccl-bindings-for-pytorch"), "")},
        compiler="c++",
        c_compiler="cc",
        huge_pages="madvise",
        libc="glibc",
    )
