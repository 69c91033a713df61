"""Target: a launcher, a scheduler or a file format for which a recipe's training can be rendered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from autoaccel.records.launch import Job, Rendered
from autoaccel.records.recipe import Recipe


@runtime_checkable
class Target(Protocol):
    """Something that starts every rank of a training as `autoaccel run RECIPE FILE`.

    A rank reads which rank it is from the variables that its launcher sets.
    """

    @property
    def name(self) -> str:
        """What `autoaccel launch --with` calls it."""

    def check(self, recipe: Recipe, job: Job) -> Sequence[str]:
        """Return what is wrong with the job, or cannot work with this target: a sentence each, empty if it can."""

    def render(self, recipe: Recipe, job: Job) -> Rendered:
        """Return the files and the command; nothing is written or started."""


@runtime_checkable
class StartingTarget(Target, Protocol):
    """A target for which the rendered command alone does not suffice to start a job."""

    def why_not_here(self, job: Job) -> str:
        """Return why what is rendered must be typed elsewhere, such as outside a container; empty if it need not be."""

    def start(self, recipe: Recipe, job: Job, say: Callable[[str], None]) -> int:
        """Start the job; return its exit code, 0 if it is only queued.

        Args:
            recipe: What it trains with.
            job: A job that `check` finds nothing wrong with.
            say: Is told what to do next, line by line.

        Raises:
            BadRequestError: If a program is missing, or refuses the job.
        """


def why_no_restarts(job: Job) -> list[str]:
    """Return what a target that starts nothing again has to say of the job's restarts."""
    if not job.max_restarts:
        return []
    return [f"--max-restarts: {job.target} does not restart a failed training. Choose torchrun."]
