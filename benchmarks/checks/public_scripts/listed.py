"""What scripts.toml says of each script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from autoaccel.records.base import Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LIST = Path(__file__).with_name("scripts.toml")


class Right(Record, frozen=True):
    """What is right to believe of a script; what is None, or empty, is not judged."""

    models: tuple[tuple[str, ...], ...] = ()
    """Classes of the models that are trained; any of these."""
    parameters: int | None = None
    """That are trained."""
    optimizers: list[str] | None = None
    updates: int | None = None
    """That make a step."""
    updates_itself: bool | None = None
    """Whether no optimizer of torch's makes them."""
    no_loader: bool | None = None
    samples: int | None = None
    """Of the dataset that is trained on."""
    batch_size: int | None = None
    """Of its loader; 0: it has none that is fixed."""
    batches: int | None = None
    """Of an epoch of it."""
    workers: int | None = None
    step_samples: int | None = None
    """That a step takes; 0: that is not known."""
    steps_per_epoch: int | None = None
    planned: int | None = None
    """Steps of the whole training; 0: nothing says how many."""
    planned_tolerance: float = 0.0
    """As a share of it."""
    accumulates: bool | None = None
    not_exact: tuple[str, ...] = ()
    """Knobs that change what is computed there."""


class PublicScript(Record, frozen=True):
    """A script or report by others."""

    name: str
    source: str
    """Where it can be read, and in which version."""
    checkout: str
    """Folder of its repository, below that of all checkouts."""
    situation: str
    """What is special about it."""
    program: str
    packages: tuple[str, ...]
    """That its environment has, besides torch."""
    derived: str
    """How what is right follows from its source."""
    right: Right
    folder: str = "."
    """In which it is started, below its checkout."""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    path: tuple[str, ...] = ()
    """Folders from which it imports, as seen from the one in which it is started."""
    made: str = ""
    """What data are made for it."""


def listed() -> list[PublicScript]:
    """Return the scripts, in the order of the list."""
    found: dict[str, Any] = tomllib.loads(_LIST.read_text("utf-8"))
    return msgspec.convert(found["scripts"], list[PublicScript])
