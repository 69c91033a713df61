"""What is told of a script before it is tuned: steps, epochs and batches as they are, whatever comes before them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoaccel.records.messages import Failure
from autoaccel.records.progress import ScriptSeen
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.report.script import script_rows
from autoaccel.runtime.script.seen import growth_of
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
ACCUMULATED = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
made, PAUSE = 0, 0.0
for epoch in range(3):
    for number, (inputs, targets) in enumerate(loader, 1):
        time.sleep(PAUSE)
        nn.functional.mse_loss(model(inputs), targets).backward()
        IF:
            optimizer.step()
            optimizer.zero_grad()
            made += 1
            MORE
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


@pytest.mark.parametrize(
    ("when", "steps"),
    [
        pytest.param("if number % 7 == 0 or number == len(loader)", 3 * 4, id="a last step of what is left"),
        pytest.param("if number % 7 == 0", 3 * 3, id="what is left waits for the next epoch"),
        pytest.param("count = epoch * 24 + number; if count % 7 == 0", 72 // 7, id="counted over all epochs"),
        pytest.param("if number % 7 == 0 or number == len(loader); SLOW", 3 * 4, id="slow", marks=pytest.mark.long),
        pytest.param("if number % 4 == 0; if made >= 5: raise SystemExit", 5, id="updates limited"),
        pytest.param("if number % 4 == 0; if number >= 9: break", 3 * 2, id="batches limited"),
    ],
)
def test_what_is_left_of_an_epoch_is_counted_as_it_is(
    when: str, steps: int, script: Callable[..., Script], starter_of: Starter
) -> None:
    source = ACCUMULATED.replace("PAUSE = 0, 0.0", "PAUSE = 0, 0.5" if "SLOW" in when else "PAUSE = 0, 0.0")
    parts = when.replace("; SLOW", "").split("; ")
    before = [part for part in parts[:-1] if not part.startswith("if")]
    condition, *more = [part for part in parts if part.startswith("if")]
    source = source.replace("        IF:", "".join(f"        {part}\n" for part in before) + f"        {condition}:")
    source = source.replace("MORE", "" if "number >= 9" in when else "".join(more))
    if "number >= 9" in when:
        source += f"        {more[0]}\n"
    facts = describe(starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert facts.script.planned_steps == steps


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


def test_a_training_in_processes_of_its_own_gets_the_sentence_that_helps(
    script: Callable[..., Script], starter_of: Starter
) -> None:
    found = describe(starter_of(script(BEGIN + SPAWN)))
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message.startswith("it trains in processes that it starts itself, with torch.multiprocessing")
    assert "autoaccel tune torchrun" in found.message


TWO_PHASES = """
def train(parameters, epochs):
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for epoch in range(epochs):
        for inputs, targets in loader:
            time.sleep(PAUSE)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()

train(model[2].parameters(), FIRST)
train(model.parameters(), SECOND)
"""
SEARCHED = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step(inputs, targets):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()

for number, batch in enumerate(loader):
    step(*batch)
for epoch in range(20):
    for batch in loader:
        step(*batch)
"""
FOLDS = """
for fold in range(4):
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(5):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
"""
ROLLOUTS = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for rollout in range(20):
    with torch.no_grad():
        for frame in range(20):
            model(x)
            time.sleep(0.05)
    for update in range(20):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        time.sleep(0.02)
        optimizer.step()
"""


GROWING = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(2000):
    losses.append(nn.functional.mse_loss(model(x), x[:, :1]).item())
    time.sleep(0.01 * len(losses))
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


def phases(first: int, second: int, pause: float = 0.0) -> str:
    source = TWO_PHASES.replace("FIRST", str(first)).replace("SECOND", str(second))
    return source.replace("PAUSE", str(pause))


@pytest.mark.parametrize(
    ("source", "steps", "others"),
    [
        pytest.param(phases(2, 50), 1200, [(True, "SGD", 48)], id="the head first"),
        pytest.param(phases(10, 2), 240, [(False, "SGD", 48)], id="a short one at the end"),
        pytest.param(phases(50, 2, 0.02), 1200, [(False, "", None)], id="a long one first"),
        pytest.param(SEARCHED, 24 + 480, [], id="the same optimizer goes on"),
        pytest.param(FOLDS, 480, [], id="folds"),
    ],
)
def test_a_training_that_comes_first_or_later_is_not_taken_for_all(
    source: str,
    steps: int,
    others: list[tuple[bool, str, int | None]],
    script: Callable[..., Script],
    starter_of: Starter,
) -> None:
    facts = describe(starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    found = [(other.comes_first, other.optimizers, other.steps) for other in facts.script.others]
    assert (facts.script.planned_steps, found) == (steps, others)


def test_rollouts_are_said(script: Callable[..., Script], starter_of: Starter) -> None:
    facts = describe(starter_of(script(BEGIN + ROLLOUTS)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert facts.script.planned_steps == 400
    assert 1.0 <= facts.script.other_seconds < facts.script.seen_seconds
    rows = script_rows(ScriptSeen(facts.script, 400, (), {}))
    assert any("rollouts" in words and "were seen" in words for kind, words in rows if kind == "besides")


def test_steps_that_become_longer_are_said(script: Callable[..., Script], starter_of: Starter) -> None:
    facts = describe(starter_of(script(BEGIN + GROWING)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert 2 < facts.script.growth < 12
    rows = script_rows(ScriptSeen(facts.script, 2000, (), {}))
    assert any("longer and longer" in words for kind, words in rows if kind == "besides")


@pytest.mark.parametrize(
    ("seconds", "growth"),
    [
        ([1.0, 1.3] * 12, 1.0),  # now and then
        ([1 + 0.001 * step for step in range(24)], 1.0),  # by too little to be told from chance
        ([1 + 0.05 * step for step in range(24)], 1.8),
        ([2 - 0.05 * step for step in range(24)], 1.0),  # it warms up
        ([1.0, 2.0, 3.0], 1.0),
    ],
)
def test_growth_is_told_from_what_scatters(seconds: list[float], growth: float) -> None:
    assert growth_of(seconds) == pytest.approx(growth, abs=0.01)
