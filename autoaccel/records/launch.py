"""LaunchRequest: on what, and by which launcher, a recipe's training is to start. LaunchPlan: what to type for that."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record

Launcher = Literal["torchrun", "mpirun", "slurm", "local"]
"""What starts the ranks; local: nothing but autoaccel itself, on this machine."""


class LaunchRequest(Record, frozen=True):
    """On what, and by which launcher, a recipe's training is to start."""

    launcher: Launcher
    name: str  # of the job: letters, digits, and what file names may have without quotes
    folder: str  # in which every rank works; absolute
    python: str  # that starts every rank, unless an image has its own
    arguments: tuple[str, ...]  # of autoaccel, the same for every rank: `run RECIPE FILE ...`
    nodes: int  # machines
    ranks: int  # on each machine
    threads: int  # of each rank
    usable_cores: int  # of each machine, as the recipe knows it
    physical_cores: int
    gpus: int  # of each machine
    hosts: tuple[str, ...] = ()  # names of the machines, the first of which is rank 0's; empty: the launcher knows
    main_address: str = ""  # where the ranks of several machines meet
    main_port: int = 29500  # torch's own choice where nobody chooses
    max_restarts: int = 0
    image: str = ""  # container that every rank runs in: of Apptainer or of Docker; empty: none
    mounts: tuple[str, ...] = ()  # folders that a container must see; absolute
    passed_on: tuple[str, ...] = ()  # variables that ranks on other machines need too
    slurm_options: dict[str, str] = {}  # of sbatch, on top of ours; without a value: ""
    is_root: bool = False


class LaunchPlan(Record, frozen=True):
    """What to type."""

    command: tuple[str, ...]
    environment: dict[str, str] = {}  # on top of the user's own
    script: str = ""  # that the command reads from its standard input
    machines: int = 1  # on how many the same command is to be typed
