"""What a trial of a script writes ends up in a scratch folder; the folder that it works in stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoaccel.workers import scratch as scratch_module
from autoaccel.workers.scratch import Scratches


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    (folder / "runs" / "old").mkdir(parents=True)
    (folder / "runs" / "old" / "log.txt").write_text("old")
    (folder / "data").mkdir()
    (folder / "data" / "images.bin").write_bytes(b"1")
    (folder / "data" / "large.raw").write_bytes(b"2" * 3_000_000)
    (folder / "last.pt").write_bytes(b"3" * 3_000_000)
    (folder / "autoaccel-runs").mkdir()
    (tmp_path / "home" / "shared").mkdir()
    (tmp_path / "home" / "shared" / "words.txt").write_text("words")
    return folder


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_is_written_there_is_not_written_here(own: Path) -> None:
    before, scratches = listing(own), Scratches()
    scratch = scratches.new(own)
    assert {*listing(scratch)} == {*before}  # all that can be read here can be read there
    assert (scratch / "data" / "large.raw").is_symlink()
    (scratch / "runs" / "old" / "log.txt").write_text("new")
    (scratch / "runs" / "new").mkdir()
    (scratch / "last.pt").write_bytes(b"new")
    (scratch / "data" / "cache.npy").write_bytes(b"new")
    (scratch / "data" / "images.bin").unlink()
    assert listing(own) == before
    scratches.close()
    assert not scratch.exists() and listing(own) == before


def test_paths_above_lead_where_they_lead_from_here(own: Path) -> None:
    scratches = Scratches()
    scratch = scratches.new(own)
    assert Path(os.path.normpath(scratch / ".." / "shared" / "words.txt")).read_text() == "words"
    assert scratch.name == own.name
    scratches.close()


def test_a_folder_of_many_files_is_linked_as_a_whole(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_module, "_MAX_FOLDER", 9)
    (own / "many").mkdir()
    for number in range(11):
        (own / "many" / str(number)).touch()
    scratches = Scratches()
    scratch = scratches.new(own)
    assert (scratch / "many").is_symlink() and not (scratch / "data").is_symlink()
    scratches.close()


def test_ours_is_left_out(own: Path) -> None:
    scratches = Scratches()
    assert not (scratches.new(own) / "autoaccel-runs").exists()
    scratches.close()
