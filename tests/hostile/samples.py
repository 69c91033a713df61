"""What hostile input is made of: a recipe of this machine that is in order, to be changed at a place or two."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.machine.detect import detect_machine
from autoaccel.machine.torch_version import read_torch_version
from autoaccel.records.machine import Machine, TorchFacts
from autoaccel.records.messages import Failure
from autoaccel.records.recipe import SCHEMA, Baseline, Constraint, Projection, Recipe, SearchSummary
from autoaccel.records.request import Request
from autoaccel.records.run import RUN_SCHEMA, RunRecord
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial
from autoaccel.records.workload import BuildFunction, Script, Workload
from autoaccel.space.knobs import KnobContext, baseline_settings, default_settings
from tests.samples import FACTS

MODEL = "def build():\n    raise SystemExit('nothing of this file may run')\n"
SCRIPT = "raise SystemExit('nothing of this file may run')\n"


@functools.cache
def this_machine() -> Machine:
    """Return this computer with a torch that can do what most can."""
    cores = detect_machine().usable_cores
    torch = TorchFacts(read_torch_version(), cores, cores, "AVX2", "cpu", "CPU", ("bfloat16",), True)
    return msgspec.structs.replace(detect_machine(), torch=torch)


def recipe(of_script: bool = False) -> Recipe:
    """Return a recipe that was made here and claims that channels-last is faster."""
    baseline = default_settings(KnobContext(this_machine()))
    facts = ScriptFacts((), (), (), (), "cpu", 0.01, 8, None, 100, has_loss=True)
    sha256 = hashlib.sha256((SCRIPT if of_script else MODEL).encode()).hexdigest()
    script = Script("/none/train.py", "train.py", "/none", sha256)
    return Recipe(
        schema=SCHEMA,
        created="2026-01-01T00:00:00+00:00",
        summary="1.50x faster",
        workload=script if of_script else BuildFunction("/none/model.py", "build", sha256),
        machine=this_machine(),
        settings={**baseline, "layout.channels_last": True},
        baseline=Baseline(baseline, 0.03, 3.0, 0.1, 2000.0, 1 << 30),
        comparison=Comparison(1.5, 1.4, 1.6, "faster", 0.95, 6, 48),
        constraint=Constraint(0.01, True),
        accuracy=None,
        projection=Projection(1000, 3.0, 0.1, 0.02, 23.1, 33.1),
        search=SearchSummary(10, 1, 2, 120.0, 300.0, 0, "default", "done", 20, 40.0, 0.0, {"start-up": 20.0}),
        versions={"torch": "2.13.0"},
        device="cpu",
        script=facts if of_script else None,
    )


def run_record(workload: Workload) -> RunRecord:
    """Return what a run of this machine keeps once its baseline was measured."""
    own = baseline_settings(KnobContext(this_machine(), FACTS))
    return RunRecord(
        schema=RUN_SCHEMA,
        request=Request(workload, 60.0, Constraint(0.01, True)),
        machine=this_machine(),
        facts=FACTS,
        baseline_settings=own,
        baseline=Measurement(1.0, (0.1,), ()),
        diagnosis=None,
        space=SearchSpace("default", {}, own, {}),
    )


def failed_trial() -> Trial:
    """Return a trial of that run."""
    own = baseline_settings(KnobContext(this_machine(), FACTS))
    return Trial(1, {**own, "loader.workers": 2}, Failure("crashed", "it does"), 3.5)


def as_json(record: Any) -> Any:
    """Return a record as it is on disk, to be changed."""
    return json.loads(msgspec.json.encode(record))


def write(path: Path, found: object) -> Path:
    """Write what Python's own JSON makes of something, NaN and Infinity included."""
    path.write_text(json.dumps(found))
    return path
