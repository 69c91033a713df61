"""Job: a recipe's training as it is to be started somewhere. Rendered: the files and the command for that."""

from __future__ import annotations

from autoaccel.records.base import Record


class Job(Record, frozen=True):
    """A recipe's training as it is to be started: by which target, on what, and what every rank is told."""

    target: str  # its name
    name: str  # of the job: letters, digits, and what file names may have without quotes
    folder: str  # in which every rank works; absolute
    python: str  # that starts every rank, unless an image has its own
    arguments: tuple[str, ...]  # of autoaccel, the same for every rank: `run RECIPE FILE ...`
    nodes: int  # machines
    ranks: int  # on each machine
    hosts: tuple[str, ...] = ()  # names of the machines, the first of which is rank 0's; empty: the target knows
    main_address: str = ""  # where the ranks of several machines meet
    main_port: int = 29500  # torch's own choice where nobody chooses
    max_restarts: int = 0
    image: str = ""  # container that every rank runs in: of Apptainer or of Docker; empty: none
    own_image: str = ""  # of the Apptainer container that this process is in; empty: none
    mounts: tuple[str, ...] = ()  # folders that a container must see; absolute
    passed_on: tuple[str, ...] = ()  # variables that ranks on other machines need too
    slurm_options: dict[str, str] = {}  # of sbatch, on top of ours; without a value: ""
    is_root: bool = False
    waits: bool = False  # for a job that is queued to end, and shows what it printed


class Rendered(Record, frozen=True):
    """A job as its target understands it: nothing is written or started yet."""

    command: tuple[str, ...]  # to be typed in the job's folder
    files: dict[str, str] = {}  # name in the job's folder -> text; the command reads them
    environment: dict[str, str] = {}  # on top of the user's own
    machines: int = 1  # on how many the same command is to be typed
    not_expressed: tuple[str, ...] = ()  # what of the recipe or the job is left out: one sentence each
