"""The planned length is read from the loops around an update."""

from __future__ import annotations

import runpy
import textwrap
from pathlib import Path

import pytest

from autoaccel.runtime.script import places
from autoaccel.runtime.script.places import training_frames, user_frames
from autoaccel.runtime.script.planned import assumed_steps, loops_around, planned_rounds

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
    # Counted by what it calls, perhaps by more than one.
    "seen = [0]\ndef step():\n    update()\n    seen[0] += 32\nwhile seen[0] < 640:\n    step()": None,
    "n = 0\nwhile True:\n    update()\n    n += 1\n    if n > args.epochs:\n        break": 4,
    "for n, batch in enumerate(batches):\n    update()\n    if n == 5:\n        break": 6,
    "n = 0\nwhile True:\n    update()\n    n += 1\n    if args.epochs is not None and n >= args.epochs: break": 3,
    "n, done = 0, False\nwhile True:\n    update()\n    n += 1\n    if done or n >= args.epochs: break": 3,
    "n, best = 0, 1\nwhile True:\n    update()\n    n += 1\n    if best is not None and n >= args.epochs: break": None,
    "n, done = 0, True\nwhile True:\n    update()\n    n += 1\n    if done and n >= args.epochs: break": 3,
    "n, done = 0, False\nwhile True:\n    update()\n    n += 1\n    done = n > 7\n"
    "    if done and n >= args.epochs: break": None,
    "for n in range(50):\n    update()\n    if n >= len(batches): break": 8,
    # Counted where the loop's own code does not say it: no number is certain.
    "class T:\n    n = 0\n    def one(self):\n        update()\n        self.n += 1\nt = T()\n"
    "def fit():\n    for e in range(9):\n        for b in batches:\n            t.one()\n"
    "            if t.n >= 20: return\nfit()": None,
    "def fit(losses):\n    for e in range(9):\n        for b in batches:\n            update()\n"
    "            losses.append(e)\n            if len(losses) == 20: return\nfit([])": None,
    "def fit(n):\n    for e in range(9):\n        for b in batches:\n            update()\n"
    "            if (n := n + 1) >= 20: return\nfit(0)": None,
    "n, args.most = 0, 9\nfor e in range(4):\n    for b in batches:\n        update()\n        n += 1\n"
    "        if args.most > 0 and n >= args.most: break\n    if args.most > 0 and n >= args.most: break": 9,
    # A generator that trains ends with the loop that goes through it.
    "def learn():\n    for e in range(9):\n        for b in batches:\n            update()\n            yield b\n"
    "for n, loss in zip(range(20), learn()):\n    pass": None,
    # Patience is no plan, nor is anything that begins anew in its loop.
    "bad = 0\nfor e in range(9):\n    for b in batches: update()\n    bad += 1\n    if e % 2: bad = 0\n"
    "    if bad >= 5: break": 63,
    "class S:\n    bad, patience = 0, 5\ns = S()\nfor e in range(9):\n    for b in batches: update()\n"
    "    if s.bad >= s.patience: break": 63,
    "from itertools import islice\nfor e in range(3):\n    for b in islice(batches, 100): update()": 21,
    "from itertools import islice\nfor e in range(3):\n    for b in islice(batches, 5): update()": 15,
    # As many rounds as another loop says each time, or others.
    "parts = {'a': [1, 2], 'b': [3, 4]}\nfor name in parts:\n    for b in parts[name]: update()": 4,
    "parts = {'a': [1, 2], 'b': [3]}\nfor name in parts:\n    for b in parts[name]: update()": None,
    "stages = [(3, 2), (5, 2)]\nfor e in (0, 1):\n    for s in stages:\n        for b in range(s[1]): update()": 8,
    "stages = [(3, 2), (5, 9)]\nfor e in (0, 1):\n    for s in stages:\n        for b in range(s[1]): update()": None,
    # A limit that is looked at once an epoch, and one that is looked at in each round.
    "n = 0\nwhile n < 10:\n    for batch in batches:\n        update()\n        n += 1": 14,
    "n = 0\nwhile n < 10:\n    for batch in batches:\n        update()\n        n += 1\n        if n >= 10: break": 10,
    # One count over all epochs, beside a guard, in both loops or in the inner one.
    "n, most = 0, 9\nfor e in range(4):\n    for b in batches:\n        update()\n        n += 1\n"
    "        if most > 0 and n >= most: break\n    if most > 0 and n >= most: break": 9,
    "n, most = 0, -1\nfor e in range(4):\n    for b in batches:\n        update()\n        n += 1\n"
    "        if most > 0 and n >= most: break": 28,
    "n = 0\nfor e in range(4):\n    for b in batches:\n        update()\n        n += 1\n        if n >= 50: break": 28,
    # Only the epoch is left: each later one makes a step before it looks at the count.
    "n = 0\nfor e in range(4):\n    for b in batches:\n        update()\n        n += 1\n        if n >= 9: break": 11,
    "n = 0\nfor e in range(4):\n    for b in batches:\n        if n >= 9: break\n        update()\n        n += 1": 9,
    # Left by other means.
    "def f():\n    n = 0\n    while True:\n        for b in batches:\n            update()\n            n += 1\n"
    "            if n >= 9: return\nf()": 9,
    "def f():\n    for e in range(4):\n        for n, b in enumerate(batches):\n            update()\n"
    "            if n + 1 == 5: return\nf()": 5,
    "import sys\ndef f():\n    for n, b in enumerate(batches):\n        if n == 3: sys.exit()\n        update()\n"
    "try:\n    for e in range(4): f()\nexcept SystemExit: pass": 3,
    "n, done = 0, False\nwhile not done:\n    for b in batches:\n        update()\n        n += 1\n"
    "        if n == 9:\n            done = True\n            break": 9,
    "def forever(things):\n    while True: yield from things\n"
    "for n, b in enumerate(forever(batches)):\n    update()\n    if n + 1 >= 50: break": 50,
    "n = 0\nwhile True:\n    if n < 5:\n        update()\n        n += 1\n    else: break": 5,
    "dry = True\nfor e in range(4):\n    for b in batches:\n        update()\n        if dry: break": 4,
    "dry = False\nfor e in range(4):\n    for b in batches:\n        update()\n        if dry: break": 28,
    # Counts that grow by other numbers, begin elsewhere, or are compared before they grow.
    "n = 0\nwhile n < 100:\n    update()\n    n += 30": 4,
    "n = 1\nwhile n <= 10:\n    update()\n    n = n + 1": 10,
    "n = 0\nwhile n < 10:\n    n += 1\n    update()": 10,
    "seen = 0\nfor b in range(99):\n    update()\n    seen += 32\n    if seen >= 100: break": 4,
    "n = 5\nfor b in range(99):\n    update()\n    n += 1\n    if n >= 9: break": 4,
    # What a count is compared with cannot be read: no number is better than a wrong one.
    "def most(): return 9\nfor n in range(99):\n    update()\n    if n > most(): break": None,
    "seen = 0\nfor n in range(99):\n    update()\n    seen += len(str(n)) * 7\n    if seen > 9: break": None,
    "import time\nt = time.time()\nfor n in range(99):\n    update()\n    if time.time() - t > 60: break": None,
    "n = 0\nfor e in range(99):\n    for b in batches:\n        update()\n        n += 1\n    if n > 20: break": None,
    # Early stopping again: the best epoch is no limit.
    "best = 0\nfor e in range(9):\n    update()\n    if e < 3: best = e\n    if e - best > 2: break": 9,
    # Neither is what ends a loop that the update is not in.
    "for e in range(9):\n    update()\n    for n in range(5):\n        if n > 2: break": 9,
    "for e in range(4):\n    n = 0\n    for b in batches:\n        update(); n += 1\n        if n >= 5: break": 20,
    "for e in range(4):\n    for b in batches:\n        any(update() for one in [1, 2])": 28,
    "for lr in [0.1, 0.01]:\n    for batch in batches:\n        update()": 14,
    "for lr in [0.1, *batches]:\n    update()": None,
    # One of the phases trains.
    "for phase in ['train', 'val']:\n    for batch in batches:\n        if phase == 'train':\n            update()": 7,
    "parts = 'ab'\nfor e in range(2):\n    for part in parts:\n        if part == 'a':\n            update()": 2,
    "parts = 'ab'\nfor part in parts:\n    if part == 'c':\n        pass\n    update()": 2,
    # Early stopping is not the length that is planned.
    "bad = 0\nfor n in range(9):\n    update()\n    if n % 2:\n        bad += 1\n    if bad >= 2: break": 9,
    "def forever():\n    while True: yield 1\nfor n, one in zip(range(8), forever()):\n    update()": 8,
    "import itertools\nfor one in itertools.islice(itertools.count(), 6):\n    update()": 6,
    "import torch\nx = torch.ones(20, 3)\nfor i in range(0, x.size(0) - 1, x.shape[1]):\n    update()": 7,
    "class C:\n    EPOCHS = 5\nc = C()\nfor epoch in range(c.EPOCHS):\n    update()": 5,
    "class C:\n    @property\n    def epochs(self): return 5\nfor epoch in range(C().epochs):\n    update()": None,
    "for batch in iter(lambda: 1, 0):\n    update()\n    break": None,
    "for batch in (each for each in batches):\n    update()": None,
    "def pairs(things): return iter([1])\nfor batch in pairs(batches):\n    update()": None,
    "update()": None,
}


@pytest.mark.parametrize(("source", "rounds"), CASES.items())
def test_it_is_the_product_of_the_loops(source: str, rounds: int | None, tmp_path: Path) -> None:
    assert rounds_in(tmp_path, source) == rounds


PACKAGE = """\
class Net:
    def fit(self, batches, epochs):
        for _ in range(epochs):
            self.run_epoch(batches)

    def run_epoch(self, iterator):
        for batch in iterator:
            self.train_step(batch)

    def train_step(self, batch):
        for name in self.optimizers:
            update()

class Forever(Net):
    optimizers = ["optimizer"]

    def fit(self, batches, epochs):
        while True:
            self.run_epoch(batches)
            epochs -= 1
            if not epochs:
                return

def command(function):
    while True:
        return function()

def twice(function):
    for _ in range(2):
        function()
"""


@pytest.mark.parametrize(
    ("source", "rounds"),
    [
        ("class Own(Net):\n    optimizers = ['optimizer']\nOwn().fit(batches, 3)", 21),
        ("class Own(Net):\n    def train_step(self, batch): update()\nOwn().fit(batches, 3)", 21),
        ("Forever().fit(batches, 3)", None),
        # Even if the user's code calls it several times.
        ("for fold in range(5):\n    Forever().fit(batches, 3)", None),
        ("def main():\n    for batch in batches:\n        update()\ncommand(main)", 7),
        ("def main():\n    for batch in batches:\n        update()\ntwice(main)", 14),
        ("def main():\n    update()\ncommand(main)", None),
    ],
)
def test_loops_of_an_installed_package_count(
    source: str, rounds: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int | None] = []

    def update() -> None:
        if not found:
            frames = [frame for frame in training_frames() if frame.f_code.co_filename in (str(script), str(package))]
            found.append(planned_rounds(loops_around(frames)))

    package, script = tmp_path / "site" / "package.py", tmp_path / "train.py"
    package.parent.mkdir()
    package.write_text(PACKAGE)
    script.write_text("batches = [0] * 7\n" + source)
    monkeypatch.setattr(places, "_PACKAGES", (str(package.parent),))
    monkeypatch.setattr(places, "_INSTALLED", (str(package.parent),))
    installed = runpy.run_path(str(package), {"update": update})
    runpy.run_path(str(script), {name: one for name, one in installed.items() if not name.startswith("__")})
    assert found == [rounds]


@pytest.mark.parametrize(
    ("steps_per_epoch", "step_seconds", "steps"),
    [
        (18, 0.1, 180),  # ten epochs
        (None, 0.1, 1000),
        (156_000_000, 0.1, 864_000),  # ten epochs would take five years: a day
        (3, 100_000.0, 1),
    ],
)
def test_what_is_assumed_takes_a_day_at_most(steps_per_epoch: int | None, step_seconds: float, steps: int) -> None:
    assert assumed_steps(steps_per_epoch, step_seconds) == steps
