"""The first look at a script: one that takes long has not failed, and a budget that is too small is told soon."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoaccel.cli import main
from autoaccel.units import parse_duration

SCRIPT = """
import time
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
time.sleep({start})
for step in range(100_000):
    time.sleep({pause} if step else 0)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.long
@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("start", "pause", "budget", "why"),
    [
        pytest.param(14.0, 0.01, 40, "the first step was made after ", marks=pytest.mark.long),
        pytest.param(0.0, 4.0, 40, "a step takes [4-9].[0-9] s, so", marks=pytest.mark.long),
        (0.0, 1000.0, 20, "the first step was made after .*, and no other within "),
        pytest.param(1000.0, 0.01, 15, "no step was made within ", marks=pytest.mark.long),
    ],
)
def test_a_script_that_takes_long_has_not_failed(
    start: float,
    pause: float,
    budget: int,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(start=start, pause=pause))
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "train.py", "--budget", f"{budget}s"]) == 2
    told, said = capsys.readouterr()
    assert re.match(rf"autoaccel: train.py: the budget of {budget}.0 s is too small: .*{why}", said), said
    (named,) = re.findall(r"Use --budget (\S+)\.", said)
    assert parse_duration(named) > budget
    assert "stage baseline" not in told
