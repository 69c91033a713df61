"""Run: what every stage of one tuning run shares."""

from __future__ import annotations

from dataclasses import dataclass

from autoaccel.launch.runner import Runner
from autoaccel.records.progress import Event, Listener
from autoaccel.records.request import Request
from autoaccel.session.clock import Clock
from autoaccel.session.run_folder import RunFolder


@dataclass(frozen=True)
class Run:
    """What every stage of one tuning run shares."""

    request: Request
    folder: RunFolder
    runner: Runner
    clock: Clock
    listener: Listener

    def tell(self, event: Event) -> None:
        """Tell whoever watches."""
        self.listener(event)
