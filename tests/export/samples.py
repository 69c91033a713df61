"""Recipes and jobs that are only data."""

from __future__ import annotations

import msgspec

from autoaccel.records.launch import Job
from autoaccel.records.machine import Cpu, Gpu, Machine, ProcessLimits
from autoaccel.records.recipe import SCHEMA, Baseline, Constraint, Projection, Recipe, SearchSummary
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import BuildFunction

SERVER = Machine(
    system="Linux",
    architecture="x86_64",
    python="3.11.7",
    cpu=Cpu("Test CPU", 1, 4, 8, (), (), ()),
    limits=ProcessLimits(affinity=tuple(range(8)), physical_cores=4),
    memory_bytes=16 << 30,
    gpus=(),
    compiler=None,
    openmp=(),
    allocators=(),
)
"""Eight logical CPUs on four cores."""


def make_recipe(machine: Machine, settings: Settings) -> Recipe:
    """Return a recipe that claims nothing."""
    return Recipe(
        schema=SCHEMA,
        created="2026-01-01T00:00:00+00:00",
        summary="your own settings",
        workload=BuildFunction("/model.py", "build", "0" * 64),
        machine=machine,
        settings=settings,
        baseline=Baseline(settings, 0.03, 3.0, 0.1, 2000.0, 1 << 30),
        comparison=Comparison(1.0, 1.0, 1.0, "within noise", 0.95, 0, 0),
        constraint=Constraint(0.01, True),
        accuracy=None,
        projection=Projection(1000, 3.0, 0.1, 0.02, 23.1, 33.1),
        search=SearchSummary(0, 0, 0, 1.0, 300.0, 0, "cpu", "done", 20, None, 0.0, {}),
        versions={"torch": "2.13.0"},
    )


def make_server_recipe(gpus: int = 0) -> Recipe:
    """Return a recipe of the server for two ranks of three threads each; with so many GPUs in the server."""
    server = msgspec.structs.replace(SERVER, gpus=(Gpu("A", 1, "1"),) * gpus)
    return make_recipe(server, {"threads.intra_op": 6, "parallel.world_size": 2})


JOB = Job(
    target="local",
    name="model",
    folder="/home/me",
    python="/venv/bin/python",
    arguments=("run", "/runs/recipe.json", "/home/me/model.py", "--", "--lr", "0.1 0.2"),
    nodes=1,
    ranks=2,
)


def make_job(target: str, **changes: object) -> Job:
    """Return a job of two ranks on one machine, with some fields changed."""
    return msgspec.structs.replace(JOB, target=target, **changes)
