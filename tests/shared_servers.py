"""Fork servers that tests share: to import torch for each of them anew takes two seconds of a core."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from autoaccel.records.settings import settings_key
from autoaccel.workers.forkserver import ForkServer
from autoaccel.workers.starter import WorkerStarter

ROOT = Path(__file__).parents[1]


class SharedServer(ForkServer):
    """A fork server that outlives the starters which use it."""

    def __init__(self, log_path: Path, modules: Iterable[str] = (), **variables: str) -> None:
        """Start it.

        Args:
            log_path: Where its stdout and stderr go.
            modules: What it imports besides torch and what starters ask for.
            variables: What it has besides the variables of this process.
        """
        # An optimizer's constructor imports torch._dynamo, which takes another second in each worker.
        self.modules = ("torch", "torch._dynamo", *modules)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        super().__init__({**os.environ, "PYTHONPATH": path, **variables}, log_path)

    def close(self) -> None:
        """Do nothing: other starters go on with it."""

    def end(self) -> None:
        """End it, and all that it has forked."""
        super().close()

    def serve(self, starter: WorkerStarter) -> WorkerStarter:
        """Return the starter, whose workers now come from here wherever nothing must be set from their start."""
        starter._servers._servers[settings_key({})] = self
        starter._servers.modules[:0] = self.modules
        starter._processes.starts_anew = False
        return starter
