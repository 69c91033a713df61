"""What the processes are told that a launcher of a script, such as torchrun, starts: by variables."""

from __future__ import annotations

from autoaccel.records.base import Record
from autoaccel.records.messages import WorkerSpec


class Launched(Record, frozen=True):
    """All that they are told, as JSON in `LAUNCHED`."""

    spec: WorkerSpec
    line: str | None = None  # path of the socket to the tuner; None: nobody measures
    module: str = ""  # of ours, whose launched() is called where nobody does


LAUNCHED = "AUTOACCEL_LAUNCHED"
LAUNCHER = "AUTOACCEL_LAUNCHER"
"""Process number of the launcher, which is not told anything itself."""
COUNTED = "AUTOACCEL_COUNTED"
"""Path of the file in which a process that the script itself has started counts its updates."""
PATH = "PYTHONPATH"
OWN_PATH = "AUTOACCEL_OWN_PYTHONPATH"
"""What PYTHONPATH was before the folder was put first in it by which they are heard."""
