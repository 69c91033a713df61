"""A recipe's metric checked on whole planned runs: in real processes, cut short, and gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autoaccel.commands.checking import judge_pairs, read_pairs
from autoaccel.errors import BadRequestError
from autoaccel.records.accuracy import Accuracy
from autoaccel.records.base import encode, write_json
from autoaccel.records.check import AccuracyCheck, CheckedPair
from autoaccel.records.machine import Machine
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import SCHEMA, Baseline, Constraint, Projection, Recipe, SearchSummary
from autoaccel.records.settings import Settings
from autoaccel.records.trial import Comparison
from autoaccel.records.workload import BuildFunction, TrainingFacts, Workload
from autoaccel.runs.workloads import find_workload
from autoaccel.space.knobs import KnobContext, default_settings
from autoaccel.workers.starter import WorkerStarter
from tests.this_machine import probe_machine

WriteModel = Callable[..., Path]


def recipe_of(
    workload: Workload,
    machine: Machine,
    baseline: Settings,
    change: Settings,
    constraint: Constraint,
    run_seconds: float = 0.5,
) -> Recipe:
    """Return a recipe that changes this much, whose planned run takes so long."""
    return Recipe(
        schema=SCHEMA,
        created="2026-01-01T00:00:00+00:00",
        summary="",
        workload=workload,
        machine=machine,
        settings=baseline | change,
        baseline=Baseline(baseline, 0.01, 0.1, 0.0, None, 0),
        comparison=Comparison(1.2, 1.1, 1.3, "faster", 0.95, 5, 40),
        constraint=constraint,
        accuracy=None,
        projection=Projection(15, 0.1, 0.0, 0.01, run_seconds, run_seconds),
        search=SearchSummary(0, 0, 0, 0.0, 0.0, 0, "cpu", "", 20, None, 0.0, {}),
        versions={},
    )


@pytest.fixture
def simple(machine: Machine) -> Recipe:
    return recipe_of(BuildFunction("/m.py", "build", ""), machine, {"a": 0}, {"a": 1}, Constraint(0.01, False))


def kept(*metrics: tuple[float, float], of: str = "x", error: float | None = None) -> list[CheckedPair]:
    return [
        CheckedPair(of, 100 + number, TrainedPair(both, sample_error=error), 30.0)
        for number, both in enumerate(metrics)
    ]


def test_pairs_are_judged_by_what_they_show(simple: Recipe, facts: TrainingFacts) -> None:
    facts = msgspec.structs.replace(facts, eval_samples=10_000)
    same = [(0.9 + luck, 0.9 + luck) for luck in (0.0, 0.001, -0.001, 0.002)]
    assert judge_pairs(simple, facts, kept(*same[:2])).verdict == "inconclusive"
    assert judge_pairs(simple, facts, kept(*same[:2])).accuracy is None
    held = judge_pairs(simple, facts, kept(*same))
    assert held.verdict == "holds"
    assert held.accuracy is not None and (held.accuracy.evidence, held.accuracy.share) == ("whole", 1.0)
    assert (
        judge_pairs(simple, facts, kept(*[(baseline, baseline - 0.03) for baseline, _ in same])).verdict
        == "does not hold"
    )
    scattered = judge_pairs(simple, facts, kept((0.90, 0.93), (0.94, 0.90), (0.92, 0.92)))
    assert scattered.verdict == "inconclusive"
    assert scattered.pairs_needed is not None and scattered.pairs_needed > 20
    assert scattered.pair_seconds == 30.0


def test_what_scattered_when_the_recipe_was_made_is_known(simple: Recipe, facts: TrainingFacts) -> None:
    facts = msgspec.structs.replace(facts, eval_samples=10_000)
    found = kept((0.90, 0.9015), (0.91, 0.9085), (0.92, 0.92))
    alone = judge_pairs(simple, facts, found).accuracy
    baseline, other = (0.90, 0.91, 0.92, 0.90, 0.91, 0.92), (0.901, 0.909, 0.9205, 0.8995, 0.911, 0.919)
    tuned = Accuracy("accuracy", "maximize", 0.91, 0.91, 0.0, 0.002, 6, 1.0, baseline, other)
    known = judge_pairs(msgspec.structs.replace(simple, accuracy=tuned), facts, found).accuracy
    assert alone is not None and known is not None and alone.drop_high is not None and known.drop_high is not None
    assert known.drop_high - known.drop < 0.7 * (alone.drop_high - alone.drop)


def test_kept_pairs_come_back_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path, pairs = tmp_path / "recipe.accuracy.jsonl", kept((0.9, 0.9), (0.8, 0.8))
    assert read_pairs(path, "x") == []
    path.write_bytes(b"".join(encode(pair) + b"\n" for pair in pairs) + b'{"of": "x", "se')
    assert read_pairs(path, "x") == pairs
    assert path.read_bytes().endswith(b"}\n")
    with pytest.raises(BadRequestError, match="belong to another recipe"):
        read_pairs(path, "y")
    path.write_bytes(b"{}\n")
    with pytest.raises(BadRequestError, match=":1: this is not a pair of runs"):
        read_pairs(path, "x")


def verify(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autoaccel", "verify", "--accuracy", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def this_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    with WorkerStarter(tmp_path_factory.mktemp("probe")) as starter:
        return probe_machine(starter)


def write_recipe(model: Path, machine: Machine, change: Settings, constraint: Constraint, run_seconds: float) -> Path:
    baseline = default_settings(KnobContext(machine)) | {"threads.intra_op": 1}
    path = model.with_name("recipe.json")
    write_json(path, recipe_of(find_workload(str(model)), machine, baseline, change, constraint, run_seconds))
    return path


@pytest.mark.end_to_end
@pytest.mark.long
def test_a_check_is_cut_short_goes_on_and_is_written_beside_the_recipe(
    write_model: WriteModel, this_machine: Machine, tmp_path: Path
) -> None:
    model = write_model()
    recipe = write_recipe(model, this_machine, {"precision.autocast": "bfloat16"}, Constraint(0.5, False), 0.5)
    lines = recipe.with_suffix(".accuracy.jsonl")
    command = [sys.executable, "-m", "autoaccel", "verify", "--accuracy", recipe, model, "--budget", "5m"]
    # Nothing can be clear with a single pair.
    checker = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert checker.stderr is not None
    for line in checker.stderr:
        if "pair 1" in line:
            break
    checker.send_signal(signal.SIGINT)
    checker.communicate(timeout=300)
    assert checker.returncode == 130
    before = lines.read_text().splitlines()
    assert 1 <= len(before) <= 2

    done = verify(recipe, model, "--budget", "5m", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "keeps the metric on whole planned runs" in done.stdout
    after = [json.loads(line) for line in lines.read_text().splitlines()]
    assert lines.read_text().startswith("\n".join(before) + "\n")
    assert [pair["seed"] for pair in after] == list(range(100, 100 + len(after)))
    assert len(after) >= 3
    found = msgspec.json.decode(recipe.with_suffix(".accuracy.json").read_bytes(), type=AccuracyCheck)
    assert found.verdict == "holds"
    assert found.accuracy is not None and found.accuracy.evidence == "whole"
    assert found.accuracy.repeats == len(after)
    shown = subprocess.run(
        [sys.executable, "-m", "autoaccel", "show", str(recipe)], capture_output=True, text=True, timeout=300
    )
    assert "keeps the metric on whole planned runs" in shown.stdout

    # What is clear already is not trained for once more.
    again = verify(recipe, model, "--json", cwd=tmp_path)
    assert again.returncode == 0
    assert len(lines.read_text().splitlines()) == len(after)
    assert json.loads(again.stdout)["accuracy"]["repeats"] == len(after)


COUNTS_STEPS = """
plain = build


def build():
    model = nn.Linear(8, 1, bias=False)
    nn.init.zeros_(model.weight)
    return plain(
        model=model, loss=None, step=lambda model, batch: -model.weight.sum(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.0),
        evaluate=lambda model, loader: float(model.weight.mean()),
    )
"""
"""Its metric is the number of its steps: larger batches, of which an epoch has fewer, make it drop."""


@pytest.mark.long
@pytest.mark.end_to_end
def test_harm_is_found_and_a_budget_for_less_than_a_pair_is_refused(
    write_model: WriteModel, this_machine: Machine, tmp_path: Path
) -> None:
    model = write_model(COUNTS_STEPS)
    change: Settings = {"optimizer.batch_factor": 4.0}
    recipe = write_recipe(model, this_machine, change, Constraint(0.01, False), run_seconds=0.5)
    done = verify(recipe, model, "--budget", "5m", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "does not keep the metric" in done.stdout
    recipe.with_suffix(".accuracy.jsonl").unlink()  # which tells that pairs take less
    long = write_recipe(model, this_machine, change, Constraint(0.01, False), run_seconds=3600.0)
    refused = verify(long, model, "--budget", "10m", cwd=tmp_path)
    assert refused.returncode == 2
    assert "a pair of planned runs, about" in refused.stderr
