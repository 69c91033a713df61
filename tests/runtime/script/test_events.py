"""What is heard of a training, in a process of its own: hooks stay in torch for as long as a process lives."""

from __future__ import annotations

import subprocess
import sys
import textwrap

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


def told(source: str, header: str = HEADER) -> list[str]:
    code = header + textwrap.dedent(source)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_update_that_a_scaler_skips_is_one_and_the_loss_is_that_before_scaling() -> None:
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


def test_gradients_that_are_computed_by_hand_are_heard_of() -> None:
    source = """
    listen(Told(), print)
    torch.autograd.grad(model(torch.ones(1, 1)).sum(), model.weight)
    square = torch.func.grad(lambda x: x * x)
    square(torch.tensor(3.0)), square(torch.tensor(4.0))
    """
    assert told(source) == ["gradients"] * 3


def test_an_error_of_the_listener_does_not_reach_the_training_but_its_end_does() -> None:
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
