"""The user's own settings as a recipe, for checks of what trains with one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from autoaccel.records.base import write_json
from autoaccel.records.recipe import Recipe, read_recipe


def recipe_of_own_settings(example: Path, home: Path) -> Recipe:
    """Return it, from a run of moments in a folder; what was run once is not run again."""
    made = home / "run" / "recipe.json"
    if not made.exists():
        home.mkdir(parents=True, exist_ok=True)
        wish = ["--space", "quick", "--trials", "1", "--budget", "3m", "--output", str(made.parent)]
        # Exit code 1, "nothing faster was found", is as good.
        subprocess.run([sys.executable, "-m", "autoaccel", "tune", str(example), *wish], check=False)
    recipe = read_recipe(made)
    return msgspec.structs.replace(recipe, settings=recipe.baseline.settings, accuracy=None)


def write_with_ranks(recipe: Recipe, ranks: int, path: Path) -> Path:
    """Write the recipe with so many ranks, a thread for each; return where."""
    settings = {**recipe.settings, "threads.intra_op": ranks, "parallel.world_size": ranks}
    write_json(path, msgspec.structs.replace(recipe, settings=settings))
    return path
