"""Train under knobs of another package, which is installed: nothing in autoaccel knows their names."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.utils.data import TensorDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Settings
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.checkpoints import begins_anew
from autoaccel.runtime.loop import Loop
from autoaccel.runtime.training import Training
from autoaccel.runtime.user_code import read_user_code

INPUTS = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
BROUGHT: Settings = {"brought.batch": 2.0, "brought.parts": 2, "brought.momentum": 0.9, "brought.scale": 1024.0}
COPIES: Settings = {"brought.copies": True}


def training(batch_size: int = 8, momentum: float = 0.5) -> Training:
    torch.manual_seed(1)
    data = TensorDataset(INPUTS, INPUTS.sum(dim=1, keepdim=True))
    return Training(
        model=nn.Linear(4, 1),
        train_data=data,
        eval_data=data,
        batch_size=batch_size,
        epochs=2,
        loss=nn.MSELoss(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=momentum),
        evaluate=lambda model, loader: 0.5,
    )


def trained(made: Training, settings: Settings) -> Loop:
    loop = Loop(made, Applied(settings), seed=0)
    for _ in range(3):
        loop.step()
    return loop


def parts_and_factors_multiply() -> None:
    """Its own with the built-in ones; and an error names whose they are."""
    both = Applied({**BROUGHT, "optimizer.batch_factor": 0.5, "optimizer.accumulation": 2})
    assert (both.batch_factor, both.parts, both.step_samples(8), both.batch_size(8)) == (1.0, 4, 8, 2)
    for settings, said in (
        ({"brought.batch": 0.3}, "brought.batch must give a whole number"),
        ({"brought.parts": 3}, "brought.parts must divide the 8 samples"),
    ):
        try:
            Applied(settings).batch_size(8)
            raise AssertionError(settings)
        except BadRequestError as error:
            assert str(error).startswith(said), error


def it_trains_as_the_same_by_hand() -> Loop:
    """Twice the batch in two parts, another momentum, and a scale that leaves gradients as they are."""
    loop, by_hand = trained(training(), BROUGHT), trained(training(batch_size=16, momentum=0.9), {})
    assert loop.steps_per_epoch == by_hand.steps_per_epoch == 4
    for one, other in zip(loop.plain_model.parameters(), by_hand.plain_model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    return loop


def it_resumes(loop: Loop) -> None:
    """What effects have learned goes on; an argument of the optimizer is what these settings say."""
    progress = loop.progress()
    assert progress.applied == {"brought.scale": {"steps": 3}}
    again = Loop(training(), Applied({**BROUGHT, "brought.momentum": 0.25}), 0, progress)
    assert again.optimizer.param_groups[0]["momentum"] == 0.25
    assert again.applied.state_dict() == progress.applied
    # Where nobody sets it, it is what the user's own code says: not what the run before had.
    own = Loop(training(), Applied({"brought.batch": 2.0}), 0, progress)
    assert own.optimizer.param_groups[0]["momentum"] == 0.5


def copies_are_asked_of_the_effect() -> None:
    loop = trained(training(), COPIES)
    assert loop.applied.compiles and loop.applied.copies_ahead
    assert any("prefetched batch" in said for said in begins_anew(loop, loop.progress()))
    assert loop.applied.check()[0] == {"brought.copies": "3 batches"}
    found: list[dict[str, Any]] = []
    with mock.patch.object(torch.Tensor, "to", lambda tensor, *_, **how: found.append(how) or tensor):
        loop.applied.batch(torch.ones(1))
    assert found == [{"non_blocking": True}]
    state = {"weight": torch.ones(1, 4)}
    assert loop.applied.restore(nn.Linear(4, 1), state).bias is None


parts_and_factors_multiply()
it_resumes(it_trains_as_the_same_by_hand())
copies_are_asked_of_the_effect()
assert read_user_code(training()).settings["brought.momentum"] == 0.5
print("all of it works")
