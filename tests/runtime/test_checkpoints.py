"""A training that goes on from a checkpoint ends as one that was never interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.checkpoints import Checkpoints
from autoaccel.runtime.loop import Loop
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
    with pytest.raises(BadRequestError, match="must be a checkpoint that autoaccel has written"):
        Checkpoints(path, 0.0, seed=0).load()
    torch.save({"weight": torch.ones(1)}, path)
    with pytest.raises(BadRequestError, match="must be a checkpoint"):
        Checkpoints(path, 0.0, seed=0).load()
    loop = Loop(training(), Applied({}), seed=0)
    Checkpoints(path, 0.0, seed=0).keep(loop)
    with pytest.raises(BadRequestError, match="from seed 0, not 4"):
        Checkpoints(path, 0.0, seed=4).load()
