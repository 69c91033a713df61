"""A script's whole run under settings: the process is the script's own, and the settings are in force in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from autoaccel.records.base import encode
from autoaccel.records.messages import Train, WorkerSpec
from autoaccel.records.script import LoaderKey, SeenLoader
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Script
from tests.cases import rest_is_long

BECOME = (
    "import os, sys; from autoaccel.records.base import decode; from autoaccel.records.messages import WorkerSpec;"
    "from autoaccel.workers.becoming import become; become(decode(sys.argv[1], WorkerSpec), os.environ)"
)
SOURCE = """\
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
model = torch.nn.Linear(4, 1)
torch.set_num_threads(1)
train, val = DataLoader(data, batch_size=int(sys.argv[1]), shuffle=True), DataLoader(data, 64)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    for inputs, targets in train:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(train.num_workers, val.num_workers, optimizer.param_groups[0]["fused"], torch.get_num_threads())
print(__name__, sys.argv, repr(sys.stdin.read()))
sys.exit(5)
"""
SEEN = SeenLoader(LoaderKey("TensorDataset", 64, 8, "RandomSampler"), "train.py:8", 8, feeds=True)
FACTS = ScriptFacts((), (), (SEEN,), (0,), "cpu", 0.1, 10, 8, 16)
OWN: Settings = {
    "loader.workers": 0,
    "threads.intra_op": 1,
    "optimizer.fused": False,
    "precision.flush_denormals": False,
}


def run(
    folder: Path, settings: Settings, source: str = SOURCE, stdin: str = "", arguments: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(source)
    script = Script(str(folder / "train.py"), "train.py", str(folder), "", ("16", *arguments), stdin=stdin)
    spec = WorkerSpec(Train(seeds=()), script, {**OWN, **settings}, found=OWN, script=FACTS)
    code = ["-c", BECOME, encode(spec).decode()]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        [sys.executable, *code], cwd=folder, env=environment, input="typed", capture_output=True, text=True, timeout=300
    )


def test_without_changes_it_is_as_if_plain_python_ran_it(tmp_path: Path) -> None:
    done = run(tmp_path, {})
    assert done.stdout.splitlines() == ["0 0 None 1", "__main__ ['train.py', '16'] 'typed'"]
    assert (done.stderr, done.returncode) == ("", 5)


def test_its_standard_input_is_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.txt").write_text("written")
    done = run(tmp_path, {}, stdin=str(tmp_path / "settings.txt"))
    assert done.stdout.splitlines()[1] == "__main__ ['train.py', '16'] 'written'"


def test_settings_are_in_force_in_it_whatever_its_arguments(tmp_path: Path) -> None:
    done = run(tmp_path, {"loader.workers": 1, "optimizer.fused": True, "threads.intra_op": 2})
    # Its batches are of another size than when it was seen; the loader that it evaluates with keeps its arguments; what
    # it has set itself gives way.
    assert done.stdout.splitlines()[0] == "1 0 True 2"
    assert (done.stderr, done.returncode) == ("", 5)


HEARS = """\
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
print(len(hooks), torch.autograd.backward.__code__.co_filename.endswith("events.py"))
sys.exit(5)
"""


@pytest.mark.parametrize(
    ("settings", "hears"),
    rest_is_long(
        [
            ({}, "0 False"),
            ({"threads.intra_op": 2, "loader.workers": 1}, "0 False"),
            ({"optimizer.fused": True}, "1 True"),
        ]
    ),
)
def test_it_is_left_alone_where_nothing_is_left_to_be_done(tmp_path: Path, settings: Settings, hears: str) -> None:
    """Optimizers that it makes later are to be changed, too; all else is over after its first updates."""
    done = run(tmp_path, settings, SOURCE.replace("sys.exit(5)\n", HEARS))
    assert done.stdout.splitlines()[-1] == hears
    assert (done.stderr, done.returncode) == ("", 5)


@pytest.mark.long
def test_what_has_no_effect_is_said_once(tmp_path: Path) -> None:
    source = SOURCE.replace("torch.optim.Adam", "torch.optim.Rprop")
    done = run(tmp_path, {"optimizer.fused": True}, source.replace('["fused"]', '.get("fused")'))
    said, at_end = done.stderr.splitlines()
    assert said == "autoaccel: optimizer.fused has no effect: the optimizer has no fused form"
    reason = "optimizer.fused did not (the optimizer has no fused form)"
    assert at_end == f"autoaccel: train.py: nothing of the recipe took effect; {reason}"
    assert done.returncode == 5


PARTS = {"optimizer.fused": True, "loader.workers": 1, "precision.autocast": "bfloat16"}
FUNCTIONAL = SOURCE.replace("model(inputs)", "torch.nn.functional.linear(inputs, model.weight, model.bias)")
NO_LOADER = "no DataLoader was made like the one that fed the training"
NO_MODEL = "no model was called to train it"
NO_FUSED = "the optimizer has no fused form"


@pytest.mark.parametrize(
    ("source", "took", "not_taken"),
    rest_is_long([
        (SOURCE.replace("shuffle=True", "shuffle=False"), "optimizer.fused, precision.autocast",
         {"loader.workers": NO_LOADER}),
        (FUNCTIONAL, "loader.workers, optimizer.fused", {"precision.autocast": NO_MODEL}),
        (SOURCE.replace("Adam(", "Rprop(").replace('["fused"]', '.get("fused")'), "loader.workers, precision.autocast",
         {"optimizer.fused": NO_FUSED}),
        (SOURCE.replace("range(3)", "range(1)").replace("shuffle=True", "shuffle=False"),  # four updates
         "optimizer.fused, precision.autocast", {"loader.workers": NO_LOADER}),
        (FUNCTIONAL.replace("sys.exit(5)", "raise SystemExit(6)").replace("shuffle=True", "shuffle=False"),
         "optimizer.fused", {"loader.workers": NO_LOADER, "precision.autocast": NO_MODEL}),
    ], 2),
)  # fmt: skip
def test_what_took_effect_in_part_is_told_at_the_end(
    tmp_path: Path, source: str, took: str, not_taken: dict[str, str]
) -> None:
    done = run(tmp_path, PARTS, source)
    *_, at_end = done.stderr.splitlines()
    begin = f"autoaccel: train.py: {took} took effect; "
    assert at_end.startswith(begin), done.stderr
    assert dict(part.removesuffix(")").split(" did not (") for part in at_end.removeprefix(begin).split("; ")) == (
        not_taken
    )
    assert done.returncode == (6 if "SystemExit" in source else 5)


@pytest.mark.long
def test_nothing_is_told_at_the_end_where_all_took_effect(tmp_path: Path) -> None:
    for source in (SOURCE, SOURCE.replace("range(3)", "range(1)")):
        done = run(tmp_path, PARTS, source)
        assert (done.stderr, done.returncode) == ("", 5)


@pytest.mark.parametrize("settings", rest_is_long([{}, {"optimizer.fused": True}]))
def test_its_errors_are_its_own(tmp_path: Path, settings: Settings) -> None:
    done = run(tmp_path, settings, SOURCE.replace("sys.exit(5)", "raise ValueError('no')"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert done.stderr.splitlines()[-1] == "ValueError: no" and "autoaccel" not in done.stderr


def test_a_recipe_keeps_what_was_seen(tmp_path: Path) -> None:
    assert msgspec.json.decode(encode(FACTS), type=ScriptFacts) == FACTS


def test_a_script_that_asks_for_torch_before_it_imports_it_is_heard(tmp_path: Path) -> None:
    """transformers and datasets ask whether it is there; the settings were left out without a word."""
    asking = "import importlib.util\nassert importlib.util.find_spec('torch').origin.endswith('__init__.py')\n"
    done = run(tmp_path, {"optimizer.fused": True}, 2 * asking + SOURCE)
    assert done.stdout.splitlines()[0] == "0 0 True 1"
    assert (done.stderr, done.returncode) == ("", 5)


@pytest.mark.parametrize(
    "source", rest_is_long(["print('no torch')", "import torch", "import torch, sys\nsys.exit(0)"], 2)
)
def test_a_recipe_that_meets_no_training_is_an_error_at_the_end(tmp_path: Path, source: str) -> None:
    done = run(tmp_path, {"optimizer.fused": True}, source)
    assert done.returncode == 2
    assert done.stderr.startswith("autoaccel: train.py: the recipe took no effect on a training: ")
    assert len(done.stderr.splitlines()) == 1


def test_an_exit_code_of_the_scripts_own_stays(tmp_path: Path) -> None:
    done = run(tmp_path, {"optimizer.fused": True}, "import sys\nsys.exit(3)")
    assert (done.stderr, done.returncode) == ("", 3)
