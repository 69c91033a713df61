"""Threads that share the work of one operator."""

from __future__ import annotations

import torch

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError


class IntraOpThreads(Effect):
    """Set the thread count in this process too: in a user's own program the environment was read long ago."""

    def __init__(self, value: Value) -> None:
        self.threads = int(value)

    def process(self) -> None:
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)

    def check(self) -> str:
        if (found := torch.get_num_threads()) != self.threads:
            raise IneffectiveError(f"torch uses {found} threads; something in the workload sets its own count")
        return f"torch uses {self.threads} threads"
