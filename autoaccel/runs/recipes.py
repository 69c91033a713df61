"""Open a recipe that anybody may have written: read, and every value of it within the domain of its knob."""

from __future__ import annotations

from pathlib import Path

from autoaccel.machine.detect import detect_machine
from autoaccel.records.recipe import Recipe, read_recipe
from autoaccel.space.domains import check_recipe, check_recipe_here, contexts_on
from autoaccel.workers.this_process import this_process


def open_recipe(path: Path) -> Recipe:
    """Return the recipe in a file.

    Raises:
        BadRequestError: If it is missing, is no recipe, or has a value that its own machine could not have.
    """
    recipe = read_recipe(path)
    check_recipe(recipe, str(path))
    return recipe


def open_recipe_here(path: Path) -> Recipe:
    """Return the recipe in a file, which is to take effect on this machine; torch is not asked yet.

    Raises:
        BadRequestError: As `open_recipe` does, and if it has a value that cannot be had here.
    """
    recipe = open_recipe(path)
    refuse_elsewhere(recipe, str(path))
    return recipe


def refuse_elsewhere(recipe: Recipe, where: str) -> None:
    """Refuse a recipe with a value that no device of this machine can have, whatever its torch can do.

    Args:
        recipe: That is to take effect.
        where: Begins the error.

    Raises:
        BadRequestError: Naming the knob, what must hold and what was found.
    """
    check_recipe_here(recipe, contexts_on(this_process().usable(detect_machine())), where)
