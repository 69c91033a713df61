"""For a shared fork server to import: what it forks from then on serves scripts as well, which find torch imported."""

from __future__ import annotations

import autoaccel.runtime.script.measure
import autoaccel.runtime.script.observe
import autoaccel.runtime.script.profile
import autoaccel.runtime.script.updates  # noqa: F401
from autoaccel.records.base import Record
from autoaccel.records.messages import WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.runtime import worker
from autoaccel.runtime.script import serving
from autoaccel.runtime.worker import Channel

serve_any = worker._serve


def serve(spec: WorkerSpec, channel: Channel) -> Record | None:
    """Serve as the program would that a worker of this workload is."""
    return (serving._serve if isinstance(spec.workload, Script) else serve_any)(spec, channel)


worker._serve = serve
