"""recipe.json: what it holds, its published schema, and what is refused."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from autoaccel.api import apply
from autoaccel.errors import BadRequestError
from autoaccel.records.accuracy import Accuracy, exact_numbers
from autoaccel.records.base import write_json, write_text
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Turn
from autoaccel.records.recipe import (
    SCHEMA,
    Baseline,
    Constraint,
    Contribution,
    Interaction,
    Projection,
    Recipe,
    SearchSummary,
    ValueResult,
    read_recipe,
    recipe_schema,
)
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import changed, describe_change, settings_key
from autoaccel.records.trial import Comparison, Measurement
from autoaccel.records.workload import BuildFunction, PickledFunction, Workload
from autoaccel.workers.this_process import this_process


@pytest.fixture
def recipe(machine: Machine) -> Recipe:
    """A recipe with every part filled."""
    return Recipe(
        schema=SCHEMA,
        created="2026-01-01T00:00:00+00:00",
        summary="1.50x faster",
        workload=BuildFunction("/model.py", "build", "0" * 64),
        machine=machine,
        settings={"precision.autocast": "bfloat16", "threads.intra_op": 2, "layout.channels_last": True},
        baseline=Baseline({"precision.autocast": "off"}, 0.03, 3.0, 0.1, 2000.0, 1 << 30),
        comparison=Comparison(1.5, 1.4, 1.6, "faster", 0.95, 6, 48),
        constraint=Constraint(0.01, True),
        accuracy=Accuracy("accuracy", "maximize", 0.98, 0.979, 0.001, 0.004, 3, 1.0, (0.98,) * 3, (0.979,) * 3),
        projection=Projection(1000, 3.0, 0.1, 0.02, 23.1, 33.1),
        search=SearchSummary(
            10,
            1,
            2,
            120.0,
            300.0,
            0,
            "cpu",
            "done",
            20,
            40.0,
            0.0,
            {"start-up": 20.0},
            importance={"precision.autocast": 1.0},
            values=(ValueResult("precision.autocast", "float16", 0, None, "out of budget"),),
        ),
        versions={"torch": "2.13.0"},
        contributions=(Contribution("precision.autocast", "bfloat16", 1.4, 1.3, 1.5, True),),
        interaction=Interaction(("layout.channels_last", "precision.autocast"), 1.1, 1.02, 1.2),
    )


def as_json(recipe: Recipe) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(recipe))
    return found


def test_the_published_schema_is_what_the_records_say() -> None:
    published = importlib.resources.files("autoaccel.records") / "recipe.schema.json"
    said = ordered(json.loads(published.read_text("utf-8")))
    assert said == ordered(json.loads(json.dumps(recipe_schema()))), "run: python tools/write_schema.py"


def ordered(schema: Any) -> Any:
    """Return a schema whose alternatives stand in one order, which differs between releases of msgspec."""
    if isinstance(schema, dict):
        parts = {name: ordered(part) for name, part in schema.items()}
        return {**parts, "anyOf": sorted(parts["anyOf"], key=json.dumps)} if "anyOf" in parts else parts
    return [ordered(part) for part in schema] if isinstance(schema, list) else schema


def test_a_recipe_fits_its_schema_and_comes_back_the_same(recipe: Recipe, tmp_path: Path) -> None:
    jsonschema.validate(as_json(recipe), recipe_schema())
    write_json(tmp_path / "recipe.json", recipe)
    assert read_recipe(tmp_path / "recipe.json") == recipe


def test_a_recipe_from_before_there_were_contributions_is_read(recipe: Recipe, tmp_path: Path) -> None:
    old = as_json(recipe)
    del old["contributions"], old["interaction"], old["search"]["importance"], old["search"]["values"]
    del old["search"]["stop"]
    jsonschema.validate(old, recipe_schema())
    (tmp_path / "recipe.json").write_text(json.dumps(old))
    found = read_recipe(tmp_path / "recipe.json")
    assert (
        found.contributions == ()
        and found.interaction is None
        and found.search.values == ()
        and found.search.stop is None
    )


@pytest.mark.parametrize(
    ("old", "workload"),
    [
        ({"entry": "build", "pickled": False}, BuildFunction("/f", "build", "ab")),
        ({"entry": "other", "arguments": ["--fast"]}, BuildFunction("/f", "other", "ab", ("--fast",))),
        ({"entry": "build", "arguments": [], "pickled": True}, PickledFunction("/f", "ab")),
    ],
)
def test_a_workload_from_before_it_had_a_type_is_read(
    old: dict[str, Any], workload: Workload, recipe: Recipe, tmp_path: Path
) -> None:
    stored = as_json(recipe) | {"workload": {"path": "/f", "sha256": "ab", **old}}
    jsonschema.validate(stored, recipe_schema())
    (tmp_path / "recipe.json").write_text(json.dumps(stored))
    found = read_recipe(tmp_path / "recipe.json")
    assert found.workload == workload
    write_json(tmp_path / "recipe.json", found)
    assert read_recipe(tmp_path / "recipe.json") == found == msgspec.structs.replace(recipe, workload=workload)


def test_a_recipe_that_an_earlier_version_wrote_fits_the_schema_and_is_read() -> None:
    """The schema asked for the type of a workload, which no recipe had that was written before there were types."""
    path = Path(__file__).with_name("recipe_without_workload_type.json")
    stored = json.loads(path.read_text("utf-8"))
    assert "type" not in stored["workload"]
    jsonschema.validate(stored, recipe_schema())
    assert read_recipe(path).workload == BuildFunction("/model.py", "build", "0" * 64)
    assert as_json(read_recipe(path)).keys() >= stored.keys()


def test_old_recipes_tell_their_evidence_by_the_share_that_was_trained(recipe: Recipe, tmp_path: Path) -> None:
    for share, evidence in ((1.0, "whole"), (0.2, "share")):
        old = as_json(recipe)
        del old["accuracy"]["evidence"]
        old["accuracy"]["share"] = share
        jsonschema.validate(old, recipe_schema())
        (tmp_path / "recipe.json").write_text(json.dumps(old))
        found = read_recipe(tmp_path / "recipe.json").accuracy
        assert found is not None and found.evidence == evidence


def test_a_recipe_holds_what_updates_have_shown(recipe: Recipe, tmp_path: Path) -> None:
    found = RoundingEvidence("holds", "", 64, 3, 8, error_share=0.001, worst_tensor="0.weight")
    accuracy = Accuracy("accuracy", "maximize", None, None, None, None, 0, 0.0, (), (), "rounding", rounding=found)
    judged = msgspec.structs.replace(recipe, accuracy=accuracy)
    jsonschema.validate(as_json(judged), recipe_schema())
    write_json(tmp_path / "recipe.json", judged)
    assert read_recipe(tmp_path / "recipe.json") == judged


def test_exact_settings_have_evidence_without_a_run(recipe: Recipe, tmp_path: Path) -> None:
    exact = msgspec.structs.replace(recipe, accuracy=exact_numbers("accuracy", "maximize"))
    jsonschema.validate(as_json(exact), recipe_schema())
    assert as_json(exact)["accuracy"].items() >= {
        "metric": "accuracy", "direction": "maximize", "baseline": None, "recipe": None, "drop": 0.0, "drop_high": 0.0,
        "repeats": 0, "share": 0.0, "baseline_runs": [], "recipe_runs": [], "evidence": "exact",
    }.items()  # fmt: skip
    write_json(tmp_path / "recipe.json", exact)
    assert read_recipe(tmp_path / "recipe.json") == exact


def test_the_schema_refuses_what_the_reader_refuses(recipe: Recipe) -> None:
    untyped = {"path": "/f", "entry": "build", "sha256": "ab"}
    for change in (
        {"colour": 1},
        {"schema": "autoaccel/recipe/0"},
        {"comparison": None},
        {"workload": {**untyped, "colour": 1}},
        {"workload": {**untyped, "type": "other"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(as_json(recipe) | change, recipe_schema())


def test_the_documented_keys_are_there(recipe: Recipe) -> None:
    found = as_json(recipe)
    assert found.keys() >= {
        "schema", "workload", "machine", "settings", "baseline", "comparison", "constraint", "accuracy", "projection",
        "search", "versions",
    }  # fmt: skip
    assert found["comparison"].keys() >= {"speedup", "low", "high", "verdict"}
    assert found["accuracy"].keys() >= {"metric", "baseline", "recipe", "drop", "drop_high", "repeats"}
    assert found["projection"].keys() >= {
        "planned_steps", "startup_seconds", "compile_seconds", "step_seconds", "total_seconds",
        "baseline_total_seconds",
    }  # fmt: skip
    assert found["search"].keys() >= {"trials", "failed", "infeasible", "spent_seconds"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "unknown field `colour`"),
        ({"schema": "autoaccel/recipe/9"}, "Invalid enum value"),
        ({"settings": {"threads.intra_op": [1]}}, "settings"),
        ({"comparison": {"speedup": "fast"}}, "comparison"),
    ],
)
def test_a_wrong_recipe_is_one_clear_error(
    recipe: Recipe, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(as_json(recipe) | change))
    with pytest.raises(BadRequestError) as error:
        read_recipe(path)
    assert "this is not a recipe" in str(error.value)
    assert message in str(error.value)


def test_a_missing_recipe_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="cannot be read"):
        read_recipe(tmp_path / "none.json")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "first")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_recipe_tells_machines_apart(machine: Machine) -> None:
    assert machine.difference_from(machine) is None
    torch = msgspec.structs.replace(machine.torch, version="2.11.0")
    other = msgspec.structs.replace(machine, torch=torch, gpus=())
    assert other.difference_from(machine) == "torch 2.11.0, here 2.13.0"
    newer = msgspec.structs.replace(machine, cpu=msgspec.structs.replace(machine.cpu, revision="26.2.1"))
    assert machine.difference_from(newer) == "CPU Test CPU, here Test CPU 26.2.1"


def test_a_torch_whose_build_is_not_told_may_be_the_recorded_one(machine: Machine) -> None:
    """Ranks refused the recipe of their own machine: a distribution's metadata leaves out which build it is."""

    def difference(recorded: str, present: str) -> str | None:
        there, here = (
            msgspec.structs.replace(machine, torch=msgspec.structs.replace(machine.torch, version=version))
            for version in (recorded, present)
        )
        return there.difference_from(here)

    assert difference("2.15.0+cu132", "2.15.0+cu132") is None
    assert difference("2.15.0+cu132", "2.15.0") is None
    assert difference("2.15.0", "2.15.0+cpu") is None
    assert difference("2.15.0+cu132", "2.15.1") == "torch 2.15.0+cu132, here 2.15.1"
    said = "torch 2.15.0+cu132, here 2.15.0+cpu (another build of the same version)"
    assert difference("2.15.0+cu132", "2.15.0+cpu") == said


def test_settings_are_told_by_what_differs() -> None:
    baseline = {"layout.channels_last": False, "loader.workers": 0, "precision.autocast": "off"}
    other = {**baseline, "layout.channels_last": True, "loader.workers": 2}
    assert changed(other, baseline) == {"layout.channels_last": True, "loader.workers": 2}
    assert describe_change(other, baseline) == "layout.channels_last=on, loader.workers=2"
    assert describe_change(baseline, baseline) == "your own settings"
    # 0 and False are equal in Python, but they are not the same value of a knob.
    assert changed({"loader.workers": False}, {"loader.workers": 0}) == {"loader.workers": False}
    assert settings_key({"a": 0}) != settings_key({"a": False})


def test_slower_first_steps_count_as_compilation() -> None:
    measurement = Measurement(3.0, (2.0, 0.5, 0.1, 0.1), (Turn((0.1, 0.1)), Turn((0.1, 0.1, 9.0))))
    assert measurement.compile_seconds == pytest.approx(1.9 + 0.4)


@pytest.mark.parametrize(
    ("device", "environment", "found"),
    [
        ("cuda:1", {}, "cuda:1"),
        ("cpu", {}, "cpu"),
        ("", {}, "cuda"),  # of an older recipe: its machine's accelerator
        (
            "cuda:1",
            {
                "RANK": "1",
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "1",
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
            },
            "cuda",
        ),
    ],
)
def test_a_recipe_is_applied_on_the_device_that_it_was_measured_on(
    recipe: Recipe, device: str, environment: dict[str, str], found: str
) -> None:
    """It was the CPU unless the caller said otherwise, so that batches stayed there and autocast was one of the CPU."""
    torch_facts = msgspec.structs.replace(recipe.machine.torch, device="cuda")
    machine = msgspec.structs.replace(recipe.machine, torch=torch_facts)
    measured = msgspec.structs.replace(recipe, machine=machine, device=device)
    assert this_process(environment).device(measured) == found


def test_apply_takes_the_recipes_device_unless_it_is_told_another(recipe: Recipe) -> None:
    measured = msgspec.structs.replace(recipe, settings={}, device="meta")
    assert (apply(measured).device.type, apply(measured, "cpu").device.type) == ("meta", "cpu")
