"""The list of public scripts, and what is held against it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.checks.public_scripts import counting
from benchmarks.checks.public_scripts.data import MADE
from benchmarks.checks.public_scripts.listed import PublicScript, Right, listed
from benchmarks.checks.public_scripts.measure import contradictions, count_plainly, wrong

RIGHT = Right(
    models=(("Net",), ("Linear", "Linear")),
    optimizers=["SGD"],
    batch_size=0,
    steps_per_epoch=24,
    planned=480,
    planned_tolerance=0.01,
    accumulates=False,
    not_exact=("loader.workers",),
)
SEEN: dict[str, Any] = {
    "models": ["Linear", "Linear"],
    "optimizers": ["SGD"],
    "batch_size": None,
    "steps_per_epoch": 24,
    "planned": 482,
    "does": ["seeds torch"],
    "open": [],
    "inexact": {},
}
SCRIPT = """
import torch
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(12, 4)), batch_size=4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters())
for epoch in range(2):
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizer.step()
    with torch.no_grad():
        list(loader)
raise SystemExit(3)
"""


def test_each_script_has_a_name_of_its_own_and_data_that_can_be_made() -> None:
    scripts = listed()
    assert len({script.name for script in scripts}) == len(scripts) == 30
    assert {script.made for script in scripts} - {""} == MADE.keys()


def test_what_is_believed_wrongly_is_told_and_nothing_else() -> None:
    assert wrong(RIGHT, SEEN) == []
    assert wrong(RIGHT, SEEN | {"planned": None}) == []
    for change in (
        {"models": ["Net", "Linear"]},
        {"optimizers": ["SGD", "SGD"]},
        {"batch_size": 64},
        {"steps_per_epoch": None},
        {"planned": 470},
        {"does": ["accumulates the gradients of 4 backward passes"]},
        {"open": ["loader.workers"]},
    ):
        assert len(wrong(RIGHT, SEEN | change)) == 1, change
    assert wrong(Right(planned=0), SEEN) == ["planned 482, which nothing says"]
    assert wrong(RIGHT, SEEN | {"open": ["loader.workers"], "inexact": {"loader.workers": "it draws"}}) == []


def test_a_script_is_counted_under_plain_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    subprocess.run(
        [sys.executable, counting.__file__, "counts.json", "60", "train.py"], cwd=tmp_path, check=True, timeout=300
    )
    counted = json.loads((tmp_path / "counts.json").read_text())
    assert counted["ended"] == "exit code 3"
    assert counted["optimizers"] == [{"kind": "SGD", "parameters": 5, "updates": 6}]
    assert counted["order"] == [0] * 6 and counted["backwards"] == 6
    assert list(counted["loaders"].values()) == [{"with gradients": 6, "without": 6}]
    assert contradictions(Right(planned=6, optimizers=["SGD"]), counted | {"ended": "by itself"}) == []
    assert len(contradictions(Right(planned=60, optimizers=["Adam"]), counted | {"ended": "by itself"})) == 2


def test_processes_of_a_script_that_wait_for_it_for_ever_are_ended_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import multiprocessing, os, time\n"
        "process = multiprocessing.get_context('fork').Process(target=time.sleep, args=(300,))\n"
        "process.start()\n"
        "open('waits', 'w').write(str(process.pid))\n"
        "os._exit(0)\n"
    )
    script = PublicScript("name", "", "", "", "train.py", (), "", Right())
    assert count_plainly(script, tmp_path, tmp_path / "counts.json") == {}
    state = Path(f"/proc/{(tmp_path / 'waits').read_text()}/stat")
    patience = time.monotonic() + 10
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":  # the kernel takes its time
        assert time.monotonic() < patience
        time.sleep(0.05)
