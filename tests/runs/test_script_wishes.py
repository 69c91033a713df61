"""What a person says of a script, beside what was seen of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.api import make_request
from autoaccel.errors import BadRequestError
from autoaccel.records.accuracy import exact_numbers
from autoaccel.records.base import decode, encode
from autoaccel.records.machine import Machine
from autoaccel.records.options import TuneOptions
from autoaccel.records.script import LoaderKey, SeenLoader
from autoaccel.records.script_metric import FileMetric, MetricSource, PrintedMetric, ReportedMetric
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.workload import BuildFunction, Script, TrainingFacts
from autoaccel.report.commands import resume_command
from autoaccel.runs.script_wishes import as_tuned, with_wishes
from autoaccel.runs.workloads import find_module, find_script, find_workload
from autoaccel.space.knobs import KnobContext, baseline_settings, is_exact
from autoaccel.space.search_space import load_space
from tests.report.samples import RECIPE

SCRIPT = Script("/train.py", "train.py", "/", "0" * 64)
SEEN = ScriptFacts((), (), (), (0,), "cpu", 0.5, 10, steps_per_epoch=16, planned_steps=None, has_loss=True)
FACTS = TrainingFacts(
    "training loss", "minimize", 10, 16, 32, 100, "cpu", {}, "SGD", True, False, False, 0, False, script=SEEN
)


def test_a_planned_length_that_is_given_holds_whatever_was_read() -> None:
    read = msgspec.structs.replace(FACTS, script=msgspec.structs.replace(SEEN, planned_steps=160, planned_from="a"))
    for facts in (FACTS, read):
        found = with_wishes(facts, SCRIPT, TuneOptions(steps=320))
        assert found.script is not None
        assert (found.planned_steps, found.script.planned_steps, found.script.planned_from) == (320, 320, "--steps")
        assert with_wishes(facts, SCRIPT, TuneOptions()) == facts
    found = with_wishes(FACTS, SCRIPT, TuneOptions(hours=0.5))
    assert found.script is not None and found.planned_steps == 3600  # of half a second each
    assert found.script.planned_from == "--hours 0.5 at the pace of its first steps"
    assert with_wishes(FACTS, SCRIPT, TuneOptions(steps=5)).planned_steps == 5  # less than an epoch


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 9, "hours": 1.0}, "--steps and --hours both say how long the script will train; choose one"),
        ({"hours": 0.0}, "--hours must be above 0, got 0."),
        ({"hours": float("nan")}, "--hours must be at least 0, got nan."),
        ({"metric": "acc: ([0-9"}, "--metric acc: \\(\\[0-9: must be a regular expression: "),
        ({"metric": "acc: [0-9]+"}, "--metric acc: .* must have one group, which is the number, .* and has 0"),
        ({"metric": "(a|b): ([0-9]+)"}, "must have one group, which is the number, .* and has 2"),
        ({"metric": "acc", "metric_file": "m.json:acc"}, "--metric and --metric-file both say what judges"),
        ({"metric_file": "metrics.json"}, "--metric-file metrics.json: must be FILE:KEY, such as metrics.json:acc"),
        ({"metric_file": ":acc"}, "--metric-file :acc: must be FILE:KEY"),
        ({"direction": "maximize", "metric": None}, "--direction requires --metric or --metric-file"),
    ],
)
def test_what_cannot_be_said_of_a_script_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        make_request(SCRIPT, TuneOptions(**{"direction": "maximize" if "metric" in str(values) else None, **values}))


@pytest.mark.parametrize(
    ("values", "source", "name"),
    [
        ({"metric": r"val_acc[:=]\s*([0-9.]+)"}, PrintedMetric(r"val_acc[:=]\s*([0-9.]+)"), "val_acc"),
        ({"metric": "([0-9.]+) %"}, PrintedMetric("([0-9.]+) %"), "([0-9.]+) %"),
        ({"metric": "eval/accuracy"}, ReportedMetric("eval/accuracy"), "eval/accuracy"),
        ({"metric_file": "C:/out/metrics.json:eval.acc"}, FileMetric("C:/out/metrics.json", "eval.acc"), "eval.acc"),
    ],
)
def test_a_metric_of_its_own_judges_a_script(values: dict[str, Any], source: MetricSource, name: str) -> None:
    with pytest.raises(BadRequestError, match="requires --direction maximize or --direction minimize"):
        make_request(SCRIPT, TuneOptions(**values))
    found = with_wishes(FACTS, SCRIPT, TuneOptions(**values, direction="maximize"))
    assert found.script is not None
    assert (found.metric, found.direction, found.script.metric) == (name, "maximize", source)
    assert decode(encode(found), TrainingFacts) == found


@pytest.mark.parametrize("text", ["", "=3", "batch-size=", "batch-size=1,,2", "batch size=3", "3=4"])
def test_an_argument_that_cannot_be_one_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match=r"--arg .*: must be NAME=VALUE,VALUE, such as batch-size=32,64, or"):
        make_request(SCRIPT, TuneOptions(args=[text]))
    with pytest.raises(BadRequestError, match="--arg a=2: a is named twice"):
        make_request(SCRIPT, TuneOptions(args=["a=1", "a=2"]))
    with pytest.raises(BadRequestError, match="--arg: for a script only"):
        make_request(BuildFunction("/model.py", "build", "0" * 64), TuneOptions(args=["a=1"]))


def test_arguments_become_knobs_with_the_scripts_own_value_first(machine: Machine) -> None:
    feeding = SeenLoader(LoaderKey("Data", 640, 40, "RandomSampler"), "", 16, feeds=True)
    seen = msgspec.structs.replace(SEEN, loaders=(feeding,), parsed={"width": "8", "batch-size": "32"})
    facts = msgspec.structs.replace(FACTS, script=seen, loader_adjustable=True, found={"loader.workers": 0})
    script = msgspec.structs.replace(SCRIPT, arguments=("--batch-size", "40", "--amp"))
    options = TuneOptions(args=["batch-size=20,40,80", "width=8,16", "amp", "no_bias", "num-workers=0,2", "rate=1"])
    context = KnobContext(machine, with_wishes(facts, script, options))
    space = load_space("exact-only", context)
    assert space.open["arg.num-workers"] == ("(not given)", "0", "2")
    assert not [name for name in space.open if name.startswith("arg.") and name != "arg.num-workers"]
    space = load_space("default", context, excluded=["arg.rate"])
    assert {name: values for name, values in space.open.items() if name.startswith("arg.")} == {
        "arg.batch-size": ("40", "20", "80"),
        "arg.width": ("8", "16"),
        "arg.amp": (True, False),
        "arg.no_bias": (False, True),
        "arg.num-workers": ("(not given)", "0", "2"),
    }
    baseline = baseline_settings(context)
    assert (baseline["arg.batch-size"], baseline["arg.rate"]) == ("40", "(not given)")
    assert is_exact({**baseline, "arg.num-workers": "2"}, baseline, space.inexact)
    assert not is_exact({**baseline, "arg.width": "16"}, baseline, space.inexact)
    # A knob of ours would override it.
    assert not space.allows({**baseline, "arg.num-workers": "2", "loader.workers": 1})
    assert space.allows({**baseline, "arg.num-workers": "2"}) and space.allows({**baseline, "loader.workers": 1})


def test_an_argument_whose_samples_cannot_be_seen_is_not_tuned(machine: Machine) -> None:
    facts = with_wishes(FACTS, SCRIPT, TuneOptions(args=["batch-size=20", "workers=1"]))
    space = load_space("default", KnobContext(machine, facts))
    assert "arg.workers" in space.open
    assert space.closed["arg.batch-size"].startswith("how many samples a step takes under it cannot be seen")


def test_a_module_is_found_as_python_finds_it_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "pack" / "inner" / "train.py").touch()
    (tmp_path / "pack" / "__main__.py").touch()
    found = find_module("pack.inner.train", ["--lr", "0.1"])
    path = str(tmp_path / "pack" / "inner" / "train.py")
    assert (found.path, found.program, found.folder, found.module) == (path, path, str(tmp_path), "pack.inner.train")
    assert found.imports_from == str(tmp_path)
    assert find_module("pack").path == str(tmp_path / "pack" / "__main__.py")
    resumed = resume_command(found, Path("run"), "+5m", TuneOptions())
    assert resumed == "autoaccel tune -m pack.inner.train --budget +5m --output run --resume"
    for name in ("pack.none", "none.train", "pack.inner", "sys", "torch._C"):
        with pytest.raises(BadRequestError, match=f"-m {name}: "):
            find_module(name)


def test_a_program_is_a_script_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "bin" / "train-it"
    program.parent.mkdir()
    program.write_text("#!/usr/bin/env python3\ndef build(): pass\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    for named in ("train-it", "bin/train-it"):
        found = find_workload(named)
        assert isinstance(found, Script) and found.path == str(program)
    program.write_text("#!/bin/sh\n")
    with pytest.raises(BadRequestError, match="a program that begins with #!python"):
        find_workload("train-it")


def test_a_file_that_defines_build_is_named_as_a_script_wherever_it_is_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def build(): pass")
    found = find_script(str(tmp_path / "train.py"))
    command = resume_command(found, Path("run"), "5m", TuneOptions())
    assert f"autoaccel tune --script {tmp_path}/train.py --budget 5m" in command


def test_what_was_said_when_a_recipe_was_made_holds_when_it_is_checked() -> None:
    options = TuneOptions(steps=320, metric="acc: ([0-9.]+)", direction="maximize", in_place=True)
    tuned = with_wishes(FACTS, SCRIPT, options)
    accuracy = exact_numbers(tuned.metric, "maximize")
    recipe = msgspec.structs.replace(RECIPE, script=tuned.script, accuracy=accuracy)
    assert as_tuned(FACTS, recipe) == tuned

    # What was read, and not said, is read again: the script may be given other arguments.
    longer = msgspec.structs.replace(SEEN, planned_steps=640, planned_from="range(epochs) in train.py:8")
    read = msgspec.structs.replace(recipe, script=longer)
    assert as_tuned(FACTS, read).planned_steps == FACTS.planned_steps
    assert as_tuned(FACTS, RECIPE) == FACTS  # of no script
    built = msgspec.structs.replace(FACTS, script=None)
    assert as_tuned(built, recipe) == built  # which says itself what it is judged by, and how long it is


def test_the_training_loss_judges_no_argument_that_may_change_the_training() -> None:
    """It fell from 0.69 to 0.01 where an augmentation was switched off, and the accuracy on new samples with it."""
    with pytest.raises(
        BadRequestError, match=r"--arg augment may change the training, .* Name another metric: --metric"
    ):
        make_request(SCRIPT, TuneOptions(args=["num-workers=0,2", "augment=1,0"]))
    make_request(SCRIPT, TuneOptions(args=["num-workers=0,2", "pin-memory"]))
    make_request(SCRIPT, TuneOptions(args=["augment=1,0"], metric="val_acc: ([0-9.]+)", direction="maximize"))
