"""RecipeUse: a recipe, and the training that it is used for here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Machine, fingerprint_difference
from autoaccel.records.recipe import Recipe
from autoaccel.records.workload import Workload
from autoaccel.space.domains import check_recipe_here
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
        difference = fingerprint_difference(self.recipe.machine, machine)
        if difference and not self.accepts_other_machine:
            raise BadRequestError(
                f"{self.file}: made on another machine ({difference}). Tune again, or pass --accept-other-machine."
            )
        if difference:
            check_recipe_here(self.recipe, [context_on(machine, self.recipe.device)], str(self.file))
        return machine
