"""Trackers and caches in trials: no server is reached, what was switched off stays off, and writes are the trial's."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.workers.trackers import libraries_apart, trackers_offline


@pytest.mark.parametrize(
    ("variable", "own", "becomes"),
    [
        ("WANDB_MODE", None, "offline"),
        ("WANDB_MODE", "online", "offline"),
        ("WANDB_MODE", "shared", "offline"),
        ("WANDB_MODE", "disabled", "disabled"),
        ("WANDB_MODE", "dryrun", "dryrun"),
        ("NEPTUNE_MODE", "debug", "debug"),
        ("NEPTUNE_MODE", "async", "offline"),
        ("SWANLAB_MODE", "disabled", "disabled"),
        ("SWANLAB_MODE", "cloud", "offline"),
        ("CLEARML_OFFLINE_MODE", "0", "1"),
        ("COMET_START_ONLINE", "False", "False"),
        ("COMET_START_ONLINE", None, "0"),
        ("MLFLOW_TRACKING_URI", "https://there", "sqlite:///mlflow.db"),
    ],
)
def test_what_is_switched_off_stays_off_and_all_else_goes_offline(
    variable: str, own: str | None, becomes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert trackers_offline({} if own is None else {variable: own}, str(tmp_path))[variable] == becomes


@pytest.mark.parametrize(
    ("file", "text", "variable"),
    [
        ("own/wandb/settings", "[default]\nproject = a\nmode = disabled\n", "WANDB_MODE"),
        (".config/wandb/settings", "[default]\nmode = disabled\n", "WANDB_MODE"),
        ("own/.swanlab/config.yaml", "mode: disabled\n", "SWANLAB_MODE"),
        (".swanlab/config.yaml", "mode: 'disabled'\n", "SWANLAB_MODE"),
    ],
)
def test_what_a_trackers_own_command_has_switched_off_stays_off(
    file: str, text: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    own = str(tmp_path / "own")
    assert trackers_offline({}, own)[variable] == "disabled"
    assert trackers_offline({variable: "online"}, own)[variable] == "offline"  # the variable counts for more
    path.write_bytes(b"mode = \xff")
    assert trackers_offline({}, own)[variable] == "offline"


def test_caches_are_seen_and_what_is_written_to_them_is_the_trials(tmp_path: Path) -> None:
    own = tmp_path / "cache" / "huggingface" / "datasets"
    (own / "csv").mkdir(parents=True)
    (own / "csv" / "data.arrow").write_text("data")
    (own / "csv.lock").write_text("")
    (tmp_path / "trial").mkdir()
    found = libraries_apart({"XDG_CACHE_HOME": str(tmp_path / "cache")}, tmp_path / "trial", is_covered=False)
    folder = Path(found["HF_DATASETS_CACHE"])
    assert folder.is_relative_to(tmp_path / "trial") and (folder / "csv" / "data.arrow").read_text() == "data"
    for name in ("csv.lock", "csv/cache-1.arrow"):
        (folder / name).write_text("new")
    assert sorted(path.name for path in own.rglob("*")) == ["csv", "csv.lock", "data.arrow"]
    assert not (own / "csv.lock").read_text()
    covered = libraries_apart({}, tmp_path / "trial", is_covered=True)
    assert set(covered) == {"WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"}
