"""Target `local`: nothing but autoaccel itself, on this machine."""

from __future__ import annotations

from autoaccel.export.containers import contained, rank_command
from autoaccel.export.target import why_no_restarts
from autoaccel.records.launch import Job, Rendered
from autoaccel.records.recipe import Recipe
from autoaccel.space.knobs import count_processes


class Local:
    """`autoaccel run`, which starts the recipe's ranks itself."""

    name = "local"

    def check(self, recipe: Recipe, job: Job) -> list[str]:
        wrong: list[str] = []
        if job.nodes > 1:
            wrong.append(f"--with local starts ranks only on this machine, got --nodes {job.nodes}. Choose torchrun.")
        ranks = count_processes(recipe.settings)
        if job.ranks != ranks:
            wrong.append(
                f"--with local starts the recipe's number of ranks, {ranks}, got --ranks {job.ranks}. Choose torchrun."
            )
        return [*wrong, *why_no_restarts(job)]

    def render(self, recipe: Recipe, job: Job) -> Rendered:
        return Rendered(contained(recipe, job, rank_command(job)))


TARGET = Local()
