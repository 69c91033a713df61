from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import autoaccel
from autoaccel.machine.detect import detect_machine
from autoaccel.records.base import decode, encode
from autoaccel.records.machine import Machine

GIB = 1024**3


def test_a_recorded_computer(computer):
    computer.xeon()
    computer.cgroups("0::/", "40 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    computer.write("/sys/fs/cgroup/cpu.max", "150000 100000")
    computer.write("/sys/fs/cgroup/memory.max", str(4 * GIB))
    machine = detect_machine(computer.root)
    assert machine.cpu.physical_cores == 4
    assert machine.limits.physical_cores == 4
    assert machine.memory_bytes == 527988736 * 1024
    assert machine.limits.memory_bytes == 4 * GIB
    assert machine.usable_cores == 2
    assert machine.torch is None
    assert decode(encode(machine), Machine) == machine


def test_a_computer_that_shows_nothing_is_still_a_computer(computer):
    machine = detect_machine(computer.root)
    assert machine.cpu.logical_cores == psutil.cpu_count()
    assert machine.memory_bytes == psutil.virtual_memory().total
    assert machine.usable_cores >= 1


def test_openmp_and_allocators_are_not_mixed_up(computer, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", str(computer.root / "environment"))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    for file in ("libgomp.so.1", "libjemalloc.so.2"):
        (computer.root / "usr/lib").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sys.executable, computer.root / "usr/lib" / file)
    machine = detect_machine(computer.root)
    assert [library.name for library in machine.openmp] == ["libgomp"]
    assert [library.name for library in machine.allocators] == ["jemalloc"]


def test_this_computer():
    machine = detect_machine()
    assert machine.system == platform.system()
    assert machine.python.startswith(".".join(map(str, sys.version_info[:3])))
    assert machine.memory_bytes == psutil.virtual_memory().total
    assert machine.cpu.logical_cores == psutil.cpu_count()
    assert 1 <= machine.usable_cores <= machine.cpu.logical_cores
    assert machine.limits.physical_cores <= machine.cpu.physical_cores
    for library in machine.openmp + machine.allocators:
        assert Path(library.path).is_file()


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu is not installed")
def test_this_computer_is_the_one_that_lscpu_sees():
    output = subprocess.run(
        ["lscpu", "-J"], capture_output=True, check=True, text=True, env={**os.environ, "LC_ALL": "C"}
    ).stdout
    facts: dict[str, str] = {}

    def collect(rows):
        # Newer versions nest what older ones list.
        for row in rows:
            facts[row["field"].rstrip(":")] = row["data"]
            collect(row.get("children", []))

    collect(json.loads(output)["lscpu"])
    cpu = detect_machine().cpu
    assert cpu.logical_cores == len(cpu_numbers(facts["On-line CPU(s) list"]))
    if "Model name" in facts and platform.machine() == "x86_64":
        assert cpu.model == " ".join(facts["Model name"].split())
    if "Socket(s)" in facts and facts["Socket(s)"].isdecimal():
        assert cpu.sockets == int(facts["Socket(s)"])
        assert cpu.physical_cores == int(facts["Socket(s)"]) * int(facts["Core(s) per socket"])
    for name, level, kind in [
        ("L1d", 1, "data"),
        ("L1i", 1, "instruction"),
        ("L2", 2, "unified"),
        ("L3", 3, "unified"),
    ]:
        # "2 MiB (2 instances)": all of them together, rounded.
        told = facts.get(f"{name} cache", "").split()
        if len(told) >= 4 and told[1] in ("KiB", "MiB"):
            ours = [cache for cache in cpu.caches if (cache.level, cache.kind) == (level, kind)]
            assert sum(cache.count for cache in ours) == int(told[2].lstrip("("))
            told_bytes = float(told[0]) * {"KiB": 1024, "MiB": 1024**2}[told[1]]
            assert math.isclose(sum(cache.count * cache.size_bytes for cache in ours), told_bytes, rel_tol=0.05)


def cpu_numbers(text: str) -> set[int]:
    ends = [part.split("-") for part in text.split(",")]
    return {number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)}


def test_it_starts_no_process_and_loads_nothing_heavy():
    code = """
import sys
def refuse(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"):
        print("started:", event, arguments)
sys.addaudithook(refuse)
from autoaccel.machine.detect import detect_machine
detect_machine()
print("loaded:", sorted({"torch", "numpy", "optuna"} & set(sys.modules)))
"""
    folder = Path(autoaccel.__file__).parents[1]
    child = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=True, text=True)
    assert child.stdout == "loaded: []\n"
