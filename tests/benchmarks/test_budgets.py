"""Tunes with small budgets: each try is a row as soon as it ends, and the page counts those that came to a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import rows
from benchmarks.page.budgets import budgets as table
from benchmarks.studies import budgets


def tuned(exit_code: int) -> dict[str, Any]:
    """Return what is kept of a tune, as far as the page shows it."""
    return {
        "exit_code": exit_code,
        "said": "Keep your own settings." if exit_code else "1.40x faster",
        "wall_seconds": 58.0,
        "choice": {"settings": {} if exit_code else {"optimizer.fused": True}},
        "comparison": {"speedup": 1.4, "low": 1.2, "high": 1.6},
        "accuracy": {"evidence": "rounding", "share": 0.0},
        "search": {"spent_seconds": 57.0, "stages": [{"stage": "contributions", "spent_seconds": 7.0}]},
    }


def test_the_page_counts_the_tries_that_came_to_a_recipe() -> None:
    lines = table({"a 60s: 1": tuned(0), "a 60s: 2": tuned(1), "b 4m: 1": tuned(0)})
    assert "| a 60s | 1 | 1.40x (1.20 to 1.60): optimizer.fused=True | rounding | 50.0 s | 58.0 s |" in lines
    assert "| a 60s | 2 | Keep your own settings. |  |  | 58.0 s |" in lines
    assert lines[-1] == "Tries that ended with a proven recipe: a 60s: 1 of 2, b 4m: 1 of 1."


def test_a_budget_that_was_refused_is_told_with_the_time_that_this_took() -> None:
    refused = {**tuned(2), "said": "the budget of 3 min is too small. Use --budget 4m.", "wall_seconds": 21.0}
    lines = table({"a 3m: 1": refused, "a 3m: 2": {**refused, "wall_seconds": 23.0}, "a 3m: 3": tuned(0)})
    assert lines[-1] == (
        "Tries that ended with a proven recipe: a 3m: 1 of 3. "
        "Tries of a 3m that were refused with the budget that would do: 2 of 3, after at most 23.0 s."
    )


def test_an_earlier_try_has_its_date() -> None:
    """Earlier rows of a try have names with a date, and are listed in the order of the tries all the same."""
    lines = table({"a 60s: 10, 2026-11-24": tuned(0), "a 60s: 2, 2026-11-24, 1": tuned(1)})
    tries = [line.split(" | ")[1] for line in lines if line.startswith("| a 60s")]
    assert tries == ["2, 2026-11-24, 1", "10, 2026-11-24"]


def test_a_try_is_made_once_and_only_where_it_can_end_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")
    for case in budgets.CASES.values():
        (tmp_path / case.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / case.path).write_text("")
    made: list[float] = []

    def tune(path: Path, output: Path, seconds: float) -> dict[str, Any]:
        made.append(seconds)
        return tuned(0)

    monkeypatch.setattr(budgets, "tune", tune)
    assert budgets.main(["--minutes", "5"]) == 0
    assert made == [*[180.0] * 5, *[240.0] * 3, *[60.0] * 10]
    assert "gpt2_sources 8m: 1: left for another time" in capsys.readouterr().out
    assert budgets.main([]) == 0
    assert made[18:] == [480.0]
