from __future__ import annotations

import pytest

from autoaccel.machine.cpu import read_cpu
from autoaccel.machine.topology import read_logical_cpus


def cpu_of(computer):
    return read_cpu(computer.root, read_logical_cpus(computer.root))


def test_a_computer_with_two_sockets(computer):
    computer.xeon()
    cpu = cpu_of(computer)
    assert cpu.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cores) == (2, 4, 8)
    assert [node.node for node in cpu.numa_nodes] == [0, 1]
    assert [cache.count for cache in cpu.caches] == [4, 4, 4, 2]
    assert cpu.features == ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_int8")


def test_only_whole_names_of_features_count(computer):
    computer.cpuinfo({"processor": 0, "flags": "avx avx512_vnni2 xavx2"})
    assert cpu_of(computer).features == ()


@pytest.mark.parametrize(("flags", "virtual"), [("fpu avx2 hypervisor", True), ("fpu avx2", False)])
def test_a_virtual_machine_says_so(computer, flags, virtual):
    computer.cpuinfo({"processor": 0, "flags": flags})
    assert cpu_of(computer).is_virtual is virtual


def test_generations_of_one_name_are_told_apart(computer):
    block = {"model name": "AMD EPYC", "cpu family": "26", "model": "2", "stepping": "1", "flags": "avx2"}
    computer.cpuinfo({"processor": 0, **block})
    assert cpu_of(computer).revision == "26.2.1"
    computer.cpuinfo({"processor": 0, "model name": "AMD EPYC", "flags": "avx2"})
    assert cpu_of(computer).revision == ""


def test_an_arm_server(computer):
    computer.topology(sockets=1, cores=2, threads=1)
    block = {
        "BogoMIPS": "2100.00",
        "Features": "fp asimd crc32 atomics asimdhp sve asimdfhm i8mm bf16 svebf16",
        "CPU implementer": "0x41",
        "CPU part": "0xd40",
    }
    computer.cpuinfo(*({"processor": number, **block} for number in range(2)))
    cpu = cpu_of(computer)
    assert cpu.model == "Neoverse-V1"
    assert cpu.features == ("neon", "sve", "bf16")
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cores) == (1, 2, 2)


def test_an_arm_processor_without_bf16_does_not_claim_it(computer):
    computer.cpuinfo({"processor": 0, "Features": "fp asimd crc32 svebf16", "CPU part": "0xd08"})
    assert cpu_of(computer).features == ("neon",)


def test_two_kinds_of_core_are_both_named(computer):
    parts = ["0xd0b", "0xd0b", "0x999"]
    computer.cpuinfo(
        *({"processor": n, "CPU implementer": "0x41", "CPU part": part} for n, part in enumerate(parts)),
    )
    assert cpu_of(computer).model == "Cortex-A76 + ARM implementer 0x41 part 0x999"


def test_a_power_computer_names_its_model_elsewhere(computer):
    computer.cpuinfo({"processor": 0, "cpu": "POWER9, altivec supported"})
    assert cpu_of(computer).model == "POWER9, altivec supported"


@pytest.mark.parametrize(("architecture", "features"), [("arm64", ("neon",)), ("x86_64", ())])
def test_without_any_file_the_architecture_is_the_name(computer, monkeypatch, architecture, features):
    monkeypatch.setattr("platform.machine", lambda: architecture)
    cpu = cpu_of(computer)
    assert cpu.model == architecture
    assert cpu.features == features
    assert cpu.logical_cores >= cpu.physical_cores >= 1
