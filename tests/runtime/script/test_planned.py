"""The planned length is read from the loops around an update."""

from __future__ import annotations

import runpy
import textwrap
from pathlib import Path

import pytest

from autoaccel.runtime.script.places import user_frames
from autoaccel.runtime.script.planned import loops_around, planned_rounds

HEADER = """\
from types import SimpleNamespace
args = SimpleNamespace(epochs=3, lr=0.1)
config = {"epochs": 4, "steps": 10}
batches = [0] * 7
class Bar:
    def __init__(self, thing): self.thing = thing
    def __iter__(self): return iter(self.thing)
tqdm = Bar
class Over(Exception): pass
"""


def rounds_in(tmp_path: Path, source: str) -> int | None:
    found: list[int | None] = []

    def update() -> None:
        if not found:
            frames = [frame for frame in user_frames() if frame.f_code.co_filename == str(path)]
            found.append(planned_rounds(loops_around(frames)))

    path = tmp_path / "train.py"
    path.write_text(HEADER + textwrap.dedent(source))
    runpy.run_path(str(path), {"update": update})
    return found[0]


CASES = {
    "for epoch in range(args.epochs):\n    for batch in batches:\n        update()": 21,
    "for e in range(1, args.epochs + 1):\n    for i, batch in enumerate(tqdm(batches)):\n        update()": 21,
    "for step in range(config['steps']):\n    update()": 10,
    "for step in range(config['epochs'] * len(batches)):\n    update()": 28,
    "step = 0\nwhile step < config['steps']:\n    update()\n    step += 1": 10,
    "def one():\n    for batch in batches:\n        update()\nfor epoch in range(2):\n    one()": 14,
    "class T:\n    n = 5\n    def fit(self):\n        for e in range(args.epochs):\n            update()\nT().fit()": 3,
    "for fold in range(2):\n    for other in range(9):\n        pass\n    for batch in batches: update()": 14,
    "def late():\n    update()\nfor epoch in range(3):\n    def inner():\n        late()\n    inner()": 3,
    "while True:\n    update()\n    break": None,
    "for batch in iter(lambda: 1, 0):\n    update()\n    break": None,
    "for batch in (each for each in batches):\n    update()": None,
    "def pairs(things): return iter([1])\nfor batch in pairs(batches):\n    update()": None,
    "update()": None,
}


@pytest.mark.parametrize(("source", "rounds"), CASES.items())
def test_it_is_the_product_of_the_loops(source: str, rounds: int | None, tmp_path: Path) -> None:
    assert rounds_in(tmp_path, source) == rounds
