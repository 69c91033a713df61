"""A recipe sets those of a script's arguments that a person names; what is for one kind of training is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from autoaccel.cli import _parse
from autoaccel.cli.common import workload_of
from autoaccel.cli.run import _check_options
from autoaccel.commands.explaining import explain
from autoaccel.commands.scripts import become_script
from autoaccel.commands.use import RecipeUse, as_said_of_place, with_named_arguments
from autoaccel.errors import BadRequestError
from autoaccel.records.recipe import Recipe
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.workload import BuildFunction, Script
from autoaccel.space.knobs import arguments_with
from tests.report.samples import RECIPE

SCRIPT = Script("/train.py", "train.py", "/", "0" * 64, ("--epochs", "90", "--lr=3", "--slow"))
FUNCTION = BuildFunction("/model.py", "build", "0" * 64)
SEEN = ScriptFacts((), (), (), (0,), "cpu", 0.5, 10, steps_per_epoch=16, planned_steps=None)
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


def test_a_function_has_no_arguments_that_a_recipe_sets() -> None:
    use = use_of()._replace(workload=FUNCTION)
    with pytest.raises(BadRequestError, match=r"--arg: for a script only; build.* has no arguments"):
        with_named_arguments(use, ["lr"], pytest.fail)
    assert not arguments_of(with_named_arguments(use, [], pytest.fail).recipe)


def test_what_is_for_scripts_is_refused_where_the_recipe_or_the_training_is_of_none() -> None:
    of_script = msgspec.structs.replace(RECIPE, script=SEEN)
    for recipe, workload in ((RECIPE, SCRIPT), (of_script, FUNCTION), (RECIPE, FUNCTION)):
        with pytest.raises(BadRequestError, match=r"recipe.json: made for a file whose build.* not for a script"):
            explain(RecipeUse(recipe, Path("recipe.json"), workload))
    with pytest.raises(BadRequestError, match=r"but train.py is a script. Tune the script"):
        become_script(RecipeUse(RECIPE, Path("recipe.json"), SCRIPT))
    become_script(RecipeUse(of_script, Path("recipe.json"), FUNCTION))  # returns: workers train it


def test_what_only_our_own_loop_can_do_is_refused_for_a_script(tmp_path: Path) -> None:
    parsed = _parse(["run", "recipe.json", "train.py", "--seed", "3", "--save", "weights.pt"])
    with pytest.raises(BadRequestError, match="--seed, --save cannot be used with a script: pass its own options"):
        _check_options(parsed, SCRIPT)
    _check_options(parsed, FUNCTION)
    _check_options(_parse(["run", "recipe.json", "train.py"]), SCRIPT)
    (tmp_path / "train.py").write_text("print('no build')")
    named = _parse(["launch", "recipe.json", str(tmp_path / "train.py"), "--with", "torchrun"])
    with pytest.raises(BadRequestError, match=r"must define .*`autoaccel launch` cannot use a script"):
        workload_of(named)


def test_a_person_says_whether_trainings_work_in_the_scripts_own_folder() -> None:
    apart = RecipeUse(msgspec.structs.replace(RECIPE, script=SEEN), Path("recipe.json"), SCRIPT)
    in_place = as_said_of_place(apart, in_place=True)
    assert not apart.recipe.in_place and in_place.recipe.in_place
    assert as_said_of_place(apart, in_place=False) == apart and as_said_of_place(in_place, in_place=True) == in_place
    with pytest.raises(BadRequestError, match="made in the script's own folder"):
        as_said_of_place(in_place, in_place=False)
    built = RecipeUse(RECIPE, Path("recipe.json"), FUNCTION)
    assert as_said_of_place(built, in_place=True) == built
