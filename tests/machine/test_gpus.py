"""NVML itself is played by a stand-in: most computers that run the tests have no GPU."""

# ruff: noqa: N802, N818  (the names are NVML's)

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from autoaccel.machine.gpus import fills_a_gpu, read_gpu_use, read_gpus
from autoaccel.records.machine import Gpu

GIB = 1024**3


class NVMLError(Exception):
    pass


class NVMLErrorNotSupported(NVMLError):
    pass


class FakeNvml:
    """A driver with these GPUs, by name and memory; an exception in place of either is raised."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NVMLErrorNotSupported

    def __init__(self, *gpus, start=None, driver="570.86.15"):
        self.gpus = gpus
        self.start = start
        self.driver = driver
        self.open = 0

    def nvmlInit(self):
        if self.start is not None:
            raise self.start
        self.open += 1

    def nvmlShutdown(self):
        assert self.open, "NVML was shut down before it was started"
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):
        return answer(self.driver)

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle):
        return answer(handle[0])

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=answer(handle[1]), free=1, used=2)

    def nvmlDeviceGetUUID(self, handle):
        return answer(handle[2] if len(handle) > 2 else NVMLErrorNotSupported("not supported"))


def answer(value):
    if isinstance(value, Exception):
        raise value
    return value


@pytest.fixture
def play(monkeypatch):
    def install(nvml):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return nvml

    return install


def test_gpus_are_told_in_order_and_nvml_is_shut_down(play):
    nvml = play(FakeNvml(("NVIDIA H200", 141 * GIB, "GPU-5f0c"), ("NVIDIA A10", 24 * GIB)))
    assert read_gpus() == (
        Gpu("NVIDIA H200", 141 * GIB, "570.86.15", "GPU-5f0c"),
        Gpu("NVIDIA A10", 24 * GIB, "570.86.15"),
    )
    assert nvml.open == 0


def test_without_the_module_there_is_no_gpu(play):
    play(None)
    assert read_gpus() == ()


def test_without_a_driver_there_is_no_gpu(play):
    play(FakeNvml(("NVIDIA A10", 24 * GIB), start=NVMLError("library not found")))
    assert read_gpus() == ()


def test_a_driver_that_fails_later_is_shut_down_too(play):
    nvml = play(FakeNvml(("NVIDIA A10", 24 * GIB), driver=NVMLError("unknown")))
    assert read_gpus() == ()
    assert nvml.open == 0


def test_a_lost_gpu_does_not_hide_the_others(play):
    nvml = play(FakeNvml((NVMLError("GPU is lost"), 0), ("NVIDIA A10", 24 * GIB)))
    assert read_gpus() == (Gpu("NVIDIA A10", 24 * GIB, "570.86.15"),)
    assert nvml.open == 0


def test_a_gpu_that_shares_the_computers_memory_has_none_of_its_own(play):
    play(FakeNvml(("NVIDIA GB10", NVMLErrorNotSupported("not supported"))))
    assert read_gpus() == (Gpu("NVIDIA GB10", 0, "570.86.15"),)


def test_the_real_module_has_what_is_used_and_answers_here():
    pynvml = pytest.importorskip("pynvml")
    for name in vars(FakeNvml):
        if name.startswith(("nvml", "NVML")):
            assert hasattr(pynvml, name), name
    assert all(gpu.name and gpu.driver for gpu in read_gpus())


class UsedNvml(FakeNvml):
    """A driver whose GPUs are handles of (UUID, used, total, compute mode)."""

    NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(used=handle[1], total=answer(handle[2]))

    def nvmlDeviceGetUUID(self, handle):
        return handle[0]

    def nvmlDeviceGetComputeMode(self, handle):
        return handle[3]


@pytest.mark.parametrize(
    ("used", "mode", "fills"),
    [(30 * GIB, 0, False), (45 * GIB, 0, True), (10 * GIB, 3, True), (GIB, 3, False)],
)
def test_whether_a_second_process_fits_is_told_by_memory_and_compute_mode(monkeypatch, used, mode, fills):
    """A model that fills more than half of a GPU fits once."""
    monkeypatch.setitem(sys.modules, "pynvml", UsedNvml(("GPU-1", GIB, 80 * GIB, mode)))
    before = read_gpu_use()
    lost = ("GPU-2", 0, NVMLErrorNotSupported("not supported"), 0)
    monkeypatch.setitem(sys.modules, "pynvml", UsedNvml(("GPU-1", used, 80 * GIB, mode), lost))
    assert fills_a_gpu(before, read_gpu_use()) is fills


def test_the_real_module_tells_who_uses_a_gpu():
    pynvml = pytest.importorskip("pynvml")
    assert pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS == UsedNvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    assert pynvml.nvmlDeviceGetUUID and pynvml.nvmlDeviceGetComputeMode
