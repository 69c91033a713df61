"""The commands that are printed hold all that must be typed again: pasted, they are accepted."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from autoaccel.cli import _parse
from autoaccel.commands.use import RecipeUse, as_said_of_place, with_named_arguments
from autoaccel.errors import BadRequestError
from autoaccel.records.options import TuneOptions, options_in
from autoaccel.records.script import ScriptArgument
from autoaccel.records.workload import Script
from autoaccel.report.commands import next_commands, resume_command
from autoaccel.runs.repeating import check_repeated
from tests.hostile.samples import recipe

SCRIPT = Script("/none/train.py", "train.py", "/none", "0" * 64, ("--epochs", "3", "-x"))
RUN = Path("a run\n2")


@pytest.mark.parametrize(
    "asked",
    [
        TuneOptions(),
        TuneOptions(sampler="mine:Own"),
        TuneOptions(sampler="tpe"),
        TuneOptions(args=["lr=1,2", "amp", "-b=1", "--width=3"]),
        TuneOptions(in_place=True, args=["lr=1"], sampler="my.package:Own"),
    ],
)
def test_the_command_that_resumes_a_run_is_accepted(asked: TuneOptions) -> None:
    command = shlex.split(resume_command(SCRIPT, Path("a run"), "+5m", asked))
    typed = options_in(_parse(command[1:]))
    assert typed.resume and typed.output == "a run"
    check_repeated(typed, asked, RUN)


def test_values_may_be_typed_again_and_others_not() -> None:
    kept = TuneOptions(args=["lr=1,2", "amp"])
    check_repeated(TuneOptions(args=["amp", "lr=1,2"]), kept, RUN)
    check_repeated(TuneOptions(args=["amp", "lr"], sampler="my:Own", in_place=True), kept, RUN)
    for args in (["amp", "lr=1,3"], ["amp=1", "lr"], ["amp", "lr", "depth"], ["amp", "lr", "depth=1"]):
        with pytest.raises(BadRequestError, match="was not asked to try that"):
            check_repeated(TuneOptions(args=args), kept, RUN)


def test_the_commands_that_use_a_recipe_are_accepted() -> None:
    found = recipe(of_script=True)
    assert found.script is not None
    own = {"arg.lr": "1", "arg.amp": True, "arg.-b": "(not given)", "arg.same": "x"}
    better = {"arg.lr": "2 3", "arg.amp": False, "arg.-b": "4", "arg.same": "x"}
    arguments = tuple(ScriptArgument(name[4:], (own[name], better[name])) for name in own)
    found = msgspec.structs.replace(
        found,
        workload=SCRIPT,
        settings={**found.settings, **better},
        baseline=msgspec.structs.replace(found.baseline, settings={**found.baseline.settings, **own}),
        script=msgspec.structs.replace(found.script, arguments=arguments, in_place=True),
    )
    run, verify = (shlex.split(command) for command in list(next_commands(found, Path("recipe.json")))[:2])
    for command in (run, verify):
        parsed = _parse(command[1:])
        assert parsed.named == ["lr", "amp", "-b"] and parsed.arguments == ["..."]
        use = with_named_arguments(RecipeUse(found, RUN, SCRIPT), parsed.named, pytest.fail)
        assert {name for name in use.recipe.settings if name.startswith("arg.")} == {"arg.lr", "arg.amp", "arg.-b"}
    as_said_of_place(use, parsed.in_place)
