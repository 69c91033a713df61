"""A recipe sets those of a script's arguments that a person names, and no others."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from autoaccel.commands.use import RecipeUse, with_named_arguments
from autoaccel.errors import BadRequestError
from autoaccel.records.recipe import Recipe
from autoaccel.records.workload import Script
from autoaccel.space.knobs import arguments_with
from tests.report.samples import RECIPE

SCRIPT = Script("/train.py", "train.py", "/", "0" * 64, ("--epochs", "90", "--lr=3", "--slow"))
BASELINE = {"arg.batch-size": "64", "arg.amp": False, "arg.lr": "1", "arg.x": "0", "arg.slow": True}
BETTER = {"arg.batch-size": "128", "arg.amp": True, "arg.lr": "2", "arg.x": "0", "arg.slow": False}


def use_of(*, script: Script = SCRIPT) -> RecipeUse:
    baseline = msgspec.structs.replace(RECIPE.baseline, settings={**RECIPE.baseline.settings, **BASELINE})
    recipe = msgspec.structs.replace(RECIPE, settings={**RECIPE.settings, **BETTER}, baseline=baseline)
    return RecipeUse(recipe, Path("recipe.json"), script)


def arguments_of(recipe: Recipe) -> set[str]:
    return {name for name in (*recipe.settings, *recipe.baseline.settings) if name.startswith("arg.")}


def test_arguments_are_added_that_are_named_and_stay_as_they_are_given_if_not() -> None:
    told: list[str] = []
    found = with_named_arguments(use_of(), ["batch-size", "amp"], told.append).recipe
    assert arguments_of(found) == {"arg.batch-size", "arg.amp"}
    assert arguments_with(SCRIPT.arguments, found.settings) == (*SCRIPT.arguments, "--batch-size", "128", "--amp")
    assert arguments_with(SCRIPT.arguments, found.baseline.settings) == (*SCRIPT.arguments, "--batch-size", "64")
    assert told == ["--lr is as you give it; the recipe has 2.", "--slow is as you give it; the recipe has off."]


def test_one_that_is_named_and_given_is_set_where_it_stands() -> None:
    """As the number of ranks of a launcher, whose arguments precede those of its script."""
    found = with_named_arguments(use_of(), ["batch-size", "amp", "lr", "slow"], pytest.fail).recipe
    changed = ("--epochs", "90", "--lr=2", "--batch-size", "128", "--amp")
    assert arguments_with(SCRIPT.arguments, found.settings) == changed


def test_one_that_nobody_names_is_refused_with_what_to_type() -> None:
    with pytest.raises(BadRequestError, match=r"sets arguments of the script: batch-size=128 amp=on\. .* add --arg "):
        with_named_arguments(use_of(), ["lr"], list[str]().append)
    with pytest.raises(BadRequestError, match=r"add --arg batch-size; or give your own after --"):
        with_named_arguments(use_of(), ["amp"], list[str]().append)
    given = msgspec.structs.replace(SCRIPT, arguments=("--batch-size", "7", "--amp", "--lr", "1"))
    assert not arguments_of(with_named_arguments(use_of(script=given), [], list[str]().append).recipe)


def test_one_that_the_recipe_does_not_change_is_refused() -> None:
    for name in ("x", "epochs", "$(id)"):
        with pytest.raises(BadRequestError, match=r"does not set this argument. It sets: batch-size amp lr slow"):
            with_named_arguments(use_of(), [name], list[str]().append)
