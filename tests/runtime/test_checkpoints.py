"""A training that goes on from a checkpoint ends as one that was never interrupted."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.checkpoints import Checkpoints, begins_anew
from autoaccel.runtime.loop import Loop, evaluate
from autoaccel.runtime.randomness import seed_all, state_of
from autoaccel.runtime.training import Training

INPUTS = torch.randn(72, 8, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(INPUTS, (INPUTS.sum(dim=1) > 0).long())


def training(**changes: object) -> Training:
    """Return one with dropout, momentum and a schedule: 5 steps an epoch, 3 epochs."""
    torch.manual_seed(1)
    return Training(**{
        "model": nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 2)),
        "train_data": DATA, "eval_data": DATA, "batch_size": 16, "epochs": 3, "loss": nn.CrossEntropyLoss(),
        "optimizer": lambda parameters: torch.optim.Adam(parameters, lr=1e-2), "evaluate": "cross_entropy",
        "scheduler": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        **changes,
    })  # fmt: skip


def by_loader() -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(DATA, batch_size=16, shuffle=True)


@pytest.mark.parametrize("stop", [1, 5, 7, 14])
@pytest.mark.parametrize("settings", [{}, {"optimizer.accumulation": 2}, {"loader.workers": 1}])
@pytest.mark.parametrize("changes", [{}, {"train_data": by_loader}, {"scheduler_interval": "step"}])
def test_it_ends_with_the_same_weights(
    stop: int, settings: Settings, changes: dict[str, Callable[[], object]], tmp_path: Path
) -> None:
    torch.manual_seed(5)
    whole = Loop(training(**changes), Applied(settings), seed=3)
    while whole.steps_done < whole.planned_steps:
        whole.step()

    torch.manual_seed(5)
    checkpoints = Checkpoints(tmp_path / "checkpoint", 0.0, seed=3)
    first = Loop(training(**changes), Applied(settings), seed=3)
    while first.steps_done < min(stop, first.planned_steps):
        first.step()
        checkpoints.keep(first)

    torch.manual_seed(6)
    again = Loop(training(**changes), Applied(settings), seed=3, resumed=checkpoints.load())
    assert again.steps_done == first.steps_done
    while again.steps_done < again.planned_steps:
        again.step()
    for name, tensor in whole.plain_model.state_dict().items():
        assert torch.equal(again.plain_model.state_dict()[name], tensor), name
    assert again.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"]


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples with noise of every kind of random number."""

    def __len__(self) -> int:
        return len(DATA)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, target = DATA[index]
        return inputs + torch.rand(()) + random.random() + float(numpy.random.randn()), target


def interrupted(made: Callable[[], Training], settings: Settings, then: Settings, stop: int, path: Path) -> Loop:
    """Return the loop that goes on after so many steps, under other settings if they differ."""
    seed_all(5)
    checkpoints = Checkpoints(path / "checkpoint", 0.0, seed=3)
    first = Loop(made(), Applied(settings), seed=3)
    for _ in range(stop):
        first.step()
    checkpoints.keep(first)
    seed_all(6)
    return Loop(made(), Applied(then), seed=3, resumed=checkpoints.load())


def finish(loop: Loop) -> Loop:
    while loop.steps_done < loop.planned_steps:
        loop.step()
    return loop


def test_every_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    """Noise from numpy or Python's random began anew, so that the training was another one, silently."""
    again = finish(interrupted(lambda: training(train_data=Noisy()), {}, {}, 7, tmp_path))
    seed_all(5)
    whole = finish(Loop(training(train_data=Noisy()), Applied({}), seed=3))
    assert again.last_loss == whole.last_loss


def test_the_scale_of_float16_goes_on(tmp_path: Path) -> None:
    """It began at 65,536 again: the first steps after it were left out, and the training was another one."""
    float16: Settings = {"precision.autocast": "float16"}
    again = interrupted(training, float16, float16, 2, tmp_path)
    (scaler,) = again.applied.state_dict().values()
    assert scaler["_growth_tracker"] == 2


def test_another_batch_size_goes_on_at_the_same_sample(tmp_path: Path) -> None:
    """It counted the steps of the checkpoint as steps of the new size: samples were left out or trained on twice."""
    made = functools.partial(training, batch_size=8)
    again = interrupted(made, {}, {"optimizer.batch_factor": 2.0}, 12, tmp_path)  # 9 steps an epoch; 24 samples
    assert (again.steps_done, again.steps_per_epoch, again.planned_steps) == (5 + 1, 5, 15)
    generator = torch.Generator().manual_seed(3)
    orders = [list(RandomSampler(range(72), generator=generator)) for _ in range(2)]
    assert begins_anew(again, Checkpoints(tmp_path / "checkpoint", 0.0, 3).load() or again.progress()) == [
        "it ran with other settings (optimizer.batch_factor nothing -> 2)",
        "steps have 16 samples instead of 8: it resumes at the same sample, with the same learning rate",
    ]
    assert finish(again).samples_done == 3 * 72
    looked_at = interrupted(made, {}, {"optimizer.batch_factor": 2.0}, 12, tmp_path)
    assert torch.equal(looked_at.next_batch()[0], INPUTS[orders[1][24:32]])  # what is left of its batch
    assert torch.equal(looked_at.next_batch()[0], INPUTS[orders[1][32:48]])


def test_a_schedule_of_steps_does_not_go_on_with_another_batch_size(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="its schedule counts steps of 16 samples, but steps now have 32"):
        interrupted(
            lambda: training(scheduler_interval="step"), {}, {"optimizer.batch_factor": 2.0}, 2, tmp_path
        )  # fmt: skip


def test_the_form_of_an_update_is_that_of_the_settings(tmp_path: Path) -> None:
    """The optimizer's state brought back the form that it had been saved under, and the new setting did nothing."""
    again = interrupted(training, {}, {"optimizer.fused": True}, 2, tmp_path)
    assert again.optimizer.param_groups[0]["fused"] is True
    finish(again)


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return iter([DATA[index] for index in range(72)])


def test_what_is_not_exact_is_said(tmp_path: Path) -> None:
    """A stream began anew, workers drew other noise, other settings were in force: nobody heard of it."""

    def said(settings: Settings, then: Settings, **changes: object) -> list[str]:
        again = interrupted(lambda: training(**changes), settings, then, 2, tmp_path)
        resumed = Checkpoints(tmp_path / "checkpoint", 0.0, seed=3).load()
        assert resumed is not None
        return begins_anew(again, resumed)

    assert said({}, {}) == []
    assert said({"loader.workers": 1}, {"loader.workers": 1}) == [
        "loader workers draw different random numbers, if samples depend on any"
    ]
    assert said({}, {"precision.autocast": "bfloat16"}) == [
        "it ran with other settings (precision.autocast nothing -> bfloat16)"
    ]
    assert said({}, {}, train_data=Stream(), steps_per_epoch=4) == ["the data is a stream, which starts over"]


def test_it_is_written_now_and_then_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoints = Checkpoints(path, 3600.0, seed=0)
    assert checkpoints.load() is None
    loop = Loop(training(), Applied({}), seed=0)
    while loop.steps_done < loop.planned_steps:
        assert not path.exists()
        loop.step()
        checkpoints.keep(loop)
    progress = checkpoints.load()
    assert progress is not None and progress.steps_done == loop.planned_steps
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_what_is_no_checkpoint_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_text("weights")
    with pytest.raises(BadRequestError, match="must be a checkpoint written by autoaccel"):
        Checkpoints(path, 0.0, seed=0).load()
    torch.save({"weight": torch.ones(1)}, path)
    with pytest.raises(BadRequestError, match="must be a checkpoint"):
        Checkpoints(path, 0.0, seed=0).load()
    loop = Loop(training(), Applied({}), seed=0)
    Checkpoints(path, 0.0, seed=0).keep(loop)
    with pytest.raises(BadRequestError, match="with seed 0, not 4"):
        Checkpoints(path, 0.0, seed=4).load()


def test_looking_at_the_metric_changes_no_random_number() -> None:
    """A metric that draws from numpy's or Python's generator made a training that is watched another one."""

    def draws(model: nn.Module, loader: object) -> float:
        return float(torch.rand(())) + numpy.random.random() + random.random()

    watched = training(evaluate=draws)
    before = state_of()
    evaluate(watched, watched.model, torch.device("cpu"))
    assert state_of() == before
