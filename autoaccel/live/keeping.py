"""A script's whole run with a recipe, whose promise is watched as it trains.

Imports no torch: the script imports it when it likes.
"""

from __future__ import annotations

from collections.abc import Callable

from autoaccel.records.messages import WorkerSpec
from autoaccel.runtime.script.running import main as run


def main() -> None:
    """Run the script that waits, under the settings of its recipe."""
    run(_attach)


def _attach(spec: WorkerSpec) -> Callable[[], bool]:
    from autoaccel.live.promise import keep_promise

    return keep_promise(spec)
