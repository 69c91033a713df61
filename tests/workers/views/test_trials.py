"""Trials of real scripts, where no overlay can be had: what they write through links is theirs alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.records.messages import Describe, Described
from autoaccel.records.workload import Script
from autoaccel.workers.starter import WorkerStarter
from autoaccel.workers.views import views as views_module
from autoaccel.workers.views.landlock import landlock_version

SCRIPT = """
import subprocess, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.save(model.state_dict(), "../other/last.pth.tar")
torch.save(obj=model.state_dict(), f="last.pth.tar")
subprocess.run("echo more >> train.log", shell=True, check=True)  # is refused, and repeated on a copy
while True:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_checkpoints_and_logs_are_written_to_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not landlock_version():
        pytest.skip("this kernel has no Landlock, without which links are not guarded")
    monkeypatch.setattr(views_module, "_mountinfo", lambda: "")
    own, other = tmp_path / "own", tmp_path / "other"
    files = [own / "last.pth.tar", own / "train.log", other / "last.pth.tar"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(3 << 20))
    (own / "train.py").write_text(SCRIPT)
    (tmp_path / "run").mkdir()
    script = Script(str(own / "train.py"), "train.py", str(own), "0" * 64)
    with WorkerStarter(tmp_path / "run", script) as starter:
        assert starter.protection is not None and starter.protection.kind == "links"
        answer = starter.ask(Describe(), {}, "describe", Described, 120.0)
        assert isinstance(answer, Described), answer
        assert own / "last.pth.tar" in starter.written
    assert all(file.read_bytes() == bytes(3 << 20) for file in files)
