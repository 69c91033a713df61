"""Settings that harm a training, or slow it down, some time after they were taken on: they are given up."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest

from autoaccel.live.losses import BEFORE, SOON, WINDOW, Losses, LossSays
from autoaccel.records.live import LiveTried
from tests.cases import rest_is_long
from tests.live.test_live_script import SLOW, SPACE, outputs, tried_in

HARMED = """
import sys, time
import torch
from torch import nn
from autoaccel.live.trainings import LiveTraining
from autoaccel.records.messages import TuneLive, WorkerSpec
from autoaccel.records.workload import Script
from autoaccel.runtime.knobs.layout import ChannelsLast

calls = 0

def batch(self, tensor):
    global calls
    calls += tensor.dim() == 4
    changed = own(self, tensor)
    HARM
    return changed

own, ChannelsLast.batch = ChannelsLast.batch, batch
live = LiveTraining(
    WorkerSpec(TuneLive("space.toml", "autoaccel-runs/harmed-1"), Script("/train.py", "train.py", "/", "0" * 64)), print
)

SLOW
print("loss", loss.item(), "in use", calls)
print("autoaccel:", live.summary())
"""


def harmed(folder: Path, harm: str, steps: int = 800, slow: str = SLOW) -> tuple[str, list[LiveTried]]:
    (folder / "space.toml").write_text(SPACE)
    done = outputs(folder, "-c", HARMED.replace("HARM", harm).replace("SLOW", slow), str(steps))
    assert done.returncode == 0, done.stderr
    return done.stdout, tried_in(folder, "harmed-1")


def end_of(printed: str) -> tuple[float, int]:
    """Return the last loss, and how often the settings were in use."""
    found = re.search(r"^loss (\S+) in use (\d+)$", printed, re.MULTILINE)
    assert found is not None, printed
    return float(found[1]), int(found[2])


@pytest.mark.long
def test_without_harm_it_is_kept(tmp_path: Path) -> None:
    printed, tried = harmed(tmp_path, "pass")
    assert [one.became for one in tried] == ["kept"], printed
    assert "x as fast as under your own settings" in printed


@pytest.mark.parametrize(
    "harm",
    rest_is_long(
        [
            pytest.param("changed = changed + 3 * torch.randn_like(changed) if calls > 250 else changed", id="noise"),
            pytest.param("changed = changed.roll(1, 0) if calls > 250 else changed", id="others' labels"),
            pytest.param("changed = changed * float('nan') if calls > 250 else changed", id="not finite"),
        ]
    ),
)
def test_what_harms_later_is_given_up_and_the_training_goes_on_from_before_it(tmp_path: Path, harm: str) -> None:
    printed, tried = harmed(tmp_path, harm)
    assert [one.became for one in tried] == ["kept", "given up"], printed
    assert "was given up: the loss" in printed
    loss, calls = end_of(printed)
    assert loss < 0.1  # it was 2.3 at first
    assert calls < 350


RISES = ("model(inputs +", "model((inputs if step < 600 else -inputs) +")
"""A training that turns to something else."""


@pytest.mark.long
def test_a_loss_that_rises_by_itself_changes_nothing(tmp_path: Path) -> None:
    printed, tried = harmed(tmp_path, "pass", slow=SLOW.replace(*RISES))
    assert [one.became for one in tried] == ["kept"], printed
    assert "given up" not in printed


@pytest.mark.long
def test_what_harms_at_once_is_left_and_the_training_goes_on_from_before_it(tmp_path: Path) -> None:
    printed, tried = harmed(tmp_path, "changed = changed * float('nan')", 300)
    assert [(one.became, one.harm) for one in tried] == [("left", "the loss is not finite")], printed
    loss, calls = end_of(printed)
    assert loss < 0.5  # it was 2.3 at first
    assert calls <= 4


@pytest.mark.long
def test_what_becomes_slow_later_is_given_up(tmp_path: Path) -> None:
    printed, tried = harmed(tmp_path, "time.sleep(0.05 if calls > 250 else 0)")
    assert [one.became for one in tried] == ["kept", "given up"], printed
    assert "it has become slower" in printed
    assert end_of(printed)[1] < 450


WELL = LossSays()


def of_level(losses: Losses, level: float, steps: int, rounds: bool = True) -> list[LossSays]:
    """Return what losses say that scatter around a level."""
    return [losses.add(level + 0.1 * (step % 2), rounds) for step in range(steps)]


def test_losses_that_scatter_or_rise_without_settings_that_round_are_no_harm() -> None:
    losses = Losses()
    falling = [2.0 / (1 + 0.01 * step) * (1 + 0.3 * math.sin(step)) for step in range(600)]
    said = [losses.add(loss, rounds=number % 20 > 10 or number > 200) for number, loss in enumerate(falling)]
    assert set(said) == {WELL}
    alone = Losses()
    assert {alone.add(float(step), rounds=False) for step in range(200)} == {WELL}


def test_a_loss_that_scatters_is_hardly_ever_doubted() -> None:
    chance, losses = random.Random(0), Losses()
    said = [losses.add(chance.gauss(1.0, 0.3), rounds=number > BEFORE) for number in range(200_000)]
    assert not any(one.harm for one in said)
    assert sum(bool(one.doubt) for one in said) <= 2


def test_a_loss_above_all_before_is_harm_soon_after_the_change() -> None:
    losses = Losses()
    assert set(of_level(losses, 1.0, BEFORE, rounds=False)) == {WELL}
    losses.change()
    said = of_level(losses, 1.2, WINDOW)
    assert said[:-1] == [WELL] * (WINDOW - 1)
    assert "the loss rose to 1.25, above the 1.1" in said[-1].harm
    assert "not finite" in losses.add(math.nan, rounds=True).harm


@pytest.mark.parametrize("is_recipe", [False, True], ids=["found in this run", "of a recipe"])
def test_later_it_is_a_doubt_though_it_was_as_high_at_the_beginning(is_recipe: bool) -> None:
    losses = Losses()
    of_level(losses, 2.0, BEFORE, rounds=is_recipe)
    losses.change()
    assert set(of_level(losses, 1.0, SOON + BEFORE)) == {WELL}
    said = [one.doubt for one in of_level(losses, 1.5, 2 * WINDOW)]
    (doubt,) = filter(None, said)
    assert re.match(r"the loss rose to 1\.\d+, above the 1\.1 that was the highest of 64 steps before", doubt)


def test_what_turns_to_something_else_again_and_again_is_doubted_less_and_less() -> None:
    losses = Losses()
    of_level(losses, 1.0, BEFORE, rounds=False)
    losses.change()
    doubts = []
    for _ in range(100):
        said = [*of_level(losses, 1.0, 100), *of_level(losses, 2.0, 100)]
        assert not any(one.harm for one in said)
        doubts.append(sum(bool(one.doubt) for one in said))
    assert doubts[0] == 1
    assert 3 < sum(doubts) < 12  # of 100


def test_a_first_step_whose_loss_was_not_heard_hides_no_harm() -> None:
    losses = Losses()
    losses.add(math.nan, rounds=False)
    losses.add(2.0, rounds=False)
    losses.change()
    assert losses.add(2.0, rounds=True) == WELL
    assert "not finite" in losses.add(math.nan, rounds=True).harm


def test_a_run_that_begins_with_settings_that_round_is_judged_by_its_own_losses() -> None:
    losses = Losses()
    assert losses.add(math.nan, rounds=True) == WELL
    assert losses.add(2.0, rounds=True) == WELL
    assert "not finite" in losses.add(math.inf, rounds=True).harm
    without = Losses()
    assert {without.add(math.nan, rounds=number > 5) for number in range(50)} == {WELL}


def test_a_training_that_diverges_by_itself_is_left_alone() -> None:
    losses = Losses()
    for _ in range(BEFORE):
        losses.add(math.nan, rounds=False)
    assert losses.add(math.nan, rounds=True) == WELL
