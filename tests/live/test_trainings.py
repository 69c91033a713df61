"""Scripts that make several trainings, one after the other: each is tuned, by what it does itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from autoaccel.records.recipe import read_recipe
from autoaccel.runtime.script.following_steps import UntilAnother
from autoaccel.runtime.script.numbering import Numbers
from tests.live.test_live_script import SLOW, SPACE, outputs, tried_in

_MODEL = SLOW.partition("optimizer = ")[0]
STAGES = f"""{_MODEL}
were = []  # whether images were channels last, in each call
Slow.forward = lambda self, images, own=Slow.forward: (
    were.append(images.is_contiguous(memory_format=torch.channels_last)), own(self, images))[1]


def stage(steps):
    were.clear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(steps):
        loss = nn.functional.cross_entropy(model(inputs + 0.1 * torch.randn_like(inputs)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.002)
    print("".join(map("-+".__getitem__, were)))


for steps in sys.argv[1:]:
    stage(int(steps))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is kept by glibc alone")
def test_one_that_follows_is_looked_at_and_begins_with_what_was_found_before(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "space.toml").write_text(SPACE)
    (folder / "train.py").write_text(STAGES)
    done = outputs(
        folder, "-m", "autoaccel", "run", "train.py", "--space", "space.toml", "--", "400", "1800", quick=True
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first[-60:].count("+") > 20  # blocks of own settings come now and then, to its end
    # It is another training from its second update on: nobody knows whether its updates stand channels last.
    assert second[2:5] == "---"
    assert second[60:].count("+") > 1500
    (_, ended) = done.stderr.splitlines()
    assert "2 trainings were tuned" in ended
    assert "layout.channels_last=on" in ended
    tried = tried_in(folder, "train-1")
    assert [(one.training, one.became) for one in tried] == [(1, "kept"), (2, "kept")]
    assert tried[1].comparison is None  # it was known already
    recipe = read_recipe(folder / "autoaccel-runs" / "train-1" / "recipe.json")
    assert recipe.projection.planned_steps > 800  # of the second, as many as were heard


def step(optimizer: torch.optim.Optimizer, model: nn.Linear) -> None:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def test_another_training_is_heard_of_between_two_of_its_steps() -> None:
    model, known, began, errors = nn.Linear(2, 1), Numbers(), list[str](), list[BaseException]()
    one, other = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    known.of(one)
    own = torch.autograd.backward
    UntilAnother(known, lambda: began.append("began"), errors.append)
    step(one, model)
    step(other, model)
    assert not began
    step(other, model)
    assert began == ["began"]
    step(other, model)
    assert (began, errors, torch.autograd.backward) == (["began"], [], own)


def test_nothing_is_heard_after_the_end() -> None:
    model, began = nn.Linear(2, 1), list[str]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = torch.autograd.backward
    waits = UntilAnother(Numbers(), lambda: began.append("began"), lambda error: None)
    step(optimizer, model)
    waits.end()
    step(optimizer, model)
    assert (began, torch.autograd.backward) == ([], own)
