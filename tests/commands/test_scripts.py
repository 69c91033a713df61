"""A recipe's arguments are added to a script's command line, unless a person gives them."""

from __future__ import annotations

import msgspec
import pytest

from autoaccel.commands.scripts import _with_arguments
from autoaccel.records.workload import Script
from tests.report.samples import RECIPE


def test_arguments_that_were_found_better_are_added_unless_given(capsys: pytest.CaptureFixture[str]) -> None:
    baseline = msgspec.structs.replace(
        RECIPE.baseline,
        settings={**RECIPE.baseline.settings, "arg.batch-size": "64", "arg.amp": False, "arg.lr": "1", "arg.x": "0"},
    )
    settings = {**RECIPE.settings, "arg.batch-size": "128", "arg.amp": True, "arg.lr": "2", "arg.x": "0"}
    recipe = msgspec.structs.replace(RECIPE, settings=settings, baseline=baseline)
    script = Script("/train.py", "train.py", "/", "0" * 64, ("--epochs", "90", "--lr=3"))
    found = _with_arguments(script, recipe)
    assert isinstance(found, Script)
    assert found.arguments == ("--epochs", "90", "--lr=3", "--batch-size", "128", "--amp")
    assert capsys.readouterr().err == "autoaccel: --lr is as you give it; the recipe has 2.\n"
