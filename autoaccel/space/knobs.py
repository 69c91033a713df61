"""The knobs: every one thing that may be changed, declared once. Their effects are in runtime/knobs/."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autoaccel.errors import BadRequestError
from autoaccel.records.knob import KnobRow, Risk, Stage
from autoaccel.records.machine import Machine
from autoaccel.records.settings import Settings, Value, format_value
from autoaccel.records.workload import TrainingFacts


@dataclass(frozen=True)
class Place:
    """Where a knob is asked about: a machine, and the training on it once that is known."""

    machine: Machine
    training: TrainingFacts | None = None

    @property
    def device(self) -> str:
        """The device type that the training runs on, as far as it is known: "cpu" or "cuda"."""
        if self.training is not None:
            return self.training.device.partition(":")[0]
        return self.machine.torch.device if self.machine.torch else "cpu"


def _available(place: Place) -> str:
    return ""


@dataclass(frozen=True)
class Knob:
    """One thing that may be changed.

    Attributes:
        name: `group.what`.
        values: Every value worth trying at a place, the default included, cheapest first.
        default: What happens at a place if nobody changes anything.
        why_unavailable: Why no other value than the default works at a place; empty if one does.
        environment: Variables that carry the value (as text) into a process. Of a knob of the stages "launch" and
            "environment" they must be there when it starts; of others its libraries can still be told.
        modules: What torch imports on the first use of any value but "off".
        limits: For counts: the smallest and largest that may be asked for at a place, both included. A person may
            set any count between them, not only those worth trying.
    """

    name: str
    stage: Stage
    risk: Risk
    help: str
    helps_when: str
    values: Callable[[Place], tuple[Value, ...]]
    default: Callable[[Place], Value]
    why_unavailable: Callable[[Place], str] = _available
    environment: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    limits: Callable[[Place], tuple[int, int]] | None = None

    @property
    def group(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]


def _thread_values(place: Place) -> tuple[Value, ...]:
    """Powers of two, the physical cores and all usable cores, most first; torch's own choice among them."""
    most = place.machine.usable_cores
    physical = min(most, place.machine.limits.physical_cores)
    powers = {2**exponent for exponent in range(most.bit_length()) if 2**exponent <= most}
    return tuple(sorted(powers | {most, physical, int(_thread_default(place))}, reverse=True))


def _thread_default(place: Place) -> int:
    return place.machine.torch.intra_op_threads if place.machine.torch else place.machine.usable_cores


def _why_one_thread(place: Place) -> str:
    return "" if len(_thread_values(place)) > 1 else "this process may use one core only"


_FLOAT16_UNITS = {"avx512_fp16", "amx_fp16", "neon"}
"""CPU features with which float16 may be more than a way to store numbers; of ARM it is not known."""


def _autocast_values(place: Place) -> tuple[Value, ...]:
    """The types that train here; on a CPU float16 only where it computes in it: emulated, it is slower tenfold."""
    found = place.machine.torch.autocast if place.machine.torch else ()
    emulated = place.device == "cpu" and not _FLOAT16_UNITS & set(place.machine.cpu.features)
    return ("off", *(name for name in found if not (name == "float16" and emulated)))


def _why_no_autocast(place: Place) -> str:
    return "" if len(_autocast_values(place)) > 1 else f"no dtype trained under autocast on this {place.device}"


def _why_no_compiler(place: Place) -> str:
    if place.device == "cpu" and place.machine.compiler is None:
        return "no C++ compiler: apt install g++ (or set CXX)"
    return ""


def _why_no_images(place: Place) -> str:
    if place.training is not None and not place.training.has_image_convolutions:
        return "the model has no convolution over images"
    return ""


def _worker_values(place: Place) -> tuple[Value, ...]:
    """0, 1, 2, then doubling up to the usable cores: more than that only take turns."""
    most = place.machine.usable_cores
    counts = {0, 1} | {2**exponent for exponent in range(1, most.bit_length()) if 2**exponent <= most}
    return tuple(sorted(counts | {_worker_default(place)}))


def _worker_default(place: Place) -> int:
    return place.training.loader_workers if place.training else 0


def _why_no_loader(place: Place) -> str:
    if place.training is not None and not place.training.loader_adjustable:
        return "batches do not come from a torch DataLoader"
    return ""


def _why_no_pinning(place: Place) -> str:
    if place.device == "cpu":
        return "there is no accelerator to copy to"
    return _why_no_loader(place)


def _pin_default(place: Place) -> bool:
    return place.training.loader_pins_memory if place.training else False


def _why_no_fused(place: Place) -> str:
    if place.machine.torch is not None and not place.machine.torch.fused_optimizer:
        return f"torch {place.machine.torch.version} has no fused optimizers on this {place.device}"
    if place.training is not None and not place.training.optimizer_has_fused:
        return f"{place.training.optimizer} has no fused form"
    return ""


def _switch(place: Place) -> tuple[Value, ...]:
    return (False, True)


def _off(place: Place) -> Value:
    return False


KNOBS: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob(
            name="threads.intra_op",
            stage="process",
            risk="rounding",  # sums are split over threads: another count rounds them in another order
            help="threads that share the work of one operator",
            helps_when="fewer than all cores: small operators, loader workers or neighbours that need cores",
            values=_thread_values,
            default=_thread_default,
            why_unavailable=_why_one_thread,
            environment=("OMP_NUM_THREADS", "MKL_NUM_THREADS"),
            limits=lambda place: (1, max(place.machine.usable_cores, _thread_default(place))),
        ),
        Knob(
            name="loader.workers",
            stage="data",
            risk="exact",
            help="processes that prepare batches ahead of the training step",
            helps_when="the step waits for data; useless, or harmful, where samples are ready in memory",
            values=_worker_values,
            default=_worker_default,
            why_unavailable=_why_no_loader,
            limits=lambda place: (0, 4 * place.machine.usable_cores),
        ),
        Knob(
            name="loader.pin_memory",
            stage="data",
            risk="exact",
            help="batches are put in page-locked memory, from which an accelerator copies faster",
            helps_when="large batches travel to a GPU",
            values=_switch,
            default=_pin_default,
            why_unavailable=_why_no_pinning,
        ),
        Knob(
            name="layout.channels_last",
            stage="model",
            risk="rounding",
            help="images and convolution weights are stored with channels last",
            helps_when="convolutions dominate, most of all in reduced precision",
            values=_switch,
            default=_off,
            why_unavailable=_why_no_images,
        ),
        Knob(
            name="optimizer.fused",
            stage="optimizer",
            risk="rounding",
            help="the optimizer updates all parameters in one fused kernel",
            helps_when="the optimizer's share of the step is large: many parameters, small batches",
            values=_switch,
            default=_off,
            why_unavailable=_why_no_fused,
        ),
        Knob(
            name="precision.autocast",
            stage="step",
            risk="rounding",
            help="matrix products and convolutions run in a shorter floating-point type",
            helps_when="they dominate and the processor computes in that type (AVX512_BF16, AMX, tensor cores)",
            values=_autocast_values,
            default=lambda place: "off",
            why_unavailable=_why_no_autocast,
        ),
        Knob(
            name="compile.mode",
            stage="model",
            risk="rounding",
            help="torch.compile fuses the model's operators into generated code",
            helps_when="many small elementwise operators, and a run long enough to repay the compilation",
            values=lambda place: ("off", "default"),
            default=lambda place: "off",
            why_unavailable=_why_no_compiler,
            modules=("torch._dynamo", "torch._inductor.compile_fx"),
        ),
    )
}
"""Every knob by name."""


def find_knob(name: str, where: str) -> Knob:
    """Return the knob of this name; `where` begins the error if there is none.

    Raises:
        BadRequestError: Naming the nearest knob.
    """
    if name in KNOBS:
        return KNOBS[name]
    near = difflib.get_close_matches(name, KNOBS, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]}?" if near else f"The knobs are {', '.join(KNOBS)}."
    raise BadRequestError(f"{where}: there is no knob {name!r}. {hint}")


def check_value(knob: Knob, value: object, place: Place, where: str) -> Value:
    """Return the value, if the knob can have it at this place.

    Raises:
        BadRequestError: Saying which values it can have, or why it is unavailable.
    """
    default = knob.default(place)
    if type(value) is type(default) and value == default:
        return default
    if reason := knob.why_unavailable(place):
        raise BadRequestError(f"{where}: {knob.name} cannot be {_shown(value)} here: {reason}.")
    for possible in knob.values(place):
        if type(possible) is type(value) and possible == value:
            return possible
    if knob.limits is None:
        choices = ", ".join(format_value(possible) for possible in knob.values(place))
        raise BadRequestError(f"{where}: {knob.name} must be one of {choices}, got {_shown(value)}.")
    low, high = knob.limits(place)
    if type(value) is int and low <= value <= high:
        return value
    raise BadRequestError(f"{where}: {knob.name} must be a whole number from {low} to {high}, got {_shown(value)}.")


def parse_value(knob: Knob, text: str, place: Place, where: str) -> Value:
    """Return the value that a person typed: `on`, `off`, a whole number or a word.

    Raises:
        BadRequestError: If the knob cannot have it at this place.
    """
    default = knob.default(place)
    value: Value = text
    if isinstance(default, bool):
        value = {"on": True, "true": True, "off": False, "false": False}.get(text.lower(), text)
    elif isinstance(default, int):
        value = int(text) if text.isdecimal() else text
    return check_value(knob, value, place, where)


def _shown(value: object) -> str:
    return format_value(value) if isinstance(value, (bool, int, str)) else repr(value)


def baseline_settings(place: Place) -> Settings:
    """Return the user's own settings: what the Training declares, every other knob at its default.

    Raises:
        BadRequestError: If the Training declares what is no knob, or a value that it cannot have here.
    """
    settings = default_settings(place)
    declared = place.training.settings if place.training else {}
    for name, value in declared.items():
        where = "Training(settings=...)"
        settings[name] = check_value(find_knob(name, where), value, place, where)
    return settings


def default_settings(place: Place) -> Settings:
    """Return every knob at its default: what happens if nobody changes anything."""
    return {name: knob.default(place) for name, knob in KNOBS.items()}


def environment_of(settings: Mapping[str, Value], at_start_only: bool = False) -> dict[str, str]:
    """Return the variables that carry settings into a process.

    Args:
        settings: Whatever they are.
        at_start_only: Whether to leave out those that a process that has started can still be told.
    """
    stages = ("launch", "environment")
    return {
        variable: str(value)
        for name, value in settings.items()
        if name in KNOBS and (KNOBS[name].stage in stages or not at_start_only)
        for variable in KNOBS[name].environment
    }


def modules_of(settings: Mapping[str, Value]) -> tuple[str, ...]:
    """Return what torch imports because of these settings, besides what it always does."""
    return tuple(
        module
        for name, value in settings.items()
        if name in KNOBS and value not in (False, "off")
        for module in KNOBS[name].modules
    )


def must_compile(settings: Mapping[str, Value]) -> bool:
    """Whether the first steps under these settings wait for a compiler."""
    return any(name.startswith("compile.") and value != "off" for name, value in settings.items())


def compiled_part(settings: Mapping[str, Value]) -> Settings:
    """Return the settings that the compiled model depends on: all but those of its data and its optimizer."""
    return {name: value for name, value in settings.items() if KNOBS[name].stage not in ("data", "optimizer")}


def is_exact(settings: Mapping[str, Value], baseline: Mapping[str, Value]) -> bool:
    """Whether the settings give the same numbers as the baseline: only exact knobs differ."""
    return not risky_part(settings, baseline)


def risky_part(settings: Mapping[str, Value], baseline: Mapping[str, Value]) -> Settings:
    """Return the settings that differ from the baseline and may change the numbers.

    Two settings with the same risky part train to the same metric.
    """
    return {
        name: value for name, value in settings.items() if KNOBS[name].risk != "exact" and value != baseline.get(name)
    }


def knob_rows(place: Place) -> list[KnobRow]:
    """Return what can be said of every knob at this place, in their order of declaration."""
    return [
        KnobRow(
            name=knob.name,
            group=knob.group,
            values=knob.values(place),
            default=knob.default(place),
            stage=knob.stage,
            risk=knob.risk,
            available=not knob.why_unavailable(place),
            reason=knob.why_unavailable(place),
            help=knob.help,
            helps_when=knob.helps_when,
        )
        for knob in KNOBS.values()
    ]
