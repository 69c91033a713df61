"""What the loops around an update change of what loads the samples is read in their source, wherever it stands."""

from __future__ import annotations

import runpy
import sys
import textwrap
from pathlib import Path
from types import FrameType

import pytest

from autoaccel.runtime.script.told import told_in_loops

DATASET = """\
LEVEL = 0

class Samples:
    def __init__(self):
        self.level, self.x, self.rows = 0, [1.0], {}

    def __getitem__(self, place):
        return self.x[place] / (1 + self.level + LEVEL) + len(self.rows)

class Other:
    level = 0

samples, other = Samples(), Other()
"""


def told(folder: Path, source: str) -> str:
    """Return what is told of a script that calls `update()` where it makes an update, in its first round."""
    found: list[str] = []
    path = folder / "train.py"
    path.write_text(DATASET + textwrap.dedent(source))

    def update(samples: object) -> None:
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == str(path):
                frames.append(frame)
            frame = frame.f_back
        found.append(told_in_loops(frames, [samples]))
        raise SystemExit

    with pytest.raises(SystemExit):
        runpy.run_path(str(path), {"update": update})
    return found[0]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        # Where what is changed is an argument by name.
        (
            """
            def harder(dataset, epoch):
                dataset.level = epoch
            for epoch in range(9):
                update(samples)
                harder(dataset=samples, epoch=epoch)
            """,
            "Samples by harder()",
        ),
        # An object of a list that holds it.
        (
            """
            class Curriculum:
                def __init__(self, dataset): self.dataset = dataset
                def on_epoch_end(self, epoch): self.dataset.level = epoch
            callbacks = [Other(), Curriculum(samples)]
            Other.on_epoch_end = lambda self, epoch: None
            for epoch in range(9):
                update(samples)
                for callback in callbacks:
                    callback.on_epoch_end(epoch)
            """,
            "Samples.level",
        ),
        # A global variable, in a function.
        (
            """
            def harder():
                global LEVEL
                LEVEL += 1
            for epoch in range(9):
                update(samples)
                harder()
            """,
            "LEVEL",
        ),
        # A global variable, in the loop itself.
        ("for epoch in range(9):\n    update(samples)\n    LEVEL = epoch", "LEVEL"),
        # A method of the trainer that calls another one.
        (
            """
            class Trainer:
                def __init__(self): self.data = samples
                def after_epoch(self, epoch): self.adjust(epoch)
                def adjust(self, epoch): self.data.rows[epoch] = 1
                def fit(self):
                    for epoch in range(9):
                        self.one()
                        self.after_epoch(epoch)
                def one(self):
                    for step in range(9):
                        update(samples)
            Trainer().fit()
            """,
            "Samples.rows",
        ),
        ("for epoch in range(9):\n    update(samples)\n    setattr(samples, 'level', epoch)", "Samples.level"),
        # A method that changes a list of its own object; a function of a library.
        (
            """
            def grow(self): self.x.append(1.0)
            Samples.grow = grow
            for epoch in range(9):
                update(samples)
                samples.grow()
            """,
            "Samples.x",
        ),
        ("import random\nfor epoch in range(9):\n    update(samples)\n    random.shuffle(samples.x)", "Samples.x"),
        # Nothing of this is changed:
        (
            """
            def evaluate(data):
                losses = []
                for place in range(len(data.x)):
                    losses.append(data[place])
                losses.sort()
                return losses
            for epoch in range(9):
                update(samples)
                evaluate(samples)
            """,
            "",
        ),
        (
            """
            def harder(level):
                LEVEL = level
                other.level = level
            class Log:
                def __init__(self): self.level = 0
                def on_epoch_end(self, epoch): self.level = epoch
            callbacks = [Log()]
            for epoch in range(9):
                x = epoch
                update(samples)
                harder(epoch)
                setattr(other, "level", epoch)
                for callback in callbacks:
                    callback.on_epoch_end(epoch)
            """,
            "",
        ),
        (
            """
            for epoch in range(9):
                def harder():
                    samples.level = epoch
                update(samples)
                samples.seen = epoch
            """,
            "",
        ),
    ],
)  # fmt: skip
def test_what_is_changed_is_told_by_its_name(source: str, name: str, tmp_path: Path) -> None:
    assert told(tmp_path, source) == name
