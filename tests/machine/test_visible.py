"""CUDA_VISIBLE_DEVICES in all its forms, as NVIDIA's programming guide describes them."""

from __future__ import annotations

import pytest

from autoaccel.machine.visible import visible_gpus
from autoaccel.records.machine import Gpu

FAST, SLOW = "NVIDIA H100", "NVIDIA T4"
ALIKE = tuple(Gpu(FAST, 80 << 30, "580", uuid) for uuid in ("GPU-aa01", "GPU-aa02", "GPU-bb01"))
MIXED = (Gpu(SLOW, 16 << 30, "580", "GPU-aa01"), Gpu(FAST, 80 << 30, "580", "GPU-bb01"))
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2,0", (2, 0)),
        ("", ()),
        ("-1", ()),
        ("0,9,1", (0,)),  # nothing is shown from the first name on that names nothing
        ("GPU-bb01,GPU-aa02", (2, 1)),
        ("GPU-b", (2,)),
        ("GPU-a", ()),  # it could be two
        ("GPU-cc01,0", ()),
        ("MIG-5f0c,0", None),
    ],
)
def test_gpus_that_the_variable_hides_are_hidden(text: str, expected: tuple[int, ...] | None) -> None:
    """Only numbers were understood, and whatever was hidden counted as there."""
    assert visible_gpus(ALIKE, environment={"CUDA_VISIBLE_DEVICES": text}) == expected


def test_numbers_are_by_speed_unless_the_bus_was_asked_for() -> None:
    assert visible_gpus(MIXED, environment={"CUDA_VISIBLE_DEVICES": "0"}) is None
    assert visible_gpus(MIXED, environment={"CUDA_VISIBLE_DEVICES": "0", **BY_BUS}) == (0,)
    assert visible_gpus(MIXED, environment={}) is None
    assert visible_gpus(ALIKE, environment={}) == (0, 1, 2)


def test_what_cuda_itself_has_told_decides() -> None:
    told = ("GPU-bb01", "GPU-aa01")
    assert visible_gpus(MIXED, told, {"CUDA_VISIBLE_DEVICES": "0,1"}) == (1, 0)
    of_another_machine = ("GPU-ff01",)
    assert visible_gpus(MIXED, of_another_machine, BY_BUS) == (0, 1)
