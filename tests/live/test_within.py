"""`with autoaccel.live():` around a loop of one's own: in a program, in a notebook, and in what autoaccel runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.records.recipe import read_recipe
from autoaccel.records.settings import changed
from tests.live.test_live_script import SLOW, SPACE, outputs, remembered_in, tried_in

HEAD, _, LOOP = SLOW.partition("for step in range")
WITHIN = (
    HEAD
    + """
import autoaccel
before = dict(vars(model))
with autoaccel.live(space="space.toml") as live:
    for step in range"""
    + LOOP.replace("\n    ", "\n        ")
    + """
print(live.summary)
with autoaccel.live(space="space.toml") as again:
    pass
print(again.summary)
print(sorted(vars(model).items()) == sorted(before.items()), torch.nn.Module.__call__.__qualname__)
print(sys.modules['torch.optim.optimizer']._global_optimizer_pre_hooks, torch.Tensor.backward.__qualname__)
"""
)


def folder_in(path: Path) -> Path:
    folder = path / "project"
    folder.mkdir()
    (folder / "space.toml").write_text(SPACE)
    (folder / "train.py").write_text(WITHIN)
    return folder


def test_a_loop_of_ones_own_is_tuned_and_then_left_as_it_was(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    done = outputs(folder, "train.py", "500")
    assert done.returncode == 0, done.stderr
    _, summary, again, model, hooks = done.stdout.splitlines()
    assert again == "it was not tuned: it made too few steps"
    assert "x as fast as under your own settings" in summary
    assert model == "True Module._wrapped_call_impl"
    assert hooks == "OrderedDict() Tensor.backward"
    assert [one.became for one in tried_in(folder, "train-1")] == ["kept"]
    recipe = read_recipe(folder / "autoaccel-runs" / "train-1" / "recipe.json")
    assert changed(recipe.settings, recipe.baseline.settings) == {"layout.channels_last": True}
    assert len(remembered_in(folder)) == 1


@pytest.mark.long
def test_a_notebook_leaves_what_was_tried_alone(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    done = outputs(folder, "-c", WITHIN, "500")
    assert done.returncode == 0, done.stderr
    assert tried_in(folder, "notebook-1")
    assert [path.name for path in (folder / "autoaccel-runs" / "notebook-1").iterdir()] == ["live.jsonl"]
    assert not remembered_in(folder)


def test_one_that_is_too_short_says_so_and_an_error_is_the_users_own(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    assert "it made too few steps" in outputs(folder, "train.py", "3").stdout
    (folder / "train.py").write_text(WITHIN.replace("optimizer.step()", "1 / 0"))
    failed = outputs(folder, "train.py", "3")
    assert "ZeroDivisionError" in failed.stderr


def test_in_what_autoaccel_runs_it_does_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    done = outputs(folder, "-m", "autoaccel", "run", "train.py", "--no-history", "--space", "space.toml", "--", "60")
    assert "it was not tuned here" in done.stdout
    assert len(done.stderr.splitlines()) == 2
