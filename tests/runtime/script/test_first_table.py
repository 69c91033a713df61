"""What is told of a script before it is tuned: steps, epochs and batches as they are, whatever comes before them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoaccel.records.messages import Failure
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import describe

BEGIN = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=10, shuffle=True)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
"""
OPTIMIZERS = """
optimizers = [torch.optim.Adam([parameter]) for parameter in model.parameters()]
for epoch in range(20):
    for inputs, targets in loader:
        model.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        HOW
"""
STATISTICS = """
mean = torch.cat([inputs for _ in range(2) for inputs, _ in loader]).mean(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(20):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs - mean), targets).backward()
        optimizer.step()
"""
AHEAD = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def ahead(batches):
    batches = iter(batches)
    current = next(batches)
    for following in batches:
        yield current
        current = following
    yield current

for epoch in range(20):
    for inputs, targets in ahead(loader):
        time.sleep(1.6)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
EVALUATION = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    time.sleep(0.05)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
    if step % 200 == 0:
        with torch.no_grad():
            model(x)
            time.sleep(4)
"""
CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=REENTRANT)
        return self.head(x)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(480):
    optimizer.zero_grad()
    model(x.requires_grad_()).square().mean().backward()
    optimizer.step()
"""
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
SPAWN = """
def work(rank):
    pass

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, nprocs=1)
"""

Starter = Callable[..., WorkerStarter]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(OPTIMIZERS.replace("HOW", "for one in optimizers: one.step()"), id="several optimizers"),
        pytest.param(
            OPTIMIZERS.replace("HOW", "any(one.step() for one in optimizers)"), id="generator", marks=pytest.mark.long
        ),
        pytest.param(
            OPTIMIZERS.replace("HOW", "[one.step() for one in optimizers]"), id="comprehension", marks=pytest.mark.long
        ),
        pytest.param(STATISTICS, id="statistics"),
        pytest.param(AHEAD, id="a batch ahead", marks=pytest.mark.long),
    ],
)
def test_steps_and_batches_are_counted_right(source: str, script: Callable[..., Script], starter_of: Starter) -> None:
    facts = describe(starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    if "ahead" not in source:  # what a generator of its own yields, nobody has counted
        assert facts.script.planned_steps == 480
    assert (facts.script.steps_per_epoch, facts.batch_size) == (24, 10)
    assert not any("accumulates" in does for does in facts.script.does)


def test_an_evaluation_after_the_first_step_is_no_steps_time(
    script: Callable[..., Script], starter_of: Starter
) -> None:
    facts = describe(starter_of(script(BEGIN + EVALUATION)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert 0.05 <= facts.script.step_seconds < 1.0


@pytest.mark.parametrize("reentrant", ["False", pytest.param("True", marks=pytest.mark.long)])
def test_blocks_under_activation_checkpointing_are_no_models(
    reentrant: str, script: Callable[..., Script], starter_of: Starter
) -> None:
    facts = describe(starter_of(script(BEGIN + CHECKPOINTED.replace("REENTRANT", reentrant))))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == ["Net"]


@pytest.mark.parametrize("loss", ["model(x).square().mean()", "model.loss(x)"])
def test_a_models_parts_that_are_called_alone_are_no_models(
    loss: str, script: Callable[..., Script], starter_of: Starter
) -> None:
    facts = describe(starter_of(script(BEGIN + PARTS.replace("LOSS", loss))))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == ["Net"]


def test_a_loss_around_the_model_of_a_trainer_is_no_model(script: Callable[..., Script], starter_of: Starter) -> None:
    facts = describe(starter_of(script(BEGIN + LOSS_AROUND_MODEL)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == ["Sequential"]


def test_parts_with_optimizers_of_their_own_are_models(script: Callable[..., Script], starter_of: Starter) -> None:
    facts = describe(starter_of(script(BEGIN + TWO_MODELS)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert sorted(model.kind for model in facts.script.models) == ["Bilinear", "Linear"]


@pytest.mark.parametrize("how", OWN_ITERATION)
def test_a_loader_with_an_iteration_of_its_own_is_seen(
    how: str, script: Callable[..., Script], starter_of: Starter
) -> None:
    facts = describe(starter_of(script(BEGIN + OWN_ITERATION[how] + TRAINS_ON_IT)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [loader.feeds for loader in facts.script.loaders] == [True]
    assert (facts.script.steps_per_epoch, facts.batch_size, facts.script.planned_steps) == (24, 10, 480)


def test_a_training_in_processes_of_its_own_gets_the_sentence_that_helps(
    script: Callable[..., Script], starter_of: Starter
) -> None:
    found = describe(starter_of(script(BEGIN + SPAWN)))
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message.startswith("it trains in processes that it starts itself, with torch.multiprocessing")
    assert "autoaccel tune torchrun" in found.message
