"""The command of a rank, and the container that it runs in. Sources: apptainer-exec(1), docker-run(1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from autoaccel.errors import BadRequestError
from autoaccel.records.launch import Job
from autoaccel.records.recipe import Recipe
from autoaccel.text import shell_word

DOCKER_MARK = Path("/.dockerenv")
"""A file that Docker puts into every container."""


def python_of(job: Job) -> str:
    """Return the Python that starts every rank."""
    return "python" if job.image else job.python


def rank_command(job: Job) -> tuple[str, ...]:
    """Return the command that starts every rank."""
    return (python_of(job), "-m", "autoaccel", *job.arguments)


def is_apptainer_image(image: str) -> bool:
    """Whether it is Apptainer's: a .sif file, a folder, or an address such as docker://...; else it is Docker's."""
    return image.endswith((".sif", "/")) or image.startswith(("/", ".")) or "://" in image


def contained(
    recipe: Recipe, job: Job, command: tuple[str, ...], variables: Sequence[str] | Mapping[str, str] = ()
) -> tuple[str, ...]:
    """Return the command that runs in the job's container, if it has one, and passes these variables into it.

    Raises:
        BadRequestError: If a folder that the container must see cannot be named to it.
    """
    if not job.image:
        return command
    if divided := [folder for folder in job.mounts if ":" in folder or "," in folder]:
        raise BadRequestError(
            f"--in: {shell_word(divided[0])} cannot be mounted in a container, for which ':' and ',' end the name of a "
            "folder. Rename it."
        )
    has_gpus = bool(recipe.machine.gpus)
    if is_apptainer_image(job.image):
        # It passes all variables on.
        start = ["apptainer", "exec", *(["--nv"] if has_gpus else [])]
        start += ["--bind", ",".join(job.mounts), "--pwd", job.folder]
    else:
        # Ranks meet over the host's network and its shared memory.
        start = ["docker", "run", "--rm", *(["--gpus", "all"] if has_gpus else [])]
        start += ["--network", "host", "--ipc", "host"]
        start += [part for folder in job.mounts for part in ("--volume", f"{folder}:{folder}")]
        start += ["--workdir", job.folder, *(part for name in variables for part in ("--env", name))]
    return (*start, job.image, *command)


def own_image(environ: Mapping[str, str]) -> str:
    """Return the image of the Apptainer container that the process with these variables is in; empty if in none."""
    return environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER") or ""


def outside(job: Job) -> Job:
    """Return the job for a launcher that starts ranks outside the container that this process is in.

    They run in that container's image where no other is named.
    """
    return msgspec.structs.replace(job, image=job.image or job.own_image)


def why_outside(job: Job) -> str:
    """Return why such a launcher must be typed outside the container of this process; empty if it is in none."""
    if job.own_image:
        inside = "an Apptainer container"
    elif DOCKER_MARK.exists():
        inside = "a Docker container"
    else:
        return ""
    name = "" if outside(job).image else " Name the image with --in, so that every rank runs in it."
    return (
        f"this process is in {inside}, but {job.target} must start the ranks outside it. Run the printed command "
        f"there.{name}"
    )
