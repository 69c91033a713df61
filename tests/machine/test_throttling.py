"""GPUs whose clocks are held down: NVML is played, with its constants."""

# ruff: noqa: N802, N815  (the names are NVML's)

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

import pytest

from autoaccel.machine import throttling
from autoaccel.machine.throttling import Looks, look_at_gpus, throttling_hints, watch_throttling

IDLE, POWER, HOT = 0x1, 0x4, 0x40


class NVMLError(Exception):
    pass


class Nvml:
    """A driver that tells for each GPU one reason after another, then the last for ever; None: it does not tell."""

    NVMLError = NVMLError
    nvmlClocksEventReasonGpuIdle = IDLE
    nvmlClocksEventReasonSwPowerCap = POWER
    nvmlClocksThrottleReasonHwThermalSlowdown = HOT  # as it was called before

    def __init__(self, *gpus: list[int | None]) -> None:
        self.gpus = gpus

    def nvmlInit(self) -> None:
        pass

    def nvmlShutdown(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> list[int | None]:
        return self.gpus[index]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: list[int | None]) -> int:
        told = handle.pop(0) if len(handle) > 1 else handle[0]
        if told is None:
            raise NVMLError
        return told


def hints_after(nvml: Any, looks: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    seen: Looks = Counter()
    for _ in range(looks):
        look_at_gpus(seen)
    return list(throttling_hints(seen))


def test_a_gpu_is_judged_by_when_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was looked at before anything ran and after everything had ended, where no clock is held down."""
    idle_at_both_ends = [IDLE, IDLE, POWER, POWER, 0, IDLE]
    hints = hints_after(Nvml(idle_at_both_ends, [0], [POWER | HOT], [None]), 6, monkeypatch)
    assert [hint.partition(":")[0] for hint in hints] == ["GPU 0 is slowed down", "GPU 2 is slowed down"]
    assert "power limit" in hints[0]
    assert "too hot" in hints[1]


def test_a_limit_that_is_reached_now_and_then_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hints_after(Nvml([POWER, 0, 0, 0, 0, 0]), 6, monkeypatch) == []


def test_gpus_are_watched_while_something_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "_LOOK_SECONDS", 0.001)
    nvml = Nvml([IDLE, HOT, HOT])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with watch_throttling() as hints:
        while len(nvml.gpus[0]) > 1:  # until it has told all that it has to tell
            time.sleep(0.001)
        assert hints == []
    assert len(hints) == 1 and "too hot" in hints[0]


def test_without_a_driver_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with watch_throttling() as hints:
        pass
    assert hints == []


def test_the_real_module_has_these_constants() -> None:
    pynvml = pytest.importorskip("pynvml")
    assert pynvml.nvmlClocksEventReasonGpuIdle == IDLE
    assert pynvml.nvmlClocksEventReasonSwPowerCap == POWER
    assert pynvml.nvmlClocksThrottleReasonHwThermalSlowdown == HOT
