"""Scripts of well-known trainers are seen as they are; `make check-long` installs what they import."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from autoaccel.records.machine import Machine
from autoaccel.records.messages import GiveTurn, Measure, Turn
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.measuring import Measuring
from autoaccel.workers.starter import WorkerStarter
from tests.runtime.script.asking import SECONDS, describe
from tests.runtime.script.test_hard_cases import in_folder, listing


class Trainer(NamedTuple):
    """What is right for the script of a trainer."""

    imports: str
    model: str
    fed_by: str
    per_epoch: int
    planned: int
    planned_from: str
    does: str = "seeds torch"


TRAINERS = {
    "lit_digits.py": Trainer(
        "lightning",
        "LitDigits",
        "Subset 64 RandomSampler",
        24,
        960,
        "estimated_stepping_batches of Lightning's Trainer",
    ),
    "bert_trainer.py": Trainer(
        "transformers",
        "BertForSequenceClassification",
        "Passages 16 BatchSampler",
        50,
        1000,
        "state.max_steps of the Trainer of transformers",
        "clips gradients by their norm",
    ),
    "accelerated.py": Trainer(
        "accelerate",
        "ViT",
        "TensorDataset 32 BatchSampler",
        24,
        960,
        "range(args.num_epochs) in accelerated.py:51, train_loader in accelerated.py:53",
        "accumulates the gradients of 2 backward passes",
    ),
    "timm_train.py": Trainer(
        "timm",
        "ResNet",
        "Digits 32 RandomSampler",
        43,
        516,
        "range(epochs) in timm_train.py:68, enumerate(loader) in timm_train.py:71",
        "clips gradients by their norm",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("file", TRAINERS)
def test_the_script_of_a_trainer_is_seen_as_it_is(
    file: str, folder: Path, starter_of: Callable[[Script], WorkerStarter], machine: Machine
) -> None:
    right = TRAINERS[file]
    if importlib.util.find_spec(right.imports) is None:
        pytest.skip("pip install 'autoaccel[scripts]'")
    starter = starter_of(in_folder(f"frameworks/{file}", folder, ()))
    before = listing(folder)
    found = describe(starter)
    assert isinstance(found, TrainingFacts), found
    script = found.script
    assert script is not None and script.loader is not None
    assert [model.kind for model in script.models] == [right.model]
    assert [one.kind for one in script.optimizers] == ["AdamW"]
    key = script.loader.key
    assert f"{key.dataset} {key.batch_size} {key.sampler}" == right.fed_by
    assert (script.steps_per_epoch, script.planned_steps) == (right.per_epoch, right.planned)
    assert script.planned_from == right.planned_from
    assert right.does in script.does

    context = KnobContext(machine, found)
    settings = {**baseline_settings(context), "precision.autocast": "bfloat16", "loader.workers": 1}
    trial = starter.at(context).start_all_measuring(Measure(), {"trial": settings}, SECONDS)[0]
    assert isinstance(trial, Measuring), trial
    turn = trial.take_turn(GiveTurn(0.0, min_steps=3), SECONDS)
    trial.close()
    assert isinstance(turn, Turn) and not turn.diverged
    assert listing(folder) == before
