"""Hints about what makes timings unsteady."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import msgspec
import pytest

from autoaccel.machine.quiet import Load, read_load
from autoaccel.records.machine import Machine, ProcessLimits

from .conftest import Computer

CALM = Load(busy=0.01, stolen=0.0)


def test_a_calm_computer_gets_no_hint(machine: Machine, computer: Computer) -> None:
    assert CALM.hints(machine, computer.root) == []


def test_other_programs_and_other_guests_are_told_apart(machine: Machine, computer: Computer) -> None:
    (busy,) = Load(0.5, 0.0).hints(machine, computer.root)
    assert "keep 2.0 of 4 cores busy" in busy
    (stolen,) = Load(0.0, 0.12).hints(machine, computer.root)
    assert "12%" in stolen and "host" in stolen


def test_a_quota_below_the_cores_is_told_with_what_to_type(machine: Machine, computer: Computer) -> None:
    limited = msgspec.structs.replace(
        machine, limits=ProcessLimits(affinity=(0, 1, 2, 3), physical_cores=4, cpu_quota=2.5, cgroup_version=2)
    )
    (hint,) = CALM.hints(limited, computer.root)
    assert "sees 4 cores but has a CPU quota of 2.5" in hint
    assert "--cpuset-cpus 0-1" in hint


@pytest.mark.parametrize(
    ("governor", "driver", "told"),
    [
        ("performance", "acpi-cpufreq", False),
        ("schedutil", "acpi-cpufreq", True),
        ("powersave", "intel_cpufreq", True),
        ("powersave", "intel_pstate", False),
        ("powersave", "amd-pstate-epp", False),
    ],
)
def test_a_clock_that_follows_the_load_is_told(
    machine: Machine, computer: Computer, governor: str, driver: str, told: bool
) -> None:
    computer.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor)
    computer.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", driver)
    hints = CALM.hints(machine, computer.root)
    assert bool(hints) == told
    assert all("cpupower frequency-set" in hint for hint in hints)


def test_the_load_is_the_share_of_all_cores_that_others_use() -> None:
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.3)
        load = read_load(0.3)
    finally:
        hog.kill()
        hog.wait()
    assert 0.7 / (os.cpu_count() or 1) <= load.busy <= 1
    assert 0 <= load.stolen <= 1
