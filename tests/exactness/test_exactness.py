"""What is called exact is exact: loader settings as the tool sets them leave every loss as it is, to the last digit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autoaccel.records.base import encode
from autoaccel.records.messages import Train, WorkerSpec
from autoaccel.records.settings import Settings
from autoaccel.records.workload import Script, TrainingFacts
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.workers.starter import WorkerStarter
from tests.exactness.mechanisms import ALIKE, CHANGES, Mechanism, draw
from tests.runtime.script.asking import describe
from tests.shared_servers import SharedServer
from tests.this_machine import probe_machine

BECOME = (
    "import os, sys; from autoaccel.records.base import decode; from autoaccel.records.messages import WorkerSpec;"
    "from autoaccel.workers.becoming import become; become(decode(sys.argv[1], WorkerSpec), os.environ)"
)
LOADING: tuple[Settings, ...] = ({"loader.workers": 2}, {"loader.workers": 1, "loader.persistent": False})
ALWAYS = ("attribute, each long epoch", "weights of hard samples", "plain")
"""The others are for `make check-long`."""

Describe = Callable[[Mechanism, int], tuple[TrainingFacts, Settings]]


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script_server: SharedServer) -> Describe:
    """Return a function that makes a script of a mechanism; it returns what is seen of it, and its own settings."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def ask(mechanism: Mechanism, seed: int) -> tuple[TrainingFacts, Settings]:
        own, run = tmp_path / "own", tmp_path / "run"
        for folder in (own, run):
            folder.mkdir(exist_ok=True)
        (own / "train.py").write_text(draw(mechanism, seed))
        script = Script(str(own / "train.py"), "train.py", str(own), "0" * 64, ())
        with WorkerStarter(run, script, in_place=True) as starter:
            facts = describe(script_server.serve(starter))
            assert isinstance(facts, TrainingFacts), facts
            return facts, baseline_settings(KnobContext(probe_machine(starter), facts))

    return ask


def _losses(command: list[str], folder: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("loss ")]


def _with(settings: Settings, facts: TrainingFacts, baseline: Settings, folder: Path) -> list[str]:
    script = Script(str(folder / "train.py"), "train.py", str(folder), "", ())
    changed = {**baseline, **settings}
    spec = WorkerSpec(Train(seeds=()), script, changed, found=facts.found, script=facts.script)
    return _losses([sys.executable, "-c", BECOME, encode(spec).decode()], folder)


def _marked(mechanisms: tuple[Mechanism, ...]) -> list[object]:
    return [pytest.param(one, id=one.name, marks=() if one.name in ALWAYS else pytest.mark.long) for one in mechanisms]


@pytest.mark.parametrize("mechanism", _marked(CHANGES))
def test_what_changes_under_other_workers_is_not_called_exact(mechanism: Mechanism, described: Describe) -> None:
    for seed in range(_draws()):
        facts, _ = described(mechanism, seed)
        assert facts.loading_bound or facts.loading_matters, f"{mechanism.name}, draw {seed}"


@pytest.mark.parametrize("mechanism", _marked(ALIKE))
def test_what_only_looks_so_is_called_exact_and_is(mechanism: Mechanism, described: Describe, tmp_path: Path) -> None:
    for seed in range(_draws()):
        facts, baseline = described(mechanism, seed)
        assert not (facts.loading_bound or facts.loading_matters), f"{mechanism.name}, draw {seed}"
        own = tmp_path / "own"
        plain = _losses([sys.executable, "train.py"], own)
        assert len(plain) > 10
        for settings in LOADING:
            assert _with(settings, facts, baseline, own) == plain, settings


def _draws() -> int:
    """Return how many scripts are drawn of each mechanism; DRAWS=3 makes 111 and 78."""
    return int(os.environ.get("DRAWS", "1"))
