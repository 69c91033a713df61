"""Whether GPUs lower their clocks while they work; an idle GPU does so anyway."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autoaccel.machine.gpus import ask_driver

_THROTTLING = {
    "HwThermalSlowdown": "it is too hot: improve its cooling",
    "SwThermalSlowdown": "it is too hot: improve its cooling",
    "HwPowerBrakeSlowdown": "its power supply limits it",
    "SwPowerCap": "it is at its power limit: nvidia-smi --power-limit shows and sets the limit",
}
"""Part of NVML's name of a reason for lower clocks -> what it means and what to do."""

_LOOK_SECONDS = 0.25  # between two looks
_HELD_SHARE = 0.25  # of the looks at a GPU that worked; a step of a second may reach a limit now and then

Looks = Counter[tuple[int, str]]
"""How often a GPU worked ("") and how often something held it down meanwhile (its name), by its number."""


@contextmanager
def watch_throttling() -> Iterator[list[str]]:
    """Watch the GPUs until the end of the block; the list then has a sentence for each that was slowed down."""
    hints: list[str] = []
    ended = threading.Event()
    looks: Looks = Counter()

    def watch() -> None:
        while look_at_gpus(looks) and not ended.wait(_LOOK_SECONDS):
            pass

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield hints
    finally:
        ended.set()
        watching.join()
        hints.extend(throttling_hints(looks))


def look_at_gpus(looks: Looks) -> bool:
    """Note which GPUs work now and what slows them down; return False if there is no GPU to look at."""

    def look(pynvml: Any) -> bool:
        count = pynvml.nvmlDeviceGetCount()
        for index in range(count):
            _look_at(pynvml, index, looks)
        return bool(count)

    return ask_driver(look, otherwise=False)


def _look_at(pynvml: Any, index: int, looks: Looks) -> None:
    try:
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(pynvml.nvmlDeviceGetHandleByIndex(index)))
    except pynvml.NVMLError:
        return  # not every GPU tells, nor every user may ask
    if _is_among(pynvml, reasons, "GpuIdle"):
        return
    looks[index, ""] += 1
    for name in _THROTTLING:
        if _is_among(pynvml, reasons, name):
            looks[index, name] += 1
            return


def _is_among(pynvml: Any, reasons: int, name: str) -> bool:
    # The constants were renamed from "throttle" to "event" reasons; a driver's library may know only one.
    return any(
        reasons & int(getattr(pynvml, prefix + name, 0))
        for prefix in ("nvmlClocksEventReason", "nvmlClocksThrottleReason")
    )


def throttling_hints(looks: Looks) -> Sequence[str]:
    """Return one sentence for each GPU that was slowed down while it worked, with what to do."""
    found = []
    for index in sorted({index for index, _ in looks}):
        name = max(_THROTTLING, key=lambda reason, index=index: looks[index, reason])  # type: ignore[misc]  # bound early
        if looks[index, name] > 0 and looks[index, name] >= _HELD_SHARE * looks[index, ""]:
            found.append(f"GPU {index} is slowed down: {_THROTTLING[name]}")
    return found
