"""What each knob does, written once; `effects_of` is the only list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.compiling import Compile
from autoaccel.runtime.knobs.effect import Effect
from autoaccel.runtime.knobs.layout import ChannelsLast
from autoaccel.runtime.knobs.loader import PinMemory, Workers
from autoaccel.runtime.knobs.optimizers import Fused
from autoaccel.runtime.knobs.precision import Autocast
from autoaccel.runtime.knobs.threads import IntraOpThreads

_EFFECTS: Mapping[str, Callable[[Value, str], Effect]] = {
    "threads.intra_op": lambda value, device_type: IntraOpThreads(value),
    "loader.workers": lambda value, device_type: Workers(value),
    "loader.pin_memory": lambda value, device_type: PinMemory(value),
    "layout.channels_last": lambda value, device_type: ChannelsLast(value),
    "optimizer.fused": lambda value, device_type: Fused(value),
    "precision.autocast": Autocast,
    # Last of those that change the model: what is compiled is what the others left.
    "compile.mode": lambda value, device_type: Compile(value),
}


def effects_of(settings: Mapping[str, Value], device_type: str) -> dict[str, Effect]:
    """Return the effect of each setting, in the order in which they are applied."""
    return {name: make(settings[name], device_type) for name, make in _EFFECTS.items() if name in settings}
