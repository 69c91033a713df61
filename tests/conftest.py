"""What several rooms' tests need: a machine and a training that are only data."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from autoaccel.records.machine import Cpu, Machine, ProcessLimits, TorchFacts
from autoaccel.records.workload import TrainingFacts
from autoaccel.space.knobs import KnobContext
from tests.samples import FACTS
from tests.shared_servers import SharedServer

os.environ.setdefault("AUTOACCEL_SIDE_BY_SIDE", "1")  # several tests measure at once

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what runs in its background like that, and processes of ours would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def machine() -> Machine:
    """Four cores with hyper-threads off, a compiler, units for bfloat16 and float16."""
    return Machine(
        system="Linux",
        architecture="x86_64",
        python="3.11.7",
        cpu=Cpu("Test CPU", 1, 4, 4, (), (), ("avx2", "avx512_bf16", "amx_fp16")),
        limits=ProcessLimits(affinity=(0, 1, 2, 3), physical_cores=4),
        memory_bytes=16 << 30,
        gpus=(),
        compiler="/usr/bin/g++",
        openmp=(),
        allocators=(),
        torch=TorchFacts("2.13.0", 4, 4, "AVX512", "cpu", "CPU", ("bfloat16", "float16"), True),
    )


@pytest.fixture
def facts() -> TrainingFacts:
    """A small image classifier from a dataset in memory."""
    return FACTS


@pytest.fixture
def context(machine: Machine, facts: TrainingFacts) -> KnobContext:
    """The training on the machine."""
    return KnobContext(machine, facts)


@pytest.fixture
def vary() -> Callable[..., KnobContext]:
    """Return a context in which some facts of the machine or the training are others."""

    def varied(context: KnobContext, **changes: object) -> KnobContext:
        assert context.training is not None
        for_machine = {name: value for name, value in changes.items() if hasattr(context.machine, name)}
        for_training = {name: value for name, value in changes.items() if name not in for_machine}
        return KnobContext(
            msgspec.structs.replace(context.machine, **for_machine),
            msgspec.structs.replace(context.training, **for_training),
        )

    return varied


@pytest.fixture(scope="session")
def function_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """What forks the workers of functions, for tests that are not about how a worker comes to be."""
    server = SharedServer(tmp_path_factory.mktemp("functions") / "log", ("autoaccel.runtime.tasks",))
    yield server
    server.end()


@pytest.fixture(scope="session")
def script_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """What forks the workers of scripts that work in place, for tests of what is seen and measured of a script.

    Such a script finds torch imported, as one that a site's customization imports it for does, and runs on one thread.
    """
    log = tmp_path_factory.mktemp("scripts") / "log"
    server = SharedServer(log, ("tests.runtime.script.forked",), OMP_NUM_THREADS="1")
    yield server
    server.end()


@pytest.fixture
def process_restored() -> Iterator[None]:
    """Leave what torch has set and compiled as it was: a test's thread count rounds the sums of the next one."""
    import torch

    from autoaccel.runtime.knobs import effects_of, found_settings

    cpu, cudnn = torch.device("cpu"), torch.backends.cudnn
    before = found_settings(cpu)
    # Of convolutions alone, since torch 2.9: no knob can set that.
    precision = cudnn.conv.fp32_precision if hasattr(cudnn, "conv") else None
    yield
    if precision is not None:
        cudnn.conv.fp32_precision = precision
    for effect in effects_of(before, cpu).values():
        effect.process()
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters:
        with warnings.catch_warnings():  # torch's own, of what it imports to reset CUDA graphs
            warnings.simplefilter("ignore", DeprecationWarning)
            torch._dynamo.reset()
        dynamo.counters.clear()


TINY_MODEL = """\
import os
import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

import autoaccel

torch.manual_seed(0)
INPUTS = torch.randn(72, 8)
TARGETS = (INPUTS.sum(dim=1) > 0).long()


def build(**changes):
    data = TensorDataset(INPUTS, TARGETS)
    return autoaccel.Training(**{
        "model": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)),
        "train_data": data,
        "eval_data": data,
        "batch_size": 16,
        "epochs": 3,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
        "evaluate": "accuracy",
        # One thread: several that wait for one another take a hundred times as long on a busy machine.
        "settings": {"threads.intra_op": 1},
        **changes,
    })
"""
"""A training that takes milliseconds: 72 samples, 5 steps an epoch, the last of 8 samples."""


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a model.py: the tiny training, then this code."""

    def write(code: str = "", name: str = "model.py") -> Path:
        path = tmp_path / name
        path.write_text(TINY_MODEL + "\n\n" + textwrap.dedent(code))
        return path

    return write
