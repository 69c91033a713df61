"""Whole tunes on recorded tables: planned, searched, proven, explained and concluded as a run is, in a second each."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autoaccel.records.options import TuneOptions
from autoaccel.records.recipe import Recipe
from autoaccel.records.settings import settings_key
from benchmarks.harness.recorded import tune_recorded
from benchmarks.harness.replay import Facts
from benchmarks.harness.table import TABLES, read_table


@pytest.fixture(scope="module", params=["wide_mlp", "small_resnet"])
def facts(request: pytest.FixtureRequest) -> Facts:
    """A table in which something wins, of short and of longer steps."""
    return Facts(read_table(TABLES / f"{request.param}.jsonl.gz"))


def tuned(facts: Facts, folder: Path, epochs: int, trainings: int = 20, seed: int = 0) -> Recipe:
    return tune_recorded(facts, folder, epochs, TuneOptions(budget="15m", trainings=trainings, seed=seed))


def saved_seconds(recipe: Recipe) -> float:
    projection = recipe.projection
    return recipe.search.trainings * (projection.baseline_total_seconds - projection.total_seconds)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_proven_is_as_fast_as_all_visits_say_and_repays_its_time(
    facts: Facts, tmp_path: Path, seed: int
) -> None:
    recipe = tuned(facts, tmp_path, epochs=100, seed=seed)
    truth = math.exp(facts.log_speedup[settings_key(recipe.settings)])
    assert recipe.comparison.verdict == "faster" and truth > 1.3
    assert recipe.comparison.low <= truth <= recipe.comparison.high
    assert recipe.search.spent_seconds < saved_seconds(recipe)
    assert (tmp_path / "recipe.json").exists() and "<html" in (tmp_path / "report.html").read_text()


def test_evidence_and_explanations_keep_to_what_is_saved(facts: Facts, tmp_path: Path) -> None:
    stages = {}
    for epochs in (30, 1000):
        folder = tmp_path / str(epochs)
        folder.mkdir()
        recipe = tuned(facts, folder, epochs)
        spent = {one.stage: one.spent_seconds for one in recipe.search.stages}
        assert spent.get("contributions", 0.0) <= 0.15 * saved_seconds(recipe)
        assert spent.get("metric", 0.0) <= 0.25 * saved_seconds(recipe)
        stages[epochs] = spent
    assert stages[30].get("contributions", 0.0) < stages[1000]["contributions"]


def test_a_training_that_nothing_could_repay_is_left_alone_at_once(tmp_path: Path) -> None:
    facts = Facts(read_table(TABLES / "tabular_mlp.jsonl.gz"))
    recipe = tuned(facts, tmp_path, epochs=100)
    assert recipe.search.trials == 0 and recipe.comparison.speedup == 1.0
    assert "If you train longer or more often, increase --trainings." in recipe.summary
    (tmp_path / "often").mkdir()
    often = tuned(facts, tmp_path / "often", epochs=1000, trainings=1000)
    assert often.comparison.verdict == "faster" and often.search.spent_seconds < saved_seconds(often)
