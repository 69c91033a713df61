"""How drops of a metric scatter from seed to seed, as the page tells it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.page.seeds import seeds


def row(direction: str) -> dict[str, Any]:
    """Return what trainings came to whose metric is lower under the other settings."""
    pairs = [{"metrics": [2.0, 1.5], "sample_error": None}, {"metrics": [2.0, 1.7], "sample_error": 0.1}]
    return {"facts": {"direction": direction}, "pairs": pairs}


@pytest.mark.parametrize(("direction", "drop"), [("maximize", "0.4"), ("minimize", "-0.4")])
def test_a_metric_that_becomes_worse_drops_whichever_way_is_better(direction: str, drop: str) -> None:
    line = seeds({"a training": row(direction), "what its updates say": {"evidence": {}}})[-1]
    assert line == f"| a training | 2 | {drop} | 0.14 | 0.1 |"
