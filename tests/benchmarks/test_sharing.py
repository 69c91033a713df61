"""The searches that share a study in benchmarks/checks/sharing.py, one of them alone."""

from __future__ import annotations

import pytest

from benchmarks.checks import sharing
from benchmarks.harness.replay import Facts
from benchmarks.harness.table import TABLES, read_table


def test_a_search_on_a_clock_that_is_too_fast_comes_close_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "FASTER", 100)
    search, found = sharing.search(Facts(read_table(TABLES / f"{sharing.TABLE}.jsonl.gz")), 0, None)
    assert found["regret"] < 0.1 and found["seconds"] <= 2 * sharing.BUDGET_SECONDS
    assert found["trials"].total() == len(search.trials) >= 3
