"""What a script does beside the steps that are looked at is said: other trainings, rollouts; and steps that grow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoaccel.records.progress import ScriptSeen
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.report.script import script_rows
from autoaccel.runtime.script.seen import growth_of
from autoaccel.workers.starter import WorkerStarter
from tests.cases import rest_is_long
from tests.runtime.script.asking import describe
from tests.runtime.script.test_first_table import BEGIN

Starter = Callable[..., WorkerStarter]

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
        time.sleep(0.05)  # its end is too far away to look for what follows
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
    """Return a script of two trainings; a pause in each step makes what they take certain on a busy machine."""
    source = TWO_PHASES.replace("FIRST", str(first)).replace("SECOND", str(second))
    return source.replace("PAUSE", str(pause))


@pytest.mark.parametrize(
    ("source", "steps", "others"),
    rest_is_long(
        [
            pytest.param(phases(2, 50), 1200, [(True, "SGD", 48)], id="the head first"),
            pytest.param(phases(10, 2, 0.01), 240, [(False, "SGD", 48)], id="a short one at the end"),
            pytest.param(phases(50, 2, 0.02), 1200, [(False, "", None)], id="a long one first"),
            pytest.param(SEARCHED, 24 + 480, [], id="the same optimizer goes on"),
            pytest.param(FOLDS, 480, [], id="folds"),
        ],
        2,
    ),
)
def test_a_training_that_comes_first_or_later_is_not_taken_for_all(
    source: str,
    steps: int,
    others: list[tuple[bool, str, int | None]],
    script: Callable[..., Script],
    forking_starter_of: Starter,
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    found = [(other.comes_first, other.optimizers, other.steps) for other in facts.script.others]
    assert (facts.script.planned_steps, found) == (steps, others)


@pytest.mark.long
def test_rollouts_are_said(script: Callable[..., Script], forking_starter_of: Starter) -> None:
    facts = describe(forking_starter_of(script(BEGIN + ROLLOUTS)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert facts.script.planned_steps == 400
    assert 1.0 <= facts.script.other_seconds < facts.script.seen_seconds
    rows = script_rows(ScriptSeen(facts.script, 400, (), {}))
    assert any("rollouts" in words and "were seen" in words for kind, words in rows if kind == "besides")


@pytest.mark.long
def test_steps_that_become_longer_are_said(script: Callable[..., Script], forking_starter_of: Starter) -> None:
    facts = describe(forking_starter_of(script(BEGIN + GROWING)))
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
