"""What is told of trainings that packages make: their models, loaders that iterate their own way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.workers.starter import WorkerStarter
from tests.cases import rest_is_long
from tests.runtime.script.asking import describe
from tests.runtime.script.test_first_table import BEGIN

Starter = Callable[..., WorkerStarter]
PARTS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 1)
        self.width = self.head(torch.zeros(1, 8)).shape[1]

    def forward(self, x):
        return self.head(self.body(x))

    def loss(self, x):
        return self.head(self.body(x)).square().mean()

model = Net()
kept = nn.ModuleList([model.body, model.head])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(480):
    optimizer.zero_grad()
    LOSS.backward()
    optimizer.step()
"""
TWO_MODELS = """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.critic = nn.Linear(8, 8), nn.Bilinear(8, 8, 1)

both = Both()
optimizers = [torch.optim.SGD(part.parameters(), lr=0.01) for part in (both.generator, both.critic)]
for step in range(480):
    for optimizer in optimizers:
        optimizer.zero_grad()
        both.critic(x, both.generator(x)).mean().backward()
        optimizer.step()
"""
LOSS_AROUND_MODEL = """
class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return nn.functional.mse_loss(self.model(x), y)

class Trainer:  # as transformers has it
    __module__ = "transformers.trainer"

    def __init__(self, model, loss):
        self.model, self.loss = model, loss

    def train(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        for step in range(480):
            optimizer.zero_grad()
            self.loss(x, x[:, :1]).backward()
            optimizer.step()

Trainer(model, Loss(model)).train()
"""
OWN_ITERATION = {
    "never begun anew": """
class Repeat:
    def __init__(self, batches):
        self.sampler = batches

    def __iter__(self):
        while True:
            yield from iter(self.sampler)

class Loader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)
""",
    "wrapped": """
class Changed:
    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.iterator)

class Loader(DataLoader):
    def _get_iterator(self):
        return Changed(super()._get_iterator())
""",
    "torch's iterator alone": """
class Loader(DataLoader):
    def __iter__(self):
        return self._get_iterator()
""",
}
TRAINS_ON_IT = """
loader = Loader(loader.dataset, batch_size=10, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(20):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("loss", rest_is_long(["model(x).square().mean()", "model.loss(x)"]))
def test_a_models_parts_that_are_called_alone_are_no_models(
    loss: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + PARTS.replace("LOSS", loss))))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == ["Net"]


@pytest.mark.long
def test_a_loss_around_the_model_of_a_trainer_is_no_model(
    script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + LOSS_AROUND_MODEL)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == ["Sequential"]


def test_parts_with_optimizers_of_their_own_are_models(
    script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + TWO_MODELS)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert sorted(model.kind for model in facts.script.models) == ["Bilinear", "Linear"]


@pytest.mark.parametrize("how", rest_is_long(OWN_ITERATION))
def test_a_loader_with_an_iteration_of_its_own_is_seen(
    how: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + OWN_ITERATION[how] + TRAINS_ON_IT)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [loader.feeds for loader in facts.script.loaders] == [True]
    assert (facts.script.steps_per_epoch, facts.batch_size, facts.script.planned_steps) == (24, 10, 480)
