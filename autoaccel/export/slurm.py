"""Target `slurm`: a batch script for sbatch, whose step starts every rank."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from autoaccel.export.batch import Batch, batch_script, submit, submit_and_wait
from autoaccel.export.containers import contained, outside, rank_command, why_outside
from autoaccel.machine.ranks import RANK_VARIABLES
from autoaccel.records.launch import Job, Rendered
from autoaccel.records.recipe import Recipe
from autoaccel.space.knobs import count_processes
from autoaccel.text import shell_command

_ADVICE = (
    "Request less (--nodes, --ranks) or another partition (--slurm-option partition=NAME); `sinfo` lists the "
    "partitions, and --dry-run prints the script."
)


class Slurm:
    """Slurm's queue. Sources: sbatch(1), srun(1)."""

    name = "slurm"

    def check(self, recipe: Recipe, job: Job) -> list[str]:
        ranks = count_processes(recipe.settings)
        if job.nodes * job.ranks == 1 and ranks > 1:
            # A step of one task is a shell to us: the recipe's own ranks would start in it.
            return [f"--with slurm cannot start one rank for a recipe with {ranks} ranks. Choose torchrun."]
        return []

    def render(self, recipe: Recipe, job: Job) -> Rendered:
        file = f"{job.name}.sbatch"
        return Rendered(("sbatch", file), {file: batch_of(recipe, job).script})

    def why_not_here(self, job: Job) -> str:
        # A container may be a machine of a cluster itself: it is one if Slurm is installed in it.
        return "" if not job.own_image and shutil.which("sbatch") else why_outside(job)

    def start(self, recipe: Recipe, job: Job, say: Callable[[str], None]) -> int:
        batch = batch_of(recipe, job)
        if job.waits:
            return submit_and_wait(batch, say)
        submit(batch, say)
        return 0


TARGET = Slurm()


def batch_of(recipe: Recipe, job: Job) -> Batch:
    """Return the batch script of a job, and where Slurm writes what it prints."""
    options = {
        "job-name": job.name,
        "nodes": str(job.nodes),
        "ntasks-per-node": str(job.ranks),
        # All of a machine's cores, not the threads alone: loader workers need some, and the recipe was tuned on all.
        "cpus-per-task": str(max(1, recipe.machine.usable_cores // job.ranks)),
        **({"gpus-per-node": str(len(recipe.machine.gpus))} if recipe.machine.gpus else {}),
        **({"nodelist": ",".join(job.hosts)} if job.hosts else {}),
        "chdir": job.folder,
        "output": f"{job.name}-%j.out",
        "open-mode": "append",  # a job that starts again must not wipe what it printed before
        "requeue": "",
    }
    options |= job.slurm_options
    # Since 22.05 srun does not take over --cpus-per-task. A rank that dies ends the others, which would wait for it.
    step = ["srun", "--cpu-bind=none", f"--cpus-per-task={options['cpus-per-task']}", "--kill-on-bad-exit=1"]
    job = outside(job)
    lines = [shell_command([*step, *contained(recipe, job, rank_command(job), RANK_VARIABLES)])]
    if job.max_restarts:
        lines += [
            "status=$?",
            f'if [ "$status" -ne 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {job.max_restarts} ]; then',
            '    scontrol requeue "$SLURM_JOB_ID"',
            "fi",
            'exit "$status"',
        ]
    output = Path(options["chdir"] or job.folder, options["output"] or f"{job.name}-%j.out")
    return Batch(batch_script(options, lines), output, _ADVICE)
