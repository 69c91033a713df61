"""Scripts in real workers: what is seen of them, and turns that are taken from within their own calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoaccel.records.messages import Describe, Described, Failure, Finished, GiveTurn, Measure, Turn
from autoaccel.records.script import ScriptArgument
from autoaccel.records.script_metric import FileMetric, MetricSource, PrintedMetric, ReportedMetric
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.runs.script_arguments import parse_arguments
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import SECONDS, describe, measuring
from tests.this_machine import probe_machine


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
    assert found.parameter_tensors == 4
    assert [path.name for path in folder.iterdir()] == ["train.py"]  # it saves a checkpoint after each epoch


@pytest.mark.long
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


@pytest.mark.long
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
    script: Callable[..., Script], forking_starter_of: Callable[..., WorkerStarter]
) -> None:
    starter = forking_starter_of(script(SELF_CHECKING.replace("CHECKED", "False")))
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
    assert trial.measurement.learned["layout.channels_last"] == "1 convolutions read images with channels last"
    trial.close()


@pytest.mark.long
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


@pytest.mark.long
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


SAYING = """
import json, torch
import autoaccel
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for step in range(8):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).pow(2).sum().backward()
        optimizer.step()
    print(f"epoch {epoch}", end=" ")
    print(f"val_acc: {epoch / 10}")
    autoaccel.report("accuracy", torch.tensor(epoch / 10))
    json.dump({"eval": {"accuracy": epoch / 10}}, open("metrics.json", "w"))
print("val_acc: 0.95")
"""


@pytest.mark.parametrize(
    ("source", "steps", "found"),
    [
        # After 56 and 64 steps.
        pytest.param(PrintedMetric(r"val_acc: ([0-9.]+)"), 60, (0.65, 0.7, 2), marks=pytest.mark.long),
        (PrintedMetric(r"val_acc: ([0-9.]+)"), 80, (0.875, 0.95, 2)),  # after 72 and, at its end, 80
        pytest.param(ReportedMetric("accuracy"), 80, (0.85, 0.9, 2), marks=pytest.mark.long),
        pytest.param(FileMetric("metrics.json", "eval.accuracy"), 80, (0.85, 0.9, 2), marks=pytest.mark.long),
    ],
)
def test_a_script_is_judged_by_what_it_says(
    script: Callable[..., Script],
    forking_starter_of: Callable[..., WorkerStarter],
    source: MetricSource,
    steps: int,
    found: tuple[float, float, int],
) -> None:
    starter = forking_starter_of(script(SAYING))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts) and facts.script is not None, facts
    facts = msgspec.structs.replace(facts, script=msgspec.structs.replace(facts.script, metric=source))
    context = KnobContext(probe_machine(starter), facts)
    trial = starter.at(context).start_all_measuring(
        Measure(steps=steps), {"trial": baseline_settings(context)}, SECONDS
    )[0]
    assert isinstance(trial, Measuring), trial
    ended = trial.finish(SECONDS)
    assert isinstance(ended, Finished), ended
    assert (ended.metric, ended.last_metric, ended.points) == (pytest.approx(found[0]), *map(pytest.approx, found[1:]))
    assert ended.loss is not None and ended.first_loss is not None and ended.loss < ended.first_loss
    trial.close()


BATCHED = """
import argparse, torch
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.randn(100, 4), torch.randn(100, 1))
loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
val = DataLoader(data, batch_size=50)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(100):
    for number, (x, y) in enumerate(loader):
        torch.nn.functional.mse_loss(model(x), y).backward()
        if (number + 1) % args.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        for x, y in val:
            model(x)
"""


@pytest.mark.long
def test_a_setting_of_models_holds_in_a_training_whose_steps_were_all_seen(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    changes: Settings = {"precision.autocast": "bfloat16"}
    trial, _ = measuring(starter_of(script("mlp.py")), changes, Measure(steps=60))
    turns = [trial.take_turn(GiveTurn(0.0, min_steps=60), SECONDS) for _ in range(3)]
    assert all(isinstance(turn, Turn) for turn in turns), turns
    assert not turns[-1].step_seconds  # type: ignore[union-attr]  # a Failure has none, and fails the test
    assert isinstance(trial.finish(SECONDS), Finished)
    trial.close()


def with_arguments(facts: TrainingFacts, *texts: str) -> TrainingFacts:
    """Return the facts of a script whose arguments are tuned as `tune --arg` says."""
    assert facts.script is not None
    arguments = tuple(ScriptArgument(name, values) for name, values in parse_arguments(texts).items())
    return msgspec.structs.replace(facts, script=msgspec.structs.replace(facts.script, arguments=arguments))


@pytest.mark.long
def test_under_other_arguments_steps_are_compared_by_their_samples(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    starter = starter_of(script(BATCHED))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts) and facts.script is not None, facts
    assert facts.script.parsed == {"batch-size": "8", "accumulate": "1"} and facts.script.backwards == 1
    context = KnobContext(probe_machine(starter), with_arguments(facts, "batch-size=8,16", "accumulate=1,2"))
    settings: Settings = {**baseline_settings(context), "arg.batch-size": "16"}
    starter = starter.at(context)
    trial = starter.start_all_measuring(Measure(steps=100), {"trial": settings}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    turn = trial.take_turn(GiveTurn(0.0, min_steps=20), SECONDS)
    assert isinstance(turn, Turn) and trial.measurement.batch_factor == 2.0
    # An epoch is six steps of 16 samples and one of 4.
    assert {late - early for early, late in itertools.pairwise(turn.epoch_starts)} == {7}
    assert sorted(set(turn.step_shares)) == [0.25, 1.0]
    assert isinstance(trial.finish(SECONDS), Finished)  # after 50 of its steps
    trial.close()
    other = starter.start_all_measuring(Measure(), {"trial": {**settings, "arg.accumulate": "2"}}, SECONDS)[0]
    assert isinstance(other, Failure) and other.kind == "invalid"
    assert other.message.startswith("a step calls backward() 2 times instead of 1 times")


@pytest.mark.long
def test_a_training_ends_with_its_last_step_though_a_checkpoint_lies_before_it(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    source = """
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(30):
        if step == 29:
            torch.save(model.state_dict(), "last.pt")
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().sum().backward()
        optimizer.step()
    """
    trial, _ = measuring(starter_of(script(source)), {}, Measure(steps=30))
    ended = trial.finish(SECONDS)
    trial.close()
    assert isinstance(ended, Finished), ended


@pytest.mark.long
@pytest.mark.parametrize("source", [None, pytest.param(PrintedMetric("loss ([0-9.]+)"), marks=pytest.mark.long)])
def test_with_other_batches_a_whole_run_may_have_a_few_samples_less(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter], source: MetricSource | None
) -> None:
    text = BATCHED.replace("range(100)", "range(4)").replace("shuffle=True", "shuffle=True, drop_last=True")
    text = text.replace("torch.randn(100,", "torch.randn(90,") + "    print('loss', epoch / 10)\n"
    starter = starter_of(script(text))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts) and facts.script is not None, facts
    assert facts.planned_steps == 44  # of 8 samples; 20 of 16 samples are 2 less
    facts = msgspec.structs.replace(facts, script=msgspec.structs.replace(facts.script, metric=source))
    context = KnobContext(probe_machine(starter), with_arguments(facts, "batch-size=8,16"))
    settings: Settings = {**baseline_settings(context), "arg.batch-size": "16"}
    trial = starter.at(context).start_all_measuring(Measure(steps=44), {"trial": settings}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    turn = trial.take_turn(GiveTurn(0.0, min_steps=40), SECONDS)
    assert isinstance(turn, Turn), turn
    ended = trial.finish(SECONDS)
    assert isinstance(ended, Finished), ended
    assert source is None or ended.last_metric == 0.3
    trial.close()


@pytest.mark.long
def test_a_training_that_ends_too_soon_is_no_training_of_that_length(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    trial, _ = measuring(starter_of(script("mlp.py")), {}, Measure(steps=400))  # it makes 320
    ended = trial.finish(SECONDS)
    assert isinstance(ended, Failure) and ended.kind == "invalid"
    assert ended.message == "it ended after 320 steps, but 400 were to be trained"


@pytest.mark.long
def test_the_last_update_that_a_script_makes_itself_counts(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    """It is known by the end of the script alone: no gradients follow it."""
    trial, _ = measuring(starter_of(script("hand_sgd.py")), {}, Measure(steps=120))
    ended = trial.finish(SECONDS)
    assert isinstance(ended, Finished), ended


def test_a_scaler_that_is_switched_off_scales_nothing(
    script: Callable[..., Script], forking_starter_of: Callable[..., WorkerStarter]
) -> None:
    source = """
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for step in range(50):
        scaler.scale(model(torch.randn(8, 4)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    found = describe(forking_starter_of(script(source)))
    assert isinstance(found, TrainingFacts) and found.script is not None, found
    assert found.script.does == ()


@pytest.mark.long
def test_where_a_script_hangs_is_told_by_its_own_files(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter], folder: Path
) -> None:
    (folder / "data.py").write_text("import time\n\ndef load():\n    time.sleep(600)\n")
    found = starter_of(script("import data\nimport torch\ndata.load()")).ask(Describe(), {}, "describe", Described, 8.0)
    assert isinstance(found, Failure) and found.kind == "hung"
    assert f'File "{folder / "data.py"}", line 4 in load' in found.log_tail


def test_a_script_without_an_optimizer_is_declined_at_once(
    script: Callable[..., Script], forking_starter_of: Callable[..., WorkerStarter]
) -> None:
    found = describe(forking_starter_of(script("import torch\nprint(torch.ones(2))")))
    assert isinstance(found, Failure) and found.kind == "invalid"
    assert found.message.startswith("it ended before an optimizer of torch.optim made a step")


def test_what_it_writes_elsewhere_is_seen(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter], folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    source = f"""
    import os, sys, tempfile, torch
    from pathlib import Path
    elsewhere = Path({str(elsewhere)!r})
    os.makedirs(elsewhere / "runs" / "1")
    os.makedirs(elsewhere, exist_ok=True)
    (elsewhere / "runs" / "1" / "log.txt").write_text("x")
    open("here.txt", "w").close()
    open("../beside.txt", "w").close()
    with tempfile.TemporaryDirectory() as gone:
        open(gone + "/x", "w").close()
    os.close(os.open(elsewhere / "low", os.O_WRONLY | os.O_CREAT))
    os.replace("here.txt", elsewhere / "moved.txt")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    """
    found = describe(starter_of(script(source), in_place=True))
    assert isinstance(found, TrainingFacts) and found.script is not None, found
    expected = [elsewhere / "low", elsewhere / "moved.txt", elsewhere / "runs", folder.parent / "beside.txt"]
    assert found.script.writes == tuple(map(str, sorted(expected)))


@pytest.mark.parametrize(("own", "mode"), [("online", "offline"), ("disabled", "disabled")])
def test_a_script_may_work_in_its_own_folder(
    own: str, mode: str, script: Callable[..., Script], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", own)
    (tmp_path / "run").mkdir()
    source = "import os, torch\nprint(os.environ['WANDB_MODE'], file=open('here.txt', 'w'))"
    with WorkerStarter(tmp_path / "run", script(source), in_place=True) as starter:
        assert isinstance(describe(starter), Failure)  # there is nothing to measure
    assert (folder / "here.txt").read_text() == f"{mode}\n"


def test_what_a_script_raises_is_told_with_its_own_traceback(
    script: Callable[..., Script], forking_starter_of: Callable[..., WorkerStarter]
) -> None:
    found = describe(forking_starter_of(script("import torch\ndef main():\n    raise ValueError('no data')\nmain()")))
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


@pytest.mark.long
def test_a_script_that_catches_everything_does_not_hide_that_a_setting_fails(
    script: Callable[..., Script], starter_of: Callable[..., WorkerStarter]
) -> None:
    source = """
    import torch
    class Picky(torch.nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            assert y.dtype == torch.float32
            return y
    model = Picky(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        try:
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        except Exception:
            print("skipped")
    """
    starter = starter_of(script(source))
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(probe_machine(starter), facts)
    settings = {**baseline_settings(context), "precision.autocast": "bfloat16"}
    found = starter.at(context).start_all_measuring(Measure(), {"trial": settings}, SECONDS)[0]
    assert isinstance(found, Failure) and found.message == "AssertionError"
    assert "in forward" in found.traceback
