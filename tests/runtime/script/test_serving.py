"""Scripts in real workers: what is seen of them, and turns that are taken from within their own calls."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoaccel.records.settings import Settings
from autoaccel.records.trial import Describe, Described, Failure, Finished, GiveTurn, Measure, Turn
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.describing import probe_machine
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter

SCRIPTS = Path(__file__).parents[2] / "scripts"
SECONDS = 120.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # several threads on a busy machine wait for one another
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


@pytest.fixture
def script(folder: Path) -> Callable[..., Script]:
    def named(source: str, *arguments: str) -> Script:
        path = folder / "train.py"
        if source.endswith(".py"):
            shutil.copy(SCRIPTS / source, path)
        else:
            path.write_text(textwrap.dedent(source))
        return Script(str(path), "train.py", str(folder), "0" * 64, arguments)

    return named


@pytest.fixture
def starter_of(tmp_path: Path) -> Iterator[Callable[[Script], WorkerStarter]]:
    started: list[WorkerStarter] = []

    def start(script: Script) -> WorkerStarter:
        (tmp_path / "run").mkdir(exist_ok=True)
        started.append(WorkerStarter(tmp_path / "run", script))
        return started[-1]

    yield start
    for starter in started:
        starter.__exit__()


def describe(starter: WorkerStarter) -> TrainingFacts | Failure:
    answer = starter.ask(Describe(), {}, "describe", Described, SECONDS)
    return answer.facts if isinstance(answer, Described) else answer


def measuring(starter: WorkerStarter, changes: Settings, task: Measure | None = None) -> tuple[Measuring, Settings]:
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(probe_machine(starter), facts)
    settings = {**baseline_settings(context), **changes}
    found = starter.at(context).start_all_measuring(task or Measure(), {"trial": settings}, SECONDS)[0]
    assert isinstance(found, Measuring), found
    return found, settings


def test_a_flat_script_is_seen_as_it_is(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter], folder: Path
) -> None:
    found = describe(starter_of(script("mlp.py")))
    assert isinstance(found, TrainingFacts) and found.script is not None
    seen = found.script
    (model,) = seen.models
    assert (model.kind, model.parameters, model.where) == ("Sequential", 1218, "train.py:19")
    assert [(one.kind, one.where) for one in seen.optimizers] == [("AdamW", "train.py:20")]
    assert [(one.feeds, one.batches, one.where) for one in seen.loaders if one.feeds] == [(True, 16, "train.py:16")]
    assert seen.cycle == (0,) and seen.has_loss
    assert (seen.steps_per_epoch, seen.planned_steps) == (16, 320)
    assert seen.does == ("seeds random", "seeds numpy", "seeds torch")
    assert (found.planned_steps, found.batch_size, found.device) == (320, 32, "cpu")
    assert [path.name for path in folder.iterdir()] == ["train.py"]  # it saves a checkpoint after each epoch


def test_turns_are_taken_for_as_long_as_the_tuner_likes_though_the_script_ends(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter], folder: Path
) -> None:
    trial, _ = measuring(starter_of(script("mlp.py")), {})
    turns = [trial.take_turn(GiveTurn(0.0, min_steps=300), SECONDS) for _ in range(3)]
    assert all(isinstance(turn, Turn) and len(turn.step_seconds) >= 300 for turn in turns)
    for turn in turns:
        assert isinstance(turn, Turn) and not turn.diverged
        assert len(turn.epoch_starts) >= 300 // 16 - 1  # an evaluation lies before each, and is in no step
        # Epochs begin with batches of the loader that feeds the training, 16 steps apart.
        apart = {late - early for early, late in itertools.pairwise(turn.epoch_starts)}
        assert apart == {16}
    trial.close()
    assert [path.name for path in folder.iterdir()] == ["train.py"]


def test_settings_take_effect_in_the_scripts_own_optimizer_loader_and_process(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    changes: Settings = {"loader.workers": 1, "optimizer.fused": True, "threads.intra_op": 2}
    trial, _ = measuring(starter_of(script("mlp.py")), changes)
    trial.take_turn(GiveTurn(0.0), SECONDS)
    learned = trial.measurement.learned
    assert learned["loader.workers"] == "1 worker processes"
    assert learned["optimizer.fused"] == "AdamW fused"
    assert learned["threads.intra_op"] == "torch uses 2 threads"
    trial.close()


SELF_CHECKING = """
import copy
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 2)
    def forward(self, x):
        y = self.conv(x)
        short = CHECKED and self.training and torch.is_grad_enabled()
        assert y.dtype == (torch.bfloat16 if short else torch.float32)
        assert not short or y.is_contiguous(memory_format=torch.channels_last)
        return self.head(y.mean((2, 3)))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(8, 3, 9, 9), torch.arange(8) % 2
while True:
    out = model(x)
    assert out.dtype == torch.float32
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model(x)
    model.eval()
    model(x)
    model.train()
    torch.save(model, "whole.pt")
    assert type(torch.load("whole.pt", weights_only=False)) is Net
    twin = copy.deepcopy(model)
    assert twin.conv.weight is not model.conv.weight and "_compiled_call_impl" not in vars(twin)
"""


def test_the_scripts_own_model_computes_as_the_settings_say(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    starter = starter_of(script(SELF_CHECKING.replace("CHECKED", "False")))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(probe_machine(starter), facts)
    script(SELF_CHECKING.replace("CHECKED", "True"))  # the same file, now with its assertions
    changes: Settings = {"precision.autocast": "bfloat16", "layout.channels_last": True}
    settings = {**baseline_settings(context), **changes}
    trial = starter.at(context).start_all_measuring(Measure(), {"trial": settings}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    turn = trial.take_turn(GiveTurn(0.0, min_steps=3), SECONDS)
    assert isinstance(turn, Turn), turn
    assert trial.measurement.learned["precision.autocast"] == "matrix products come out as torch.bfloat16"
    assert trial.measurement.learned["layout.channels_last"] == "1 weights are stored with channels last"
    trial.close()


def test_compilation_belongs_to_the_first_step(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    trial, _ = measuring(starter_of(script("mlp.py")), {"compile.mode": "default"})
    turn = trial.take_turn(GiveTurn(0.0, min_steps=20), SECONDS)
    assert isinstance(turn, Turn), turn
    measured = trial.measurement
    assert "graphs compiled" in measured.learned["compile.mode"]
    assert measured.warmup_step_seconds[0] > 10 * max(turn.step_seconds)
    trial.close()


def test_the_loss_that_is_trained_on_is_judged_at_the_same_step(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    found: list[Finished] = []
    for seed in (0, 0, 1):
        trial, _ = measuring(starter_of(script("mlp.py")), {}, Measure(seed=seed, steps=160))
        ended = trial.finish(SECONDS)
        assert isinstance(ended, Finished), ended
        found.append(ended)
        trial.close()
    first, again, other = found
    assert first.loss is not None and first.first_loss is not None and other.loss is not None
    assert (first.loss, first.first_loss) == (again.loss, again.first_loss)
    assert 0 < first.loss < first.first_loss and first.metric == first.loss
    assert other.loss != first.loss and other.loss < first.first_loss


def test_a_training_that_ends_too_soon_is_no_training_of_that_length(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    trial, _ = measuring(starter_of(script("mlp.py")), {}, Measure(steps=400))  # it makes 320
    ended = trial.finish(SECONDS)
    assert isinstance(ended, Failure) and ended.kind == "invalid"
    assert ended.message == "it ended after 320 steps, but 400 were to be trained"


def test_a_script_without_an_optimizer_is_declined_at_once(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    found = describe(starter_of(script("import torch\nprint(torch.ones(2))")))
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message.startswith("it ended before an optimizer of torch.optim made a step")


def test_what_a_script_raises_is_told_with_its_own_traceback(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    found = describe(starter_of(script("import torch\ndef main():\n    raise ValueError('no data')\nmain()")))
    assert isinstance(found, Failure) and (found.kind, found.message) == ("raised", "ValueError: no data")
    assert "train.py" in found.traceback and "autoaccel/" not in found.traceback


def test_a_script_that_catches_everything_cannot_catch_us(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    source = """
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        try:
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        except BaseException as error:
            print("caught", error)
    """
    found = describe(starter_of(script(source)))
    assert isinstance(found, TrainingFacts) and found.script is not None
    assert found.script.planned_steps is None and found.script.steps_per_epoch is None
    assert found.planned_steps == 1000  # assumed
