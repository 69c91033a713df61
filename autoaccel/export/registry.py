"""Every target by name, those of other packages included."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Iterator, Mapping

from autoaccel.errors import BadRequestError
from autoaccel.export import TARGETS
from autoaccel.export.target import Target

ENTRY_POINTS = "autoaccel.targets"
"""Group of the entry points by which other packages bring targets: each names an object that is a `Target`."""


def find_targets() -> Mapping[str, Target]:
    """Return every target by name, the built-in ones first.

    Raises:
        BadRequestError: If a target of another package cannot be loaded, is none, or has the name of another.
    """
    # By name, so that the help of `autoaccel launch` has the names without loading what they stand for.
    built_in = [importlib.import_module(f"autoaccel.export.{name}").TARGET for name in TARGETS]
    return {target.name: target for target in (*built_in, *_of_other_packages())}


def find_target(name: str) -> Target:
    """Return the target of this name.

    Raises:
        BadRequestError: Naming all of them, if there is no such target; or as `find_targets` does.
    """
    targets = find_targets()
    if name in targets:
        return targets[name]
    near = difflib.get_close_matches(name, targets, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise BadRequestError(f"--with must be one of {', '.join(targets)}, got {name!r}.{hint}")


def _of_other_packages() -> Iterator[Target]:
    names = set(TARGETS)
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        where = f"the target {entry.name!r} of {entry.dist.name if entry.dist else entry.value}"
        try:
            target = entry.load()
        except Exception as error:  # whatever the package raises
            raise BadRequestError(f"{where} cannot be loaded: {error}. Repair or uninstall the package.") from error
        if isinstance(target, type) or not isinstance(target, Target):
            found = f"the class {target.__name__}" if isinstance(target, type) else type(target).__name__
            raise BadRequestError(f"{where} must be an object with name, check and render, got {found}.")
        if target.name in names:
            raise BadRequestError(f"{where} conflicts with another target {target.name!r}. Rename or uninstall it.")
        names.add(target.name)
        yield target
