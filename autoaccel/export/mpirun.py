"""Target `mpirun`: Open MPI's, typed on one machine for all."""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.errors import BadRequestError
from autoaccel.export.containers import contained, outside, rank_command, why_outside
from autoaccel.export.starting import ask, find_program, how_to_install, start_rendered
from autoaccel.export.target import why_no_restarts
from autoaccel.machine.ranks import RANK_VARIABLES
from autoaccel.records.launch import Job, Rendered
from autoaccel.records.recipe import Recipe


class Mpirun:
    """Open MPI's launcher. Source: mpirun(1) of Open MPI 4.1 and 5.0."""

    name = "mpirun"

    def check(self, recipe: Recipe, job: Job) -> list[str]:
        wrong: list[str] = []
        if job.nodes > 1 and not job.hosts:
            wrong.append(f"--with mpirun needs the names of the {job.nodes} machines. Give them as --hosts A,B.")
        return [*wrong, *why_no_restarts(job)]

    def render(self, recipe: Recipe, job: Job) -> Rendered:
        # On one machine it starts ranks where it was typed, in a container too.
        job = job if job.nodes == 1 else outside(job)
        command = ["mpirun"]
        if job.is_root:
            command.append("--allow-run-as-root")
        # Unless told, Open MPI binds each rank to one core, and all its threads with it.
        command += ["--bind-to", "none", "-n", str(job.nodes * job.ranks)]
        if job.hosts:
            command += ["--host", ",".join(f"{host}:{job.ranks}" for host in job.hosts)]
        elif job.ranks > recipe.machine.limits.physical_cores:
            command.append("--oversubscribe")
        if job.nodes > 1:
            command += ["-x", f"MASTER_ADDR={job.main_address}", "-x", f"MASTER_PORT={job.main_port}"]
            for name in job.passed_on:
                command += ["-x", name]
        return Rendered((*command, *contained(recipe, job, rank_command(job), RANK_VARIABLES)))

    def why_not_here(self, job: Job) -> str:
        return "" if job.nodes == 1 else why_outside(job)

    def start(self, recipe: Recipe, job: Job, say: Callable[[str], None]) -> int:
        program = find_program("mpirun")
        if "Open MPI" not in "".join(ask([program, "--version"])[1:]):
            raise BadRequestError(f"{program} is not Open MPI's. {how_to_install('mpirun')}")
        return start_rendered(self.render(recipe, job), job, say)


TARGET = Mpirun()
