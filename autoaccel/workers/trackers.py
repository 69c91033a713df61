"""What a trial's libraries are told by variables: trackers reach no server, and what libraries write is the trial's."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from autoaccel.errors import BadRequestError
from autoaccel.records.files import read_text

_MODE = re.compile(r"^mode\s*[=:]\s*[\"']?([\w-]+)", re.MULTILINE)  # of INI and YAML
_MAX_LINKS = 50_000  # of files in a cache: with more of them each trial would start a second later


class _Tracker(NamedTuple):
    """A variable that says whether a tracker reaches a server, as its manual has it."""

    variable: str
    offline: str
    off: frozenset[str]  # values under which it does not, of which some also switch it off
    files: tuple[str, ...] = ()  # in which its own commands keep the mode; the variable counts for more


_TRACKERS = (
    _Tracker(
        "WANDB_MODE",
        "offline",
        frozenset({"disabled", "offline", "dryrun"}),
        ("{WANDB_DIR}/wandb/settings", "{WANDB_DIR}/.wandb/settings", "{WANDB_CONFIG_DIR}/settings"),
    ),
    _Tracker("NEPTUNE_MODE", "offline", frozenset({"offline", "debug", "read-only", "disabled"})),
    _Tracker("CLEARML_OFFLINE_MODE", "1", frozenset({"1", "true", "yes", "on"})),
    _Tracker("COMET_START_ONLINE", "0", frozenset({"0", "false", "no", "off"})),
    _Tracker(
        "SWANLAB_MODE",
        "offline",
        frozenset({"disabled", "offline", "local"}),
        (".swanlab/config.yaml", ".swanlab/config.yml", "~/.swanlab/config.yaml", "~/.swanlab/config.yml"),
    ),
)


def trackers_offline(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the variables under which a trial shows up on no tracker's server, as far as variables decide that.

    What a person has switched off stays off: a tracker that is offline still starts processes and writes files.

    Args:
        environment: All variables that it would have.
        folder: The script's own.
    """
    # Without this variable MLflow writes to the working folder.
    found = {"MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"} if "MLFLOW_TRACKING_URI" in environment else {}
    for tracker in _TRACKERS:
        own = environment.get(tracker.variable, "") or _mode_in_files(tracker, environment, folder)
        found[tracker.variable] = own if own.lower() in tracker.off else tracker.offline
    return found


def _mode_in_files(tracker: _Tracker, environment: Mapping[str, str], folder: str) -> str:
    folders = {"WANDB_DIR": folder, "WANDB_CONFIG_DIR": "~/.config/wandb"}
    folders |= {name: environment[name] for name in folders if environment.get(name)}
    for file in tracker.files:
        path = Path(folder, Path(file.format_map(folders)).expanduser())
        with contextlib.suppress(BadRequestError, OSError, ValueError):
            if mode := _MODE.search(read_text(path, "the settings of a tracker")):
                return mode[1]
    return ""


def libraries_apart(environment: Mapping[str, str], into: Path, is_covered: bool) -> dict[str, str]:
    """Return the variables under which libraries write into a folder that goes with the trial.

    Args:
        environment: All variables that it would have.
        into: The folder, which is there.
        is_covered: Whether an overlay keeps what is written elsewhere.
    """
    found = {name: str(into) for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR")}
    if is_covered:
        return found
    # Locks and whatever was computed lie in these beside what was downloaded, so a trial needs what is there, too.
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = Path(environment.get("HF_HOME") or f"{cache}/huggingface").expanduser()
    for variable, name in _CACHES.items():
        own = Path(environment.get(variable) or home / name).expanduser()
        like = into / f"huggingface-{name}"
        if like.is_dir() or _linked(own, like):
            found[variable] = str(like)
    return found


_CACHES = {"HF_DATASETS_CACHE": "datasets", "HF_EVALUATE_CACHE": "evaluate", "HF_METRICS_CACHE": "metrics"}
"""Of Hugging Face's libraries, and what each is called in their home."""


def _linked(own: Path, like: Path) -> bool:
    """Make a folder like another, in which each file is a link; return whether there are not too many."""
    like.mkdir()
    count = 0
    for path, _, files in os.walk(own):
        folder = like / Path(path).relative_to(own)
        folder.mkdir(exist_ok=True)
        for name in files:
            count += 1
            if count > _MAX_LINKS:
                return False
            if not name.endswith(".lock"):  # who locks it writes to it
                (folder / name).symlink_to(Path(path, name).resolve())
    return True
