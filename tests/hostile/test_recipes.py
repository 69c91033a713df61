"""Recipes that a stranger has made: every value within the domain of its knob, every number within its bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.doors import give, give_alone, refused
from tests.hostile.samples import MODEL, SCRIPT, as_json, recipe, write

DOORS = {
    "show": ["show", "recipe.json"],
    "explain": ["explain", "recipe.json", "train.py"],
    "run": ["run", "recipe.json", "model.py"],
    "run a script": ["run", "recipe.json", "train.py"],
    "verify": ["verify", "recipe.json", "model.py"],
    "launch": ["launch", "--dry-run", "recipe.json", "model.py"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


VALUES: list[tuple[str, Any]] = [
    ("threads.intra_op", 0),
    ("threads.intra_op", -1),
    ("threads.intra_op", 100_000),
    ("threads.intra_op", "two"),
    ("threads.intra_op", 1.5),
    ("threads.intra_op", True),
    ("threads.inter_op", 0),
    ("threads.inter_op", 5000),
    ("loader.workers", -3),
    ("loader.workers", 5000),
    ("loader.workers", "4"),
    ("loader.prefetch", 0),
    ("loader.prefetch", 10**9),
    ("loader.context", "exec"),
    ("loader.context", ["fork"]),
    ("threads.affinity", "0-999999999999"),
    ("threads.affinity", "0-8191," * 5000),
    ("threads.affinity", "9" * 5000),
    ("threads.affinity", "999"),
    ("threads.affinity", "0--1"),
    ("threads.affinity", "\u0663"),
    ("threads.affinity", ""),
    ("threads.affinity", "0\x1b[2J"),
    ("threads.loader_cores", 10**6),
    ("threads.omp_schedule", "static\nLD_PRELOAD=/tmp/x.so"),
    ("threads.kmp_affinity", "$(touch /tmp/x)"),
    ("threads.gomp_affinity", 1),
    ("memory.allocator", "/tmp/x.so"),
    ("memory.allocator", "jemalloc\x00"),
    ("threads.openmp", "../x"),
    ("compile.mode", "max"),
    ("compile.backend", "os.system"),
    ("precision.autocast", "float64"),
    ("precision.float32_matmul", "lowest"),
    ("optimizer.accumulation", 0),
    ("optimizer.accumulation", 1 << 40),
    ("optimizer.batch_factor", 1e300),
    ("optimizer.batch_factor", -1.0),
    ("optimizer.batch_factor", float("nan")),
    ("optimizer.batch_factor", float("inf")),
    ("model.sparsity", 2.0),
    ("model.pruning_warmup", -1),
    ("parallel.world_size", -1),
    ("parallel.world_size", 0),
    ("parallel.world_size", "abc"),
    ("parallel.world_size", 5000),
    ("parallel.bucket_mb", 1 << 50),
    ("parallel.backend", "mpi"),
    ("parallel.nccl_channels", "-1"),
    ("no.such_knob", 1),
    ("threads.intra_op", int("1" * 400)),
    ("threads.intra_op", None),
    ("threads.intra_op", {"value": 2}),
    ("x" * 10_000, 1),
]


@pytest.mark.parametrize(
    ("name", "value"), VALUES, ids=[f"{name[:30]}-{index}" for index, (name, _) in enumerate(VALUES)]
)
def test_a_value_that_its_knob_cannot_have_is_refused_at_every_door(folder: Path, name: str, value: Any) -> None:
    found = as_json(recipe())
    found["settings"][name] = value
    write(folder / "recipe.json", found)
    for door in ("show", "run", "launch"):
        refused(give(DOORS[door], folder), "recipe.json")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "value"), [("threads.affinity", "0-999999999999"), ("loader.workers", 5000)])
def test_all_doors_refuse_with_the_same_sentence(folder: Path, name: str, value: Any, door: str) -> None:
    found = as_json(recipe(of_script="train.py" in DOORS[door]))
    found["settings"][name] = value
    write(folder / "recipe.json", found)
    assert f"autoaccel: recipe.json: {name} must be" in refused(give(DOORS[door], folder))


@pytest.mark.parametrize("name", ["threads.intra_op", "loader.workers", "threads.inter_op", "loader.prefetch"])
def test_what_a_file_says_of_the_users_own_code_is_bounded_too(folder: Path, name: str) -> None:
    found = as_json(recipe())
    found["settings"][name] = found["baseline"]["settings"][name] = 100_000
    write(folder / "recipe.json", found)
    refused(give(DOORS["run"], folder), f"{name} must be a whole number from")


def test_what_another_machine_has_and_this_one_lacks_is_told_in_a_sentence(folder: Path) -> None:
    found = as_json(recipe())
    cpus = list(range(4096))
    found["machine"]["limits"] |= {"affinity": cpus, "physical_cores": 4096, "cores": []}
    found["machine"]["cpu"] |= {"logical_cores": 4096, "physical_cores": 4096}
    found["settings"]["threads.intra_op"] = 4000
    write(folder / "recipe.json", found)
    assert give(DOORS["show"], folder).code == 0
    refused(give([*DOORS["run"], "--accept-other-machine"], folder), "from 1 to", "got 4000", "Tune on this machine.")


def test_a_recipe_that_is_in_order_is_shown_and_launched(folder: Path) -> None:
    found = as_json(recipe())
    found["baseline"]["settings"] |= {"loader.workers": 16, "threads.intra_op": 64, "knob.of_earlier_days": "x"}
    found["settings"] = found["baseline"]["settings"] | {"layout.channels_last": True, "arg.name": "any $(text)"}
    write(folder / "recipe.json", found)
    assert give(DOORS["show"], folder).code == 0
    assert give(DOORS["launch"], folder).code == 0


NUMBERS: list[tuple[str, Any]] = [
    ("baseline.step_seconds", 0.0),
    ("baseline.step_seconds", -1.0),
    ("baseline.step_seconds", 1e308),
    ("baseline.step_seconds", float("nan")),
    ("baseline.step_seconds", int("1" * 400)),
    ("baseline.startup_seconds", float("inf")),
    ("baseline.peak_bytes", -1),
    ("baseline.peak_bytes", int("1" * 400)),
    ("comparison.speedup", 0.0),
    ("comparison.speedup", -2.0),
    ("comparison.low", 1e308),
    ("comparison.confidence", 7.0),
    ("projection.planned_steps", -1),
    ("projection.step_seconds", 0),
    ("projection.total_seconds", 1e308),
    ("projection.total_seconds", 0),
    ("projection.baseline_total_seconds", 0),
    ("search.spent_seconds", 1e308),
    ("search.spent_on", {"a": 1e308}),
    ("search.seed", int("1" * 400)),
    ("constraint.max_drop", -1.0),
    ("machine.limits.affinity", [1 << 40]),
    ("machine.cpu.logical_cores", 1 << 40),
    ("machine.memory_bytes", -1),
    ("machine.torch.intra_op_threads", 100_000),
    ("summary", "x" * (50 << 20)),
    ("summary", "x" * 5000),
    ("summary", None),
    ("settings", {f"arg.{number}": 1 for number in range(100_000)}),
    ("settings", {f"arg.{number}": 1 for number in range(2000)}),
    ("settings", {"arg.x": "y" * 100_000}),
    ("settings", []),
    ("machine", {}),
    ("schema", "autoaccel/recipe/9"),
    ("something", "else"),
]


@pytest.mark.parametrize(
    ("place", "value"), NUMBERS, ids=[f"{place}-{index}" for index, (place, _) in enumerate(NUMBERS)]
)
def test_a_number_that_nothing_could_have_is_refused_before_anything_starts(
    folder: Path, place: str, value: Any
) -> None:
    *path, last = place.split(".")
    found = as_json(recipe())
    inside = found
    for part in path:
        inside = inside[part]
    inside[last] = value
    write(folder / "recipe.json", found)
    refused(give(DOORS["verify"], folder), "recipe.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["settings"].update({"threads.affinity": "0-999999999999"}),
        lambda found: found["settings"].update({"loader.workers": 5000}),
        lambda found: found["baseline"].update({"step_seconds": 0}),
        lambda found: found.update({"summary": "x" * (50 << 20)}),
    ],
)
def test_as_a_user_runs_it(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    found = as_json(recipe())
    change(found)
    write(folder / "recipe.json", found)
    refused(give_alone(DOORS["verify"], folder), "recipe.json")
