"""Settings that harm a training, or slow it down, some time after they were taken on: they are given up."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from autoaccel.live.losses import BEFORE, WINDOW, Losses
from autoaccel.records.live import LiveTried
from tests.cases import rest_is_long
from tests.live.test_live_script import SLOW, SPACE, outputs, tried_in

HARMED = """
import sys, time
import torch
from torch import nn
from autoaccel.live.following import tune_as_it_trains
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
live = tune_as_it_trains(
    WorkerSpec(TuneLive("space.toml", "autoaccel-runs/harmed-1"), Script("/train.py", "train.py", "/", "0" * 64)), print
)

SLOW
print("loss", loss.item(), "in use", calls)
print("autoaccel:", live.summary())
"""


def harmed(folder: Path, harm: str, steps: int = 800) -> tuple[str, list[LiveTried]]:
    (folder / "space.toml").write_text(SPACE)
    done = outputs(folder, "-c", HARMED.replace("HARM", harm).replace("SLOW", SLOW), str(steps))
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
    assert end_of(printed)[1] < 400


def test_losses_that_scatter_or_rise_by_themselves_are_no_harm() -> None:
    losses = Losses()
    falling = [2.0 / (1 + 0.01 * step) * (1 + 0.3 * math.sin(step)) for step in range(600)]
    assert not any(losses.add(loss, rounds=number % 20 > 10 or number > 200) for number, loss in enumerate(falling))
    alone = Losses()
    assert not any(alone.add(float(step), rounds=False) for step in range(200))


def test_a_loss_above_all_before_is_harm() -> None:
    losses = Losses()
    for step in range(BEFORE):
        assert not losses.add(1.0 + 0.1 * (step % 2), rounds=False)
    losses.change()
    said = [losses.add(1.2, rounds=True) for _ in range(WINDOW)]
    assert said[:-1] == [""] * (WINDOW - 1)
    assert "the loss rose to 1.2" in said[-1]
    assert "not finite" in losses.add(math.nan, rounds=True)


def test_a_first_step_whose_loss_was_not_heard_hides_no_harm() -> None:
    losses = Losses()
    losses.add(math.nan, rounds=False)
    losses.add(2.0, rounds=False)
    losses.change()
    assert not losses.add(2.0, rounds=True)
    assert "not finite" in losses.add(math.nan, rounds=True)


def test_a_run_that_begins_with_settings_that_round_is_judged_by_its_own_losses() -> None:
    losses = Losses()
    assert not losses.add(math.nan, rounds=True)
    assert not losses.add(2.0, rounds=True)
    assert "not finite" in losses.add(math.inf, rounds=True)
    without = Losses()
    assert not any(without.add(math.nan, rounds=number > 5) for number in range(50))


def test_a_training_that_diverges_by_itself_is_left_alone() -> None:
    losses = Losses()
    for _ in range(BEFORE):
        losses.add(math.nan, rounds=False)
    assert not losses.add(math.nan, rounds=True)
