"""Updates of scripts, recorded and compared: a script's own steps, each from a state that was put back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from autoaccel.bench.limits import BATCHES, POINTS
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure
from autoaccel.records.rounding import CompareUpdates, RecordUpdates, UpdatesCompared, UpdatesRecorded
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.runtime.script.updates import ScriptSteps
from autoaccel.runtime.trained_state import TrainedState
from autoaccel.runtime.updates import Wanted
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.statistics.rounding import judge_updates
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import SECONDS, describe
from tests.runtime.script.test_hard_cases import in_folder

BFLOAT16: Settings = {"precision.autocast": "bfloat16"}


def compared(
    starter: WorkerStarter, machine: Machine, settings: Settings, kept: Path
) -> UpdatesCompared | UpdatesRecorded | Failure:
    """Return what updates under these settings are, beside a script's own; or why they could not be recorded."""
    facts = describe(starter)
    assert isinstance(facts, TrainingFacts), facts
    context = KnobContext(machine, facts)
    own = baseline_settings(context)
    starter = starter.at(context)
    kept.mkdir()
    record = RecordUpdates(str(kept), POINTS, BATCHES)
    recorded = starter.ask(record, own, "record", UpdatesRecorded, SECONDS)
    if isinstance(recorded, Failure):
        return recorded
    return starter.ask(CompareUpdates(str(kept)), {**own, **settings}, "compare", UpdatesCompared, SECONDS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "tensor"),
    [
        pytest.param("trainer_class.py", "", marks=pytest.mark.long),
        ("hand_sgd.py", ""),  # without an optimizer
        pytest.param("gan.py", "model 2: ", marks=pytest.mark.long),  # two models, two optimizers
        pytest.param("accumulation.py", "", marks=pytest.mark.long),  # clipping, a schedule
        pytest.param("lstm_lm.py", "", marks=pytest.mark.long),  # a state from step to step
        pytest.param("two_phases.py", "", marks=pytest.mark.long),  # the optimizer of the first is not compared
    ],
)
def test_the_same_settings_make_the_same_updates(
    file: str, tensor: str, folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    found = compared(forking_starter_of(in_folder(file, folder, ())), machine, {}, folder.parent / "run" / "kept")
    assert isinstance(found, UpdatesCompared), found
    assert found.losses == found.baseline_losses and len(found.losses) == POINTS[-1]
    assert len(set(found.losses)) > 1
    parameters = [one for one in found.errors if one.kind == "parameter"]
    assert any(one.name.startswith(tensor) for one in parameters)
    assert {one.point for one in parameters} == set(POINTS)
    assert all(one.error == 0.0 for one in found.errors)
    assert all(one.noise > 0.0 for one in parameters)
    assert judge_updates(found).verdict == "holds"


@pytest.mark.long
def test_autocast_in_a_script_is_a_small_part_of_the_noise(
    folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    script = in_folder("digits.py", folder, ())
    found = compared(forking_starter_of(script), machine, BFLOAT16, folder.parent / "run" / "kept")
    assert isinstance(found, UpdatesCompared), found
    evidence = judge_updates(found)
    assert evidence.verdict == "holds", evidence
    assert 1e-6 < evidence.error_share < 0.01


@pytest.mark.long
@pytest.mark.parametrize("by_hand", [False, pytest.param(True, marks=pytest.mark.long)])
def test_settings_that_harm_a_script_are_told(
    by_hand: bool, folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    """Outputs of about 1,000, which bfloat16 rounds by up to 2, where what is to be learnt is smaller than that."""
    (folder / "train.py").write_text(without_optimizer(HARMED) if by_hand else HARMED)
    script = Script(str(folder / "train.py"), "train.py", str(folder), "0" * 64, ())
    found = compared(forking_starter_of(script), machine, BFLOAT16, folder.parent / "run" / "kept")
    assert isinstance(found, UpdatesCompared), found
    assert judge_updates(found).verdict == "too large"


HARMED = """
import torch
from torch import nn

torch.manual_seed(0)
features = 1000 + torch.randn(512, 16)
target = features.mean(1, keepdim=True) + 0.1 * torch.randn(512, 1)
model = nn.Linear(16, 1, bias=False)
nn.init.constant_(model.weight, 1 / 16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
for step in range(200):
    rows = torch.randint(512, (32,))
    loss = nn.functional.mse_loss(model(features[rows]), target[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def without_optimizer(source: str) -> str:
    """Return the same training, with updates that it makes itself, in which it clears its gradients."""
    source = source.replace("optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)\n", "")
    source = source.replace("    optimizer.zero_grad()\n", "")
    return source.replace(
        "    optimizer.step()\n",
        "    for p in model.parameters():\n        p.data -= 1e-9 * p.grad\n        p.grad = None\n",
    )


@pytest.mark.long
def test_updates_by_hand_are_those_of_an_optimizer(
    folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    found = []
    # Its random numbers are others: they are numbered from where its model is called, not from the update.
    training = HARMED.replace("torch.randint(512, (32,))", "torch.arange(32 * step, 32 * step + 32) % 512")
    for place, source in enumerate((training, without_optimizer(training))):
        (folder / "train.py").write_text(source)
        script = Script(str(folder / "train.py"), "train.py", str(folder), "0" * 64, ())
        found.append(compared(forking_starter_of(script), machine, BFLOAT16, folder.parent / "run" / f"kept {place}"))
    assert found[0] == found[1]


@pytest.mark.long
def test_a_script_that_ends_too_early_says_so(
    folder: Path, forking_starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    (folder / "train.py").write_text(HARMED.replace("200", "12"))
    script = Script(str(folder / "train.py"), "train.py", str(folder), "0" * 64, ())
    found = compared(forking_starter_of(script), machine, {}, folder.parent / "run" / "kept")
    assert isinstance(found, Failure)
    assert (found.kind, found.message) == ("invalid", "it ended after 12 steps, too few to compare updates")


def test_each_step_is_made_from_the_state_that_is_wanted() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    steps = ScriptSteps(TrainedState([model], [optimizer]), torch.device("cpu"))
    inputs = torch.randn(8, 4)

    def make(wanted: Wanted) -> dict[str, torch.Tensor]:
        steps.begin(wanted)
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        steps.update_begins(optimizer)
        optimizer.step()
        made = steps.made(loss.item())
        if wanted.start is not None:
            assert torch.equal(made.gradients["0.weight"], model[0].weight.grad.flatten().double())
        return made.update

    assert make(Wanted()) == {}
    start = steps.state.copy()
    first = make(Wanted(start))
    make(Wanted())
    again = make(Wanted(start))
    assert {"0.weight", "0.weight (exp_avg)", "1.running_mean"} <= first.keys()
    assert all(bool(first[name].any()) for name in ("0.weight", "0.weight (exp_avg)", "1.running_mean"))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
