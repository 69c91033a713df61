"""RecipeUse: a recipe, and the training that it is used for here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Machine
from autoaccel.records.options import TuneOptions, as_arguments
from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import Settings, format_value
from autoaccel.records.workload import Workload
from autoaccel.space.domains import check_recipe_here
from autoaccel.space.knobs.arguments import PREFIX, changed_arguments, flag_of, is_given
from autoaccel.text import shell_command, shell_word
from autoaccel.workers.shares import context_on


class RecipeUse(NamedTuple):
    """A recipe, and the training that it is used for here."""

    recipe: Recipe
    file: Path  # of the recipe
    workload: Workload
    accepts_other_machine: bool = False

    def checked(self, machine: Machine) -> Machine:
        """Return this machine; refuse a recipe that was made elsewhere.

        Raises:
            BadRequestError: Unless the recipe was made on this machine, or another is accepted and has what it needs.
        """
        difference = self.recipe.machine.difference_from(machine)
        if difference and not self.accepts_other_machine:
            raise BadRequestError(
                f"{self.file}: made on another machine ({difference}). Tune again, or pass --accept-other-machine."
            )
        if difference:
            check_recipe_here(self.recipe, [context_on(machine, self.recipe.device)], str(self.file))
        return machine


def as_said_of_place(use: RecipeUse, in_place: bool) -> RecipeUse:
    """Return the use of a recipe whose trainings work in the script's own folder if a person says so, and else do not.

    Raises:
        BadRequestError: If the recipe was made there, and they do not say so.
    """
    if use.recipe.in_place and not in_place:
        raise BadRequestError(
            f"{use.file}: made in the script's own folder, where each training would write. To measure there, add "
            "--in-place."
        )
    return use._replace(recipe=msgspec.structs.replace(use.recipe, script=use.recipe.seen.changed(in_place=in_place)))


def with_named_arguments(use: RecipeUse, named: Collection[str], say: Callable[[str], None]) -> RecipeUse:
    """Return the use of a recipe that sets those of a script's arguments which a person has named, and no others.

    A recipe is data, and what an argument does only the script's user knows. One that they give themselves, and do not
    name, stays as they give it.

    Args:
        use: What is to be used.
        named: Names of arguments, as the recipe has them.
        say: Told which arguments are as they are given.

    Raises:
        BadRequestError: If the recipe sets one that is neither named nor given, or does not set one that is named.
    """
    recipe = use.recipe
    if named:
        use.workload.must_be_script("--arg: for a script only; build() has no arguments that a recipe sets.")
    found = use.workload.settable(changed_arguments(recipe.settings, recipe.baseline.settings))
    if unknown := [name for name in named if name not in found]:
        name, sets = shell_word(unknown[0]), shell_command(found) or "none"
        raise BadRequestError(f"--arg {name}: {use.file} does not set this argument. It sets: {sets}.")
    unnamed = {name: value for name, value in found.items() if name not in named}
    for name in [name for name in unnamed if is_given(name, use.workload.arguments)]:
        say(f"{flag_of(name)} is as you give it; the recipe has {format_value(unnamed.pop(name))}.")
    if added := {name: value for name, value in unnamed.items() if value is not False}:
        sets = shell_command(f"{name}={format_value(value)}" for name, value in added.items())
        raise BadRequestError(
            f"{use.file}: sets arguments of the script: {sets}. Only you can know what these do. To use them, add "
            f"{shell_command(as_arguments(TuneOptions(args=tuple(added))))}; or give your own after --."
        )

    def kept(settings: Settings) -> Settings:
        return {
            name: value
            for name, value in settings.items()
            if not name.startswith(PREFIX) or name.removeprefix(PREFIX) in named
        }

    baseline = msgspec.structs.replace(recipe.baseline, settings=kept(recipe.baseline.settings))
    return use._replace(recipe=msgspec.structs.replace(recipe, settings=kept(recipe.settings), baseline=baseline))
