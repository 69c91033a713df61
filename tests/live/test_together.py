"""Processes that train together change their settings at the same step, and train as they would without."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from autoaccel.live.blocks import Steps, StepTaken, StepWanted
from autoaccel.live.together import Follower, Leader
from autoaccel.live.tuner import LiveTuner
from autoaccel.records.recipe import read_recipe
from autoaccel.records.settings import Settings, changed
from autoaccel.runtime.script.together import NOTHING_MORE, SwitchAt, Together
from tests.live.test_live_script import outputs

OWN: Settings = {"memory.keep_freed": False, "threads.intra_op": 2}


class Board:
    """What processes tell one another."""

    def __init__(self) -> None:
        self.switches: list[SwitchAt] = []
        self.begun = self.failed = False


class OnBoard:
    """One of two processes, which reaches the other by a board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.heard = 0

    def begin(self) -> None:
        self.board.begun = True

    def all_hear(self) -> bool:
        return self.board.begun

    def tell(self, switch: SwitchAt) -> None:
        self.board.switches.append(switch)
        if self.board.failed:
            raise RuntimeError("another of the processes that train together cannot be tuned")

    def hear(self) -> SwitchAt | None:
        if len(self.board.switches) <= self.heard:
            return None
        self.heard += 1
        return self.board.switches[self.heard - 1]


def test_when_what_decides_fails_before_it_begins_the_others_look_for_nothing_any_more() -> None:
    board = Board()
    OnBoard(board).tell(NOTHING_MORE)
    follower = Follower(cast(Together, OnBoard(board)), OWN, made=3)
    assert list(follower.steps()) == []
    assert follower.best == OWN


class Changing:
    """Wants other settings now and then, and hears what steps under them took."""

    def __init__(self, seed: int, changes: int) -> None:
        self.best = OWN
        self.has_searched = False
        self.sent: list[tuple[Settings, float | None]] = []
        self._chance = random.Random(seed)
        self._changes = changes

    def rounds(self, settings: Settings) -> bool:
        return False

    def steps(self) -> Steps[None]:
        for _ in range(self._changes):
            wanted: Settings = {**OWN, "memory.keep_freed": self._chance.random() < 0.5,
                                "threads.intra_op": self._chance.choice((1, 2))}  # fmt: skip
            for _ in range(self._chance.randrange(1, 4)):
                made = yield StepWanted(wanted)
                self.sent.append((wanted, made.seconds))
            self.best = wanted


def made_by(steps: Steps[None], best: object) -> Iterator[Settings]:
    """Yield the settings of each step, told as the seconds that it takes: the number of its threads."""
    try:
        wanted = next(steps)
        while True:
            yield wanted.settings
            wanted = steps.send(StepTaken(float(wanted.settings["threads.intra_op"])))
    except StopIteration:
        while True:
            yield best.best  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(20))
def test_all_make_the_same_step_under_the_same_settings_whoever_is_ahead(seed: int) -> None:
    chance, board = random.Random(seed), Board()
    tuner = Changing(seed, changes=12)
    leader = Leader(cast(LiveTuner, tuner), cast(Together, OnBoard(board)), OWN, made=7)
    late = chance.randrange(5)  # steps after which the other is ready
    follower = Follower(cast(Together, OnBoard(board)), OWN, made=7 + late)
    led, followed = [], [OWN] * late
    first, second = made_by(leader.steps(), leader), made_by(follower.steps(), follower)
    led += [next(first) for _ in range(late)]
    for _ in range(80):
        # Both make a step before either makes the one after it; who begins it first is open.
        for who in chance.sample(("first", "second"), 2):
            (led if who == "first" else followed).append(next(first if who == "first" else second))
    assert led == followed
    assert len({tuple(sorted(one.items())) for one in led}) > 1
    assert led[-1] == tuner.best
    assert all(seconds == settings["threads.intra_op"] for settings, seconds in tuner.sent)


def test_when_one_can_be_tuned_no_more_all_go_back_to_their_own_settings() -> None:
    board = Board()
    leader = Leader(cast(LiveTuner, Changing(1, 12)), cast(Together, OnBoard(board)), OWN, made=0)
    follower = Follower(cast(Together, OnBoard(board)), OWN, made=0)
    second = made_by(follower.steps(), follower)
    next(second)
    steps = leader.steps()
    wanted = next(steps)
    for _ in range(10):
        next(second)
        wanted = steps.send(StepTaken(1.0))
    assert wanted.settings != OWN or follower.best != OWN
    board.failed = True
    with pytest.raises(RuntimeError, match="cannot be tuned"):
        while True:
            steps.send(StepTaken(1.0))
    assert [next(second) for _ in range(4)][-1] == OWN


SCRIPT = """
import pathlib, resource, sys
import torch
from torch import distributed, nn

distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
faults, losses = [], []
for step in range(int(sys.argv[1])):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    scratch = torch.ones(9 << 20)  # more than the largest block that the C library ever keeps by itself
    inputs = torch.randn(32, 64) * scratch[:64]
    loss = nn.functional.cross_entropy(model(inputs), torch.arange(32) % 10)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del scratch
    losses.append(loss.item().hex())
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
folder = pathlib.Path(sys.argv[2])
(folder / f"losses-{rank}").write_text("\\n".join(losses))
(folder / f"kept-{rank}").write_text(str(next((step for step, count in enumerate(faults) if count < 4_500), None)))
(folder / f"last-{rank}").write_text(str(faults[-1]))
distributed.destroy_process_group()
"""
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def trained(folder: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Return what came of a run, and what its processes have written."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    for path in out.iterdir():
        path.unlink()
    done = outputs(folder, *command, "140", str(out), quick=True)
    assert done.returncode == 0, done.stderr
    return done, {path.name: path.read_text() for path in sorted(out.iterdir())}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is kept by glibc alone")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("-m", *TORCHRUN, "-m", "autoaccel", "run", "train.py", "--no-history", "--"),
                     id="within", marks=pytest.mark.long),
        pytest.param(("-m", "autoaccel", "run", "--no-history", "-m", TORCHRUN[0], "--", *TORCHRUN[1:], "train.py"),
                     id="around", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_processes_of_a_launcher_keep_memory_from_then_on(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    _, plain = trained(tmp_path, "-m", *TORCHRUN, "train.py")
    done, live = trained(tmp_path, *command)
    assert (live["losses-0"], live["losses-1"]) == (plain["losses-0"], plain["losses-1"])
    assert plain["kept-0"] == plain["kept-1"] == "None"
    # Both change at the same step; how much free memory each has at hand by then is another matter.
    assert abs(int(live["kept-0"]) - int(live["kept-1"])) <= 3
    said = [line for line in done.stderr.splitlines() if line.startswith("autoaccel:")]
    assert len(said) == 2, done.stderr  # one of them tells, at its start and at its end
    if command[1] == "autoaccel":  # alone on its cores: beside other tests, its steps may seem to become slower
        assert max(int(live["last-0"]), int(live["last-1"])) < 4_500
        assert "memory.keep_freed=on" in said[1]
    (run,) = (tmp_path / "autoaccel-runs").iterdir()
    recipe = read_recipe(run / "recipe.json")
    assert changed(recipe.settings, recipe.baseline.settings).keys() <= {"memory.keep_freed"}
