"""What is heard of a training, in a process of its own: hooks stay in torch for as long as a process lives."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

HEADER = """
import torch
from autoaccel.runtime.script.cycle import TrainingOverError
from autoaccel.runtime.script.events import Events, listen

class Told(Events):
    def update_begins(self, optimizer): print("begins")
    def update_ended(self, optimizer): print("ended")
    def backward_begins(self, loss): print("loss", loss.item())
    def differentiates(self): print("gradients")

model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.ones_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


FORKS = """
import json, os, sys, traceback
import torch._dynamo  # as an optimizer's constructor does

for line in sys.stdin:
    if os.fork() == 0:
        try:
            exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    print("END", flush=True)
"""
Tell = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def told() -> Iterator[Tell]:
    """Return a function that runs a source in a process that finds torch imported, and returns what that prints."""
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None and forks.stdout is not None
        given, said = forks.stdin, forks.stdout

        def tell(source: str) -> list[str]:
            print(json.dumps(HEADER + textwrap.dedent(source)), file=given, flush=True)
            return list(iter(lambda: said.readline().rstrip("\n"), "END"))

        yield tell
        given.close()


def test_an_update_that_a_scaler_skips_is_one_and_the_loss_is_that_before_scaling(told: Tell) -> None:
    source = """
    listen(Told(), print)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    for x in (2.0**20, 1.0):  # times the scale, and times the first one it is infinite
        scaler.scale(model(torch.tensor([[x]])).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(model.weight.item() < 1.0)
    """
    both = ["begins", "ended"]
    assert told(source) == ["loss 1048576.0", *both, "loss 1.0", *both, "True"]


def test_gradients_that_are_computed_by_hand_are_heard_of(told: Tell) -> None:
    source = """
    listen(Told(), print)
    torch.autograd.grad(model(torch.ones(1, 1)).sum(), model.weight)
    square = torch.func.grad(lambda x: x * x)
    square(torch.tensor(3.0)), square(torch.tensor(4.0))
    """
    assert told(source) == ["gradients"] * 3


def test_an_error_of_the_listener_does_not_reach_the_training_but_its_end_does(told: Tell) -> None:
    source = """
    class Failing(Events):
        def update_begins(self, optimizer): raise ValueError("ours")
        def update_ended(self, optimizer): raise TrainingOverError
    listen(Failing(), lambda error: print("failed", error))
    try:
        optimizer.step()
    except TrainingOverError:
        print("over")
    """
    assert told(source) == ["failed ours", "over"]


def test_what_has_kept_the_call_of_a_module_is_not_heard_after_the_end(told: Tell) -> None:
    """What is compiled keeps it; heard of then, a model was equipped a second time within its own call."""
    source = """
    from autoaccel.runtime.script.events import RootCalls
    calls = RootCalls(lambda module, trains: print("called", trains))
    kept = model.__call__
    kept(torch.ones(1, 1))
    calls.end()
    kept(torch.ones(1, 1)), model(torch.ones(1, 1))
    """
    assert told(source) == ["called True"]


def test_what_hears_of_modules_since_goes_on_when_what_began_before_it_ends(told: Tell) -> None:
    source = """
    from autoaccel.runtime.script.events import RootCalls
    before = torch.nn.Module.__call__
    first, second, third = (RootCalls(lambda module, trains, name=name: print(name)) for name in "123")
    model(torch.ones(1, 1))
    second.end()
    first.end()
    model(torch.ones(1, 1))
    third.end()
    print(torch.nn.Module.__call__ is before)
    """
    assert told(source) == ["3", "2", "1", "3", "True"]


@pytest.mark.long
def test_updates_by_hand_are_told_of_when_the_next_gradients_begin_and_at_the_end(told: Tell) -> None:
    source = """
    from autoaccel.runtime.script.own_updates import OwnUpdates
    hears = Told()
    hears.own_updates = OwnUpdates(hears, by_backward=True)
    listen(hears, print)
    for x in (1.0, 2.0):
        loss = model(torch.tensor([[x]])).sum()
        torch.autograd.grad(loss, model.weight, retain_graph=True)  # of no update
        loss.backward()
        with torch.no_grad():
            model.weight -= 0.1 * model.weight.grad
            model.weight.grad = None
    hears.own_updates.end()
    hears.own_updates.end()
    """
    of_one = ["gradients", "loss 1.0"]
    assert told(source) == [*of_one, "gradients", "begins", "ended", "loss 1.7999999523162842", "begins", "ended"]
