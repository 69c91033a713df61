"""A profile of a process that does not survive it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autoaccel.records.messages import Failure, Profiled, TakeProfile
from autoaccel.runs.workloads import find_workload
from autoaccel.workers.profiling import ask_profile
from autoaccel.workers.starter import WorkerStarter
from tests.shared_servers import SharedServer

WriteModel = Callable[..., Path]

DYING = """
tiny = build

def build():
    return tiny(batch_size=4, loss=dying)

def dying(output, target):
    if {condition}:
        os.kill(os.getpid(), 9)
    return nn.functional.cross_entropy(output, target)
"""


def asked(model: Path, server: SharedServer) -> Profiled | Failure:
    with WorkerStarter(model.parent, find_workload(str(model))) as starter:
        return ask_profile(server.serve(starter), TakeProfile(seconds=0.2), {}, timeout_seconds=120.0)


@pytest.mark.long
@pytest.mark.end_to_end
def test_what_was_found_before_a_crash_is_kept(write_model: WriteModel, function_server: SharedServer) -> None:
    found = asked(write_model(DYING.format(condition="len(target) > 4")), function_server)
    assert isinstance(found, Profiled)
    assert found.profile.operators and found.conditions is not None and found.measuring == ""
    assert list(found.profile.failed) == ["steps on larger batches"]
    assert "SIGKILL" in found.profile.failed["steps on larger batches"]


@pytest.mark.end_to_end
def test_a_process_that_shows_nothing_is_a_failure(write_model: WriteModel, function_server: SharedServer) -> None:
    found = asked(write_model(DYING.format(condition="torch._C._autograd._profiler_enabled()")), function_server)
    assert isinstance(found, Failure)
    assert found.kind in ("crashed", "memory")
