"""Slurm's batch jobs, whatever they run: one writer of scripts, and one way to submit them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.export.starting import Waiting, ask, find_program
from autoaccel.text import shell_word


class Batch(NamedTuple):
    """A batch script, its output and what to do where Slurm can never start it."""

    script: str
    output: Path  # absolute; with sbatch's marks: %j or %A for the job's number, %a for each of an array's
    advice: str = "`sinfo` lists the partitions, and --dry-run prints the script."
    """What to do where Slurm can never start such a job."""

    def output_of(self, number: str) -> Path:
        """Return the file to which Slurm writes what a job prints; `*` stands for every job of an array."""
        return Path(str(self.output).replace("%j", number).replace("%A", number).replace("%a", "*"))


def batch_script(options: Mapping[str, str], lines: Sequence[str]) -> str:
    """Return a script for sbatch.

    Args:
        options: Of sbatch, by their long names; those without a value have "".
        lines: What the job runs, in bash.

    Raises:
        BadRequestError: If an option's value cannot stand on one line.
    """
    header = [_directive(name, value) for name, value in options.items()]
    return "\n".join(["#!/bin/bash", *header, "", *lines]) + "\n"


def _directive(name: str, value: str) -> str:
    """Return the line by which sbatch is told an option. It is a comment to bash, so that no quotes hold a line end."""
    if not value.isprintable():
        raise BadRequestError(
            f"--with slurm: Slurm's option {name} cannot be {shell_word(value)}, because a batch script holds it in a "
            "comment of one line. Rename what it names."
        )
    return f"#SBATCH --{name}" + (f"={shlex.quote(value)}" if value else "")


def submit(batch: Batch, say: Callable[[str], None]) -> str:
    """Submit a job to Slurm, and say how to follow it; return its number.

    Raises:
        BadRequestError: If there is no Slurm here, or it refuses the job.
    """
    sbatch = _check_with_slurm(batch)
    status, number, complaint = ask([sbatch, "--parsable"], batch.script)
    if status:
        raise BadRequestError(f"Slurm rejected this job: {_last_line(complaint)}.")
    _say_how_to_follow(batch, number.strip(), say)
    return number.strip()


def submit_and_wait(batch: Batch, say: Callable[[str], None]) -> int:
    """Submit a job to Slurm and wait for its end; return its exit code. An interrupt cancels the job.

    Raises:
        BadRequestError: If there is no Slurm here, or it refuses the job.
    """
    sbatch = _check_with_slurm(batch)
    with Waiting([sbatch, "--parsable", "--wait"], batch.script) as waiting:
        if not waiting.job:
            raise BadRequestError("Slurm rejected this job; its message is above.")
        _say_how_to_follow(batch, waiting.job, say)
        try:
            status = waiting.wait()
        except KeyboardInterrupt:
            ask(["scancel", waiting.job])
            raise
    output = batch.output_of(waiting.job)
    say(
        output.read_text(errors="replace").rstrip()
        if output.is_file()
        else f"The output is in {output}, which is not visible here."
    )
    return status


def _check_with_slurm(batch: Batch) -> str:
    """Return sbatch if it can ever start the job; a job that is larger than the cluster would wait forever."""
    sbatch = find_program("sbatch")
    status, _, complaint = ask([sbatch, "--test-only"], batch.script)
    if status:
        raise BadRequestError(f"Slurm rejected this job: {_last_line(complaint)}. {batch.advice}")
    return sbatch


def _say_how_to_follow(batch: Batch, number: str, say: Callable[[str], None]) -> None:
    output = "*".join(shell_word(part) if part else "" for part in str(batch.output_of(number)).split("*"))
    say(f"Submitted as job {number}. Check its state: squeue --job {number}. Cancel it: scancel {number}")
    say(f"Follow its output: tail -F {output}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1].strip().rstrip(".")
