"""Several faults in one real run, each met by other settings; benchmarks/checks/faults.py has them one by one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.session.test_planted import WAITING, space, tune

pytestmark = pytest.mark.end_to_end
WriteModel = Callable[..., Path]

FAULTY = """
import signal

class Losing(Waiting):
    def __getitem__(self, index):
        worker = get_worker_info()
        if worker is not None and worker.num_workers == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.002)
        return super().__getitem__(index)

def leaves_if_short(output, target):
    if output.dtype == torch.bfloat16:
        os._exit(0)
    time.sleep(0.005)
    return nn.functional.cross_entropy(output, target)

def build():
    return tiny(train_data=Losing(), loss=leaves_if_short, epochs=20)
"""


@pytest.mark.long
def test_faults_are_named_and_the_search_goes_on_to_the_best_without_them(
    write_model: WriteModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"{tmp_path} {os.getpid()}"
    monkeypatch.setenv("AUTOACCEL_FAULT_TEST", mark)
    write_model(WAITING + FAULTY)
    space(tmp_path, precision__autocast=["off", "bfloat16"], loader__workers=[0, 2, 4])
    recipe = tune(tmp_path, "--budget", "3m", "--space", "space.toml", "--max-drop", "50%", "--trials", "5")
    # On a machine that others keep busy its proof may be left open.
    picked = recipe["settings"] if recipe["comparison"]["process_pairs"] else recipe["open_proof"]["settings"]
    assert picked["loader.workers"] == 2, recipe["told"]
    assert picked["precision.autocast"] == "off", recipe["told"]
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    for trial in trials:
        outcome, settings = trial["outcome"], trial["settings"]
        if settings["loader.workers"] == 4:
            assert "DataLoader worker" in outcome["message"] or outcome["kind"] == "exited", trial
        elif settings["precision.autocast"] == "bfloat16":
            assert (outcome["kind"], outcome["message"]) == ("exited", "the process exited with status 0")
        else:
            assert outcome["type"] != "failure", trial
    assert any(trial["outcome"]["type"] == "failure" for trial in trials)
    end = time.monotonic() + 60
    while (left := living(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def living(mark: str) -> list[str]:
    """Return the processes that were started with the mark in their environment and still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AUTOACCEL_FAULT_TEST") == mark and process.pid != os.getpid():
                found.append(f"{process.pid} {process.status()} {process.cmdline()}")
        except (psutil.Error, OSError):
            continue
    return found
