"""What is told of a script before it is tuned: steps, epochs and batches as they are, whatever comes before them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoaccel.records.messages import Describe, Described, Failure
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.workers.look_wait import LookWait
from autoaccel.workers.starter import WorkerStarter
from tests.cases import rest_is_long
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
RESTS = """
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
SAME_LOADER_EVALUATED = """
batches = (batch for again in iter(lambda: loader, None) for batch in again)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(480):
    inputs, targets = next(batches)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
    if step % 4 == 0:
        with torch.no_grad():
            for inputs, targets in loader:
                model(inputs)
"""
EVALUATED_AFTER_EACH_UPDATE = """
held_out = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=30)
loader = DataLoader(TensorDataset(x[:19], x[:19].sum(1, keepdim=True)), batch_size=10, drop_last=True, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(480):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    with torch.no_grad():
        for inputs, targets in held_out:
            model(inputs)
"""
FETCHED_WITHOUT_GRADIENTS = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

@torch.no_grad()
def fetch(batches):
    return next(batches)

for epoch in range(20):
    batches = iter(loader)
    for step in range(24):
        inputs, targets = fetch(batches)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""
ACTOR = """
critic = nn.Linear(8, 1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
actor_optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def update(net, optimizer):
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()

for step in range(1060):
    if step >= 100:
        update(critic, critic_optimizer)
        if step % 2:
            for _ in range(2):
                _ = model(x)
                update(model, actor_optimizer)
"""
ACCUMULATED = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1920):
    model(x).square().mean().backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""
TWICE_A_ROUND = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def update():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()

for number in range(240):
    update()
    update()
"""
BEGUN_ANEW = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
chunks = [x[:120], x[120:]] * 240
for part in chunks:
    for _ in range(1):
        optimizer.zero_grad()
        model(part).square().mean().backward()
        optimizer.step()
"""
FOLDS = """
for fold in range(5):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(96):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""
LOOP_IN_A_PACKAGE = """
import sysconfig

source = '''
def train(model, optimizer, x, steps):
    for step in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
'''
package = {}
exec(compile(source, sysconfig.get_path("purelib") + "/package.py", "exec"), package)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(20):
    package["train"](model, optimizer, x, STEPS)
"""
ADJOINT = """
class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        for _ in range(1100):
            with torch.enable_grad():
                own = weight.detach().requires_grad_()
                found, = torch.autograd.grad(x @ own, own, gradient)
        return None, found

weight = nn.Parameter(torch.randn(8, 1))
optimizer = torch.optim.SGD([weight], lr=0.01)
for step in range(480):
    optimizer.zero_grad()
    Adjoint.apply(x, weight).square().mean().backward()
    optimizer.step()
"""
PARAMETERS_APART = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = [nn.Parameter(torch.randn(8, 8) / 4)]
        self.own = nn.ParameterDict({"0": self.kept[0]})

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = (Layer(), Layer())
        self.all = nn.ParameterDict({str(number): layer.kept[0] for number, layer in enumerate(self.layers)})

model = Model()
for step in range(480):
    outputs = x
    for layer in model.layers:
        outputs = outputs @ layer.kept[0]
    model.zero_grad()
    outputs.square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
"""
PART_CALLED_FIRST = """
size = model[0](x[:1]).shape[1]
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(480):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
WRAPPED_ANEW = """
class Wrapper(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)

optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(480):
    optimizer.zero_grad()
    Wrapper(model)(x).square().mean().backward()
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
def test_steps_and_batches_are_counted_right(
    source: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + source)))
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
        pytest.param(
            "count = epoch * 24 + number; if count % 7 == 0",
            72 // 7,
            id="counted over all epochs",
            marks=pytest.mark.long,
        ),
        pytest.param("if number % 7 == 0 or number == len(loader); SLOW", 3 * 4, id="slow", marks=pytest.mark.long),
        pytest.param("if number % 4 == 0; if made >= 5: raise SystemExit", 5, id="updates limited"),
        pytest.param("if number % 4 == 0; if number >= 9: break", 3 * 2, id="batches limited", marks=pytest.mark.long),
    ],
)
def test_what_is_left_of_an_epoch_is_counted_as_it_is(
    when: str, steps: int, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    source = RESTS.replace("PAUSE = 0, 0.0", "PAUSE = 0, 0.5" if "SLOW" in when else "PAUSE = 0, 0.0")
    parts = when.replace("; SLOW", "").split("; ")
    before = [part for part in parts[:-1] if not part.startswith("if")]
    condition, *more = [part for part in parts if part.startswith("if")]
    source = source.replace("        IF:", "".join(f"        {part}\n" for part in before) + f"        {condition}:")
    source = source.replace("MORE", "" if "number >= 9" in when else "".join(more))
    if "number >= 9" in when:
        source += f"        {more[0]}\n"
    facts = describe(forking_starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert facts.script.planned_steps == steps


@pytest.mark.long
def test_an_evaluation_after_the_first_step_is_no_steps_time(
    script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + EVALUATION)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert 0.05 <= facts.script.step_seconds < 1.0


@pytest.mark.parametrize(
    "source",
    rest_is_long(
        [
            pytest.param(SAME_LOADER_EVALUATED, id="the loader that feeds it"),
            pytest.param(EVALUATED_AFTER_EACH_UPDATE, id="after each update"),
            pytest.param(FETCHED_WITHOUT_GRADIENTS, id="none"),
        ]
    ),
)
def test_a_loader_that_is_evaluated_on_feeds_no_step(
    source: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    loader = facts.script.loader
    assert loader is not None and loader.key.batch_size == 10
    assert (facts.script.planned_steps, facts.script.steps_per_epoch, facts.batch_size) == (480, loader.batches, 10)
    assert not any("accumulates" in does for does in facts.script.does)


@pytest.mark.long
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(ACTOR, id="from a round on, every second"),
        pytest.param(ACCUMULATED, id="every fourth", marks=pytest.mark.long),
        pytest.param(TWICE_A_ROUND, id="two a round", marks=pytest.mark.long),
        pytest.param(BEGUN_ANEW, id="one in the first round of a loop that is begun anew", marks=pytest.mark.long),
        pytest.param(FOLDS, id="an optimizer for each fold", marks=pytest.mark.long),
    ],
)
def test_rounds_without_a_step_are_none(
    source: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert facts.script.planned_steps == 480


@pytest.mark.parametrize(("steps", "planned"), [(7, 140), pytest.param(1000, None, marks=pytest.mark.long)])
def test_steps_that_a_package_makes_in_a_round_are_counted_or_assumed(
    steps: int, planned: int | None, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + LOOP_IN_A_PACKAGE.replace("STEPS", str(steps)))))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert facts.script.planned_steps == planned


@pytest.mark.long
def test_gradients_within_a_backward_pass_are_no_steps(
    script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + ADJOINT)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert (facts.script.planned_steps, facts.script.updates_itself) == (480, False)


@pytest.mark.parametrize(
    ("source", "kind"),
    rest_is_long(
        [
            pytest.param(PARAMETERS_APART, "Model", id="its parameters are the model's"),
            pytest.param(PART_CALLED_FIRST, "Sequential", id="called to find out a size"),
            pytest.param(WRAPPED_ANEW, "Sequential", id="a wrapper for each call", marks=pytest.mark.long),
        ]
    ),
)
def test_a_part_or_a_wrapper_of_a_model_is_none(
    source: str, kind: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + source)))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == [kind]


@pytest.mark.long
@pytest.mark.parametrize("reentrant", ["False", pytest.param("True", marks=pytest.mark.long)])
def test_blocks_under_activation_checkpointing_are_no_models(
    reentrant: str, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(BEGIN + CHECKPOINTED.replace("REENTRANT", reentrant))))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.kind for model in facts.script.models] == ["Net"]


def test_a_training_in_processes_of_its_own_gets_the_sentence_that_helps(
    script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    found = describe(forking_starter_of(script(BEGIN + SPAWN)))
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message.startswith("it trains in processes that it starts itself, with torch.multiprocessing")
    assert "autoaccel tune torchrun" in found.message


PROCESSES = """
def work(steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        time.sleep(0.05)

if __name__ == "__main__":
    context = torch.multiprocessing.get_context("METHOD")
    workers = [context.Process(target=work, args=(STEPS,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    AND
    for worker in workers:
        worker.join()
"""


@pytest.mark.parametrize(
    ("method", "steps"),
    rest_is_long(
        [("fork", 100_000), ("fork", 1), ("spawn", 100_000), pytest.param("forkserver", 1, marks=pytest.mark.long)]
    ),
)
def test_processes_that_train_though_the_script_does_not_get_the_sentence_that_helps(
    method: str, steps: int, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    source = PROCESSES.replace("METHOD", method).replace("STEPS", str(steps)).replace("AND", "")
    found = describe(forking_starter_of(script(BEGIN + source)))
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message.startswith("it trains in processes that it starts itself, with multiprocessing, where its")
    assert "autoaccel tune torchrun" in found.message


@pytest.mark.long
def test_processes_that_make_no_updates_or_make_them_beside_a_training_are_as_they_were(
    script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    found = describe(
        forking_starter_of(script(BEGIN + PROCESSES.replace("METHOD", "fork").replace("STEPS", "0").replace("AND", "")))
    )
    assert isinstance(found, Failure) and found.message.startswith("it ended before an optimizer of torch.optim made")
    source = PROCESSES.replace("METHOD", "fork").replace("STEPS", "100_000").replace("AND", "work(1000)")
    assert isinstance(describe(forking_starter_of(script(BEGIN + source))), TrainingFacts)


LATE = """
time.sleep(3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(480):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    time.sleep(PAUSE)
"""


@pytest.mark.parametrize("pause", rest_is_long([0.01, 1000.0]))
def test_who_waits_for_the_first_look_hears_of_the_first_step(
    pause: float, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    starter, told = forking_starter_of(script(BEGIN + LATE.replace("PAUSE", str(pause)))), list[float]()
    wait = LookWait(seconds=100.0, further_seconds=1.0 if pause > 1 else 60.0, late_seconds=0.2, tell_late=told.append)
    answer = starter.receive_description(starter.start(Describe(tells_first_step=True), {}, "describe"), wait)
    assert isinstance(answer, Described) == (pause < 1)
    assert wait.first_step_seconds is not None and 3.0 < wait.first_step_seconds < 100.0
    assert len(told) == 1 and 0.2 <= told[0] < wait.first_step_seconds
    if isinstance(answer, Failure):
        assert answer.kind == "hung" and 1.0 <= wait.waited_seconds < 30.0


HOLDS = """
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self):
        for step in range(300):
            loss = self.model(torch.randn(32, 16)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def begin(self):
        self.model = nn.Linear(16, 8)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.train()


def make():
    model = nn.Linear(16, 8)
    return model


LINE
"""


@pytest.mark.parametrize(
    ("line", "held_as"),
    rest_is_long(
        [
            ("trainer = Trainer(model=nn.Linear(16, 8))\ntrainer.train()", ()),
            ("net = nn.Linear(16, 8)\nTrainer(net).train()", ("net",)),
            ("Trainer(make()).train()", None),
            ("Trainer(nn.Linear(1, 1)).begin()", ("self.model",)),
        ],
        2,
    ),
)
def test_what_holds_a_model_where_it_was_made_is_seen(
    line: str, held_as: tuple[str, ...] | None, script: Callable[..., Script], forking_starter_of: Starter
) -> None:
    facts = describe(forking_starter_of(script(HOLDS.replace("LINE", line))))
    assert isinstance(facts, TrainingFacts) and facts.script is not None
    assert [model.held_as for model in facts.script.models] == [held_as]
