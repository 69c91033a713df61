"""Tune while a training runs: every step that is measured is one of its own.

Called as a function, `with autoaccel.live():`, it tunes what is trained in the block.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autoaccel.live.within import Live


class _Live(ModuleType):
    """This package, which can be called."""

    def __call__(
        self, *, space: str = "default", output: str | Path | None = None, history: bool = True
    ) -> AbstractContextManager[Live]:
        """Tune what this process trains within a `with` block, by the steps that it makes.

        Nothing need be given: whatever is trained in the block is heard, as by `autoaccel run train.py`. Settings that
        make its steps faster are taken on between two of them; when the block ends, they are taken back, but for what
        says that it cannot be. In a program that autoaccel itself runs it does nothing.

        Args:
            space: Name of a search space, or path of its .toml file.
            output: Folder for live.jsonl, recipe.json and report.html; default: `autoaccel-runs/NAME-1`, `-2`, ...
            history: Whether to begin with what earlier runs of the same program have found, and to keep it for the
                next.

        Returns:
            What gives, when the block is entered, an object whose `summary` says at its end what came of it.

        Raises:
            BadRequestError: If there is no such search space.
        """
        from autoaccel.live.within import tuned

        return tuned(space, Path(output) if output is not None else None, history)


sys.modules[__name__].__class__ = _Live
