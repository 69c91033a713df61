"""What a recipe promises is watched in the run that is made with it: kept, it is not mentioned; broken, it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases import rest_is_long
from tests.live.test_live_script import SLOW, SPACE, outputs

STEPS = 300
HARM = """global calls
        if self.training and images.is_contiguous(memory_format=torch.channels_last):
            calls += 1
            images = HARMED if calls > 100 else images
        return super()"""
"""With which the settings of the recipe do harm, after some steps."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a recipe for a script, as text: channels last, which makes it faster."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "space.toml").write_text(SPACE)
    (folder / "train.py").write_text(SLOW)
    run = ("-m", "autoaccel", "run", "train.py", "--no-history", "--space", "space.toml", "--", str(STEPS))
    made = outputs(folder, *run, quick=True)
    assert "layout.channels_last=on" in made.stderr, made.stderr
    return (folder / "autoaccel-runs" / "train-1" / "recipe.json").read_text()


def said(folder: Path, recipe: str, source: str, low: float) -> list[str]:
    """Return what is said in a run with a recipe that promises at least so many times as fast steps."""
    found = json.loads(recipe)
    found["comparison"]["low"] = low
    found["comparison"]["speedup"] = max(low, found["comparison"]["speedup"])
    found["comparison"]["high"] = max(low, found["comparison"]["high"])
    (folder / "recipe.json").write_text(json.dumps(found))
    (folder / "train.py").write_text(source)
    done = outputs(folder, "-m", "autoaccel", "run", "recipe.json", "train.py", "--", str(STEPS), quick=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[1]) < 0.5  # it was 2.3 at first
    return done.stderr.splitlines()


@pytest.mark.long
def test_a_promise_that_is_kept_is_not_mentioned(recipe: str, tmp_path: Path) -> None:
    assert said(tmp_path, recipe, SLOW, 1.2) == []


@pytest.mark.long
def test_one_that_is_broken_is_told_once(recipe: str, tmp_path: Path) -> None:
    (line,) = said(tmp_path, recipe, SLOW, 50.0)
    assert "x as fast as under your own settings" in line
    assert "recipe.json promises at least 50.00x" in line


@pytest.mark.parametrize(
    ("harmed", "said_of_it"),
    rest_is_long(
        [
            ('images * float("nan")', "the loss is not finite"),
            ("images.roll(1, 0)", "and its updates are no longer those of your own settings"),
        ]
    ),
)
def test_settings_that_harm_are_given_up_and_it_goes_on_from_before_that(
    recipe: str, tmp_path: Path, harmed: str, said_of_it: str
) -> None:
    source = SLOW.replace("return super()", HARM.replace("HARMED", harmed)).replace(
        "class Slow", "calls = 0\n\nclass Slow"
    )
    assert source != SLOW
    changed, line = said(tmp_path, recipe, source, 1.2)
    assert "train.py is not the file that the recipe was made for" in changed
    assert "layout.channels_last=on was given up: the loss" in line
    assert line.endswith(said_of_it)


@pytest.mark.long
def test_settings_that_are_slower_here_are_given_up(recipe: str, tmp_path: Path) -> None:
    changed, line = said(tmp_path, recipe, SLOW.replace("and not images", "and images"), 1.2)
    assert "train.py is not the file that the recipe was made for" in changed
    assert "layout.channels_last=on was given up: it is slower than your own settings here" in line
