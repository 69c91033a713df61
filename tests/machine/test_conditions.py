"""How the clock is set, and what a computer does besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.machine.conditions import Watch
from autoaccel.machine.quiet import Load


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / "sys/devices/system/cpu" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_the_clock_is_that_of_the_fastest_core(tmp_path: Path) -> None:
    write(
        tmp_path,
        cpu0__cpufreq__scaling_governor="powersave",
        cpu0__cpufreq__scaling_driver="acpi-cpufreq",
        cpu0__cpufreq__cpuinfo_max_freq="4000000",
        cpu0__cpufreq__scaling_cur_freq="1000000",
        cpu1__cpufreq__cpuinfo_max_freq="4000000",
        cpu1__cpufreq__scaling_cur_freq="2000000",
        cpufreq__boost="0",
    )
    found = Watch.begin(Load(busy=0.3, stolen=0.1)).conditions(tmp_path)
    assert (found.governor, found.clock_driver) == ("powersave", "acpi-cpufreq")
    assert found.clock_share == pytest.approx(0.5)
    assert found.turbo is False
    assert (found.busy_share, found.stolen_share) == (0.3, 0.1)
    assert found.available_bytes > 0


def test_where_the_kernel_does_not_tell_nothing_is_known(tmp_path: Path) -> None:
    found = Watch.begin(Load(0.0, 0.0)).conditions(tmp_path)
    assert (found.governor, found.clock_driver, found.clock_share, found.turbo) == (None, None, None, None)


@pytest.mark.parametrize(("no_turbo", "turbo"), [("0", True), ("1", False)])
def test_intels_driver_tells_of_turbo_the_other_way_round(tmp_path: Path, no_turbo: str, turbo: bool) -> None:
    write(tmp_path, intel_pstate__no_turbo=no_turbo)
    assert Watch.begin(Load(0.0, 0.0)).conditions(tmp_path).turbo is turbo
