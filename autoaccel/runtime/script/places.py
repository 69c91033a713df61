"""Where in the user's own files something was called."""

from __future__ import annotations

import os
import sys
import sysconfig
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from torch import nn

from autoaccel.runtime.script.entry import installed_folders

_Kind = TypeVar("_Kind")
_INSTALLED = installed_folders()
_PACKAGES = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
_APART = frozenset({"autoaccel", "torch"})  # packages whose loops are over hooks and the like, and never over steps


def user_frames() -> Iterator[FrameType]:
    """Yield the frames of the user's own code that the program is in, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame):
            yield frame
        frame = frame.f_back


def training_frames() -> Iterator[FrameType]:
    """Yield the frames that the program is in, the innermost first: the user's own, and of packages that train for it.

    Those of the standard library, and of torch itself, are left out.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if is_users(frame) or (package not in _APART and frame.f_code.co_filename.startswith(_PACKAGES)):
            yield frame
        frame = frame.f_back


def is_users(frame: FrameType) -> bool:
    """Whether a frame is of the user's own code."""
    return not frame.f_code.co_filename.startswith((*_INSTALLED, "<frozen", "<string>"))


def is_called_by_torch() -> bool:
    """Whether torch calls a function of its own, as its compiler does. To be called by what stands in for that."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("autoaccel."):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith("torch.")


def place_of(frame: FrameType) -> str:
    """Return where a frame is, such as "train.py:31"."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


class _Origin(NamedTuple):
    """Where a thing was constructed."""

    of: weakref.ref[Any]
    where: str  # "train.py:31"; empty: not by the user's code
    code: CodeType | None  # of the function there


def _origin(thing: Any) -> _Origin:
    """Return from where the user's code constructs an object, its own constructors left out.

    To be called in the constructor.
    """
    for frame in user_frames():
        names = frame.f_code.co_varnames
        if not (frame.f_code.co_name == "__init__" and names and frame.f_locals.get(names[0]) is thing):
            return _Origin(weakref.ref(thing), place_of(frame), frame.f_code)
    return _Origin(weakref.ref(thing), "", None)


class Origins:
    """Remembers where things were constructed, for as long as they live; they need not be hashable."""

    def __init__(self) -> None:
        self._found: dict[int, _Origin] = {}  # by id, which another thing may have later

    def note(self, thing: Any) -> None:
        """Remember from where the user's code constructs a thing. To be called in its constructor."""
        self._found[id(thing)] = _origin(thing)

    def where(self, thing: Any) -> str:
        """Return where a thing was constructed, such as "train.py:31"; empty if that was not seen."""
        origin = self._origin_of(thing)
        return origin.where if origin is not None else ""

    def held_as(self, thing: Any, *forms: Any) -> tuple[str, ...] | None:
        """Return which variables hold a thing in the function that has constructed it; None if that has ended.

        To be called within the user's code. What it is an attribute of, other than `self`, is no variable.

        Args:
            thing: Which was constructed.
            forms: What may be held in its place, such as a module that wraps it.
        """
        origin = self._origin_of(thing)
        frame = next((one for one in user_frames() if origin is not None and one.f_code is origin.code), None)
        if frame is None:
            return None
        attributes = getattr(frame.f_locals.get("self"), "__dict__", {})
        held = {**frame.f_locals, **{f"self.{name}": value for name, value in attributes.items()}}
        if isinstance(frame.f_locals.get("self"), nn.Module):
            held |= {f"self.{name}": value for name, value in frame.f_locals["self"].named_children()}
        return tuple(name for name, value in held.items() if any(value is one for one in (thing, *forms)))

    def _origin_of(self, thing: Any) -> _Origin | None:
        origin = self._found.get(id(thing))
        return origin if origin is not None and origin.of() is thing else None

    def all(self, kind: type[_Kind]) -> list[_Kind]:
        """Return all things of a kind that are still there, in no order."""
        return [thing for origin in self._found.values() if isinstance(thing := origin.of(), kind)]
