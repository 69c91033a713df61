"""Rows of results say by which code, where and when they were measured; none is ever lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import rows


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "one.py").write_text("1\n")
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")
    return tmp_path


def test_a_row_that_is_measured_again_is_added_and_the_older_one_stays() -> None:
    """A second measurement replaced the first, so that nobody could see that numbers had changed."""
    rows.add_row("live", "digits", {"speedup": 1.5}, code=())
    rows.add_row("live", "digits", {"speedup": 1.4}, code=())
    rows.add_row("live", "digits", {}, code=(), status="failed", reason="exit status 3")
    assert [row.found.get("speedup") for row in rows.read_rows("live")] == [1.5, 1.4, None]
    assert rows.latest(rows.read_rows("live"))["digits"].found == {"speedup": 1.4}


def test_a_row_carries_commit_cpu_and_date() -> None:
    """Rows said nothing of the code or the processor that they were measured with."""
    rows.add_row("live", "digits", {"speedup": 1.5})
    made = rows.read_rows("live")[0].made
    assert made.date.endswith("+00:00")
    assert made.cpu and made.cores and made.torch[0].isdigit()
    assert made.commit == rows.UNKNOWN  # there is no history here


def test_a_row_is_stale_once_its_code_changes(folder: Path) -> None:
    """Results of an earlier version stood on the page as today's."""
    rows.add_row("live", "digits", {}, code=("code",))
    assert rows.is_fresh("live", "digits")
    (folder / "code" / "__pycache__").mkdir()
    (folder / "code" / "__pycache__" / "one.pyc").write_text("cache")
    assert rows.is_fresh("live", "digits")
    (folder / "code" / "one.py").write_text("2\n")
    assert not rows.is_fresh("live", "digits")
    assert not rows.is_fresh("live", "another")


def test_the_package_counts_with_its_search_spaces(folder: Path) -> None:
    (folder / "autoaccel").mkdir()
    (folder / "autoaccel" / "one.py").write_text("1\n")
    (folder / "search_spaces").mkdir()
    (folder / "search_spaces" / "default.toml").write_text("1\n")
    rows.add_row("live", "digits", {})
    assert rows.is_fresh("live", "digits")
    (folder / "search_spaces" / "default.toml").write_text("2\n")
    assert not rows.is_fresh("live", "digits")


def test_a_file_that_was_moved_as_it_was_keeps_its_rows_fresh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour's rows would be older than code of which nothing but the path had changed."""
    rows.add_row("live", "digits", {}, code=("code/one.py",))
    (folder / "code" / "one.py").rename(folder / "moved.py")
    assert not rows.is_fresh("live", "digits")
    monkeypatch.setattr(rows, "_MOVED", {"code/one.py": "moved.py"})
    assert rows.is_fresh("live", "digits")
    (folder / "moved.py").write_text("2\n")
    assert not rows.is_fresh("live", "digits")


def test_a_reason_is_given_for_what_was_not_measured() -> None:
    with pytest.raises(ValueError, match="reason"):
        rows.add_row("live", "digits", {}, status="failed")
