"""Options of a tuning run: declared once, and the same wherever they appear."""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoaccel.api import autotune, make_request
from autoaccel.cli.options import add_options
from autoaccel.errors import BadRequestError
from autoaccel.records.base import decode, encode
from autoaccel.records.options import OPTIONS, TuneOptions, as_arguments, options_in
from autoaccel.records.recipe import Constraint
from autoaccel.records.request import Request
from autoaccel.records.workload import BuildFunction, Script
from autoaccel.report.commands import resume_command, tune_command

ALL = [option.name for option in OPTIONS]
NAMES = st.lists(st.text(), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "budget": st.none() | st.text(min_size=1) | st.floats(10.0, 1e9) | st.integers(10, 10**9),
    "trials": st.none() | st.integers(),
    "max_drop": st.none() | st.text() | st.floats(0.0, 1.0),
    "metric_repeats": st.integers(),
    "evidence": st.sampled_from(["any", "whole"]),
    "space": st.text() | st.builds(Path, st.just("folder/my space.toml")),
    "fixed": NAMES,
    "excluded": NAMES.map(tuple),
    "output": st.none() | st.text() | st.builds(Path, st.just("-runs")),
    "resume": st.booleans(),
    "sampler": st.sampled_from(["autoaccel", "tpe", "gp", "my_module:MySampler"]),
    "seed": st.integers(),
    "trainings": st.integers(),
    "steps": st.none() | st.integers(),
    "hours": st.none() | st.floats(0.001, 1e6),
    "metric": st.none() | st.text(min_size=1),
    "metric_file": st.none() | st.text(min_size=1),
    "direction": st.sampled_from([None, "maximize", "minimize"]),
    "no_history": st.booleans(),
    "in_place": st.booleans(),
    "args": NAMES,
}
WORKLOAD = BuildFunction("/model.py", "build", "0" * 64, ("--epochs", "3"))


def read(arguments: list[str]) -> TuneOptions:
    """Return the options as `autoaccel tune` reads them."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return options_in(parser.parse_args(arguments))


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_every_option_comes_back_from_the_command_line_and_from_json(values: dict[str, Any]) -> None:
    options = TuneOptions(**values)
    assert read(as_arguments(options)) == options
    assert read(as_arguments(options, always=ALL)) == options
    request = Request(WORKLOAD, 60.0, Constraint(0.01, True), options)
    assert decode(encode(request), Request) == request


def test_every_option_is_tried_above() -> None:
    assert list(VALUES) == ALL


def test_what_has_its_default_value_is_left_out_unless_it_is_asked_for() -> None:
    assert as_arguments(TuneOptions()) == []
    options = TuneOptions(seed=3, fixed=["a=1", "b=2"], resume=True)
    assert as_arguments(options) == ["--set", "a=1", "--set", "b=2", "--resume", "--seed", "3"]
    assert as_arguments(options, always=("sampler", "trials"))[-4:-2] == ["--sampler", "autoaccel"]


def test_numbers_and_paths_are_kept_as_they_are_typed() -> None:
    options = TuneOptions(budget=90.5, max_drop=0.005, space=Path("my.toml"), output=Path("run"), fixed=["a=1"])
    assert (options.budget, options.max_drop, options.space) == ("90.5s", "0.005", "my.toml")
    assert (options.output, options.fixed) == ("run", ("a=1",))
    assert TuneOptions(budget=1_000_000).budget == "1000000s"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trials": 0}, "--trials must be at least 1, got 0."),
        ({"trainings": 0}, "--trainings must be at least 1, got 0."),
        ({"metric_repeats": 1}, "at least 2, because one run does not show the spread, got 1."),
        ({"evidence": "some"}, "--evidence must be any or whole, got some."),
        ({"budget": "+5m"}, "--budget .5m: additional time requires --resume"),
        ({"budget": 5}, "--budget must be at least 10s, .* got 5s."),
        ({"max_drop": "some"}, "--max-drop must be a share"),
        ({"space": "gpus"}, "--space gpus: must be one of"),
        ({"steps": 0}, "--steps must be at least 1, got 0."),
        ({"steps": 9}, "--steps: for a script only; what build"),
        ({"metric": "acc", "direction": "up"}, "--direction must be maximize or minimize, got up."),
        ({"sampler": "best"}, "--sampler must be autoaccel, tpe, .*, or module:Class"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        make_request(WORKLOAD, TuneOptions(**values))


def test_a_request_is_worked_out_from_its_options() -> None:
    request = make_request(WORKLOAD, TuneOptions(budget="+2m", resume=True, max_drop="5%"))
    assert (request.budget_seconds, request.constraint) == (120.0, Constraint(0.05, True))
    assert request.may_alter and not make_request(WORKLOAD, TuneOptions()).may_alter
    assert make_request(WORKLOAD, TuneOptions()).constraint == Constraint(0.01, True)
    assert make_request(WORKLOAD, TuneOptions()).options.budget == "10m"
    assert make_request(WORKLOAD, TuneOptions(resume=True)).options.budget is None  # what is left is not known yet


def test_a_program_is_shown_every_option_by_name_type_default_and_help() -> None:
    parameters = inspect.signature(autotune).parameters
    assert list(parameters) == ["build", *ALL, "listener"]
    assert parameters["build"].default is inspect.Parameter.empty
    assert "{" not in (autotune.__doc__ or "")
    for option in OPTIONS:
        shown = parameters[option.name]
        assert (shown.kind, shown.default) == (inspect.Parameter.KEYWORD_ONLY, option.default)
        assert shown.annotation == option.type
        entry = f"{option.name}: {option.help_with_default[0].upper()}{option.help_with_default[1:]}"
        assert entry in " ".join((autotune.__doc__ or "").split())
    with pytest.raises(TypeError, match="unexpected keyword argument 'bugdet'"):
        autotune("model.py", bugdet="1m")  # type: ignore[call-arg]  # misspelt, which is the case
    with pytest.raises(BadRequestError, match=r"none.py: there is no such file"):
        autotune(build="none.py", budget=60.0, listener=lambda event: None)


def test_commands_repeat_and_resume_a_run() -> None:
    options = TuneOptions(budget="90s", output="run", resume=True, excluded=["compile.mode"])
    request = Request(WORKLOAD, 90.0, Constraint(0.01, True), options)
    assert tune_command(request) == (
        "autoaccel tune /model.py --budget 90s --space default --exclude compile.mode -- ..."
    )
    assert resume_command(WORKLOAD, Path("my run"), "+5m", TuneOptions(sampler="tpe")) == (
        "autoaccel tune /model.py --budget +5m --output 'my run' --resume"
    )
    assert (
        resume_command(WORKLOAD, Path("run"), None, TuneOptions()) == "autoaccel tune /model.py --output run --resume"
    )
    script = Script("/train.py", "train.py", "/", "0" * 64, stdin="/settings.json")
    asked = TuneOptions(sampler="mine:Own", args=["lr=1,2", "amp"], in_place=True, seed=3)
    assert resume_command(script, Path("run"), "+5m", asked) == (
        "autoaccel tune --stdin /settings.json /train.py --budget +5m --output run --resume --sampler mine:Own "
        "--in-place --arg lr --arg amp"
    )


ANOTHER_OPTION = """
import contextlib, dataclasses, inspect, io, json
from typing import Annotated
from autoaccel.records import options
from autoaccel.records.options import Option, TuneOptions

@dataclasses.dataclass(frozen=True, kw_only=True)
class Longer(TuneOptions):
    tea_breaks: Annotated[int | None, Option("how often to rest", unset="never", metavar="TIMES", min=1)] = None

options.TuneOptions, options.OPTIONS = Longer, options.options_of(Longer)

from autoaccel.api import autotune, make_request
from autoaccel.cli import main
from autoaccel.errors import BadRequestError
from autoaccel.records.base import decode, encode
from autoaccel.records.request import Request
from autoaccel.report.commands import tune_command
from autoaccel.runs.workloads import find_workload

def said(*arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        with contextlib.suppress(SystemExit):
            main(["tune", *arguments])
    return out.getvalue()

def refused():
    try:
        autotune("model.py", tea_breaks=0)
    except BadRequestError as error:
        return str(error)

request = make_request(find_workload("model.py"), Longer(tea_breaks=3))
slurm = ("--storage", "a.journal", "--with", "slurm", "--workers", "2", "--dry-run")
print(json.dumps({
    "help": said("--help"),
    "signature": str(inspect.signature(autotune).parameters["tea_breaks"]),
    "docstring": autotune.__doc__,
    "refused by the command": said("model.py", "--tea-breaks", "0"),
    "refused by the function": refused(),
    "kept": decode(encode(request), Request).options.tea_breaks,
    "repeated": tune_command(request),
    "submitted": said("model.py", "--tea-breaks", "3", *slurm),
}))
"""


def test_an_option_that_is_declared_is_everywhere(write_model: Callable[..., Path], tmp_path: Path) -> None:
    """One more field of TuneOptions; nothing else is told of it."""
    write_model()
    done = subprocess.run([sys.executable, "-c", ANOTHER_OPTION], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert "--tea-breaks TIMES" in shown["help"]
    assert "how often to rest (default: never)" in " ".join(shown["help"].split())
    assert shown["signature"] == "tea_breaks: int | None = None"
    assert "tea_breaks: How often to rest (default: never).\n" in shown["docstring"]
    assert shown["refused by the command"] == "autoaccel: --tea-breaks must be at least 1, got 0.\n"
    assert shown["refused by the function"] == "--tea-breaks must be at least 1, got 0."
    assert shown["kept"] == 3
    assert shown["repeated"] == "autoaccel tune model.py --budget 10m --space default --tea-breaks 3"
    assert " --tea-breaks 3 --storage a.journal --output " in shown["submitted"]
