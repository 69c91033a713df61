"""Whole runs in real processes whose trials somebody else proposes, and the study that each leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tests.session.samples import WAITING

pytestmark = pytest.mark.end_to_end
WriteModel = Callable[..., Path]

WORKERS_ONLY = 'title = "workers only"\n[knobs]\n"loader.workers" = [0, 1, 2, 3]\n'
MINE = """
import optuna

class FewestFirst(optuna.samplers.RandomSampler):
    def sample_independent(self, study, trial, param_name, param_distribution):
        tried = [one.params[param_name] for one in study.trials if param_name in one.params]
        return next((value for value in param_distribution.choices if value not in tried), tried[0])
"""


def told_by(trials: list[dict[str, Any]], study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the study's trials that are the run's, which are all of these, in their order."""
    told = [one for one in study.trials if "settings" in one.user_attrs and "trial" in one.user_attrs]
    assert [one.user_attrs["settings"] for one in told] == [trial["settings"] for trial in trials]
    assert [one.value for one in told] == [trial.get("total_seconds") for trial in trials]
    return told


@pytest.mark.parametrize(
    "sampler", [pytest.param(name, marks=pytest.mark.long) for name in ("mine:FewestFirst", "tpe", "gp")]
)
def test_another_sampler_ends_with_a_recipe_and_leaves_its_study(
    write_model: WriteModel, tmp_path: Path, sampler: str
) -> None:
    if sampler == "gp":
        pytest.importorskip("scipy")
    write_model(WAITING)
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    (tmp_path / "mine.py").write_text(MINE)
    command = [sys.executable, "-m", "autoaccel", "tune", "model.py", "--budget", "3m", "--trainings", "1000"]
    command += ["--space", "workers.toml", "--sampler", sampler, "--output", "run"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    recipe = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert recipe["settings"]["loader.workers"] >= 1
    assert recipe["comparison"]["verdict"] == "faster"
    assert (recipe["search"]["sampler"], recipe["search"]["study"]) == (sampler, "run")
    assert f"sampler: {sampler}" in (tmp_path / "run" / "report.html").read_text()

    storage = JournalStorage(JournalFileBackend(str(tmp_path / "run" / "study.journal")))
    study = optuna.load_study(study_name="run", storage=storage)
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    told = told_by(trials, study)
    assert study.trials[0].user_attrs["baseline"]["loader.workers"] == 0
    assert all(one.params == {"loader.workers": one.user_attrs["settings"]["loader.workers"]} for one in told)
    assert all(one.intermediate_values and one.constraints == {"metric": 0.0} for one in told if one.value)
    proofs = [one for one in study.trials if "proof" in one.user_attrs]
    assert proofs[-1].user_attrs["proof"] == "holds"
    assert proofs[-1].params["loader.workers"] == recipe["settings"]["loader.workers"]
    if sampler == "mine:FewestFirst":  # after the experts' guess
        assert trials[1]["settings"]["loader.workers"] == 1
