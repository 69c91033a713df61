"""How drops of a metric scatter from seed to seed, as the page tells it."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from autoaccel.records.rounding import RoundingEvidence
from benchmarks.harness.rows import latest, read_rows
from benchmarks.page.seeds import seeds
from benchmarks.studies.seeds import summary
from tests.cases import rest_is_long


def row(direction: str) -> dict[str, Any]:
    """Return what trainings came to whose metric is lower under the other settings."""
    pairs = [{"metrics": [2.0, 1.5], "sample_error": None}, {"metrics": [2.0, 1.7], "sample_error": 0.1}]
    return {"facts": {"direction": direction}, "pairs": pairs}


@pytest.mark.parametrize(("direction", "drop"), [("maximize", "0.4"), ("minimize", "-0.4")])
def test_a_metric_that_becomes_worse_drops_whichever_way_is_better(direction: str, drop: str) -> None:
    line = seeds({"a training": row(direction), "what its updates say": {"evidence": {}}})[-1]
    assert line == f"| a training | 2 | {drop} | 0.14 | 0.1 |"


@pytest.mark.long
@pytest.mark.parametrize(
    ("verdict", "accepts_more"), [("holds", True), pytest.param("too large", False, marks=pytest.mark.long)]
)
def test_updates_decide_what_runs_leave_open_of_the_harmless_alone(
    verdict: Literal["holds", "too large"], accepts_more: bool
) -> None:
    found = latest(read_rows("seeds"))["digits_cnn, bfloat16, a fifth"].found
    runs_alone = summary(found)["accepted"]["0.01"]
    by_either = summary(found, RoundingEvidence(verdict, "", 64, 3, 8))["accepted"]["0.01"]
    assert {name: by_either[name] for name in runs_alone} == runs_alone
    assert (by_either["harmless, then updates"] > runs_alone["harmless"]) is accepts_more


@pytest.mark.parametrize("training", rest_is_long(["digits_cnn", "tabular_mlp"]))
def test_a_resumed_proof_accepts_what_three_pairs_leave_open_and_nothing_that_harms(training: str) -> None:
    found = summary(latest(read_rows("seeds"))[f"{training}, bfloat16, a fifth"].found)["accepted"]["0.01"]
    assert found["harmless"] < 0.8 <= found["harmless, then resumed"]
    assert found["harmful, then resumed"] == found["harmful"] == 0.0
