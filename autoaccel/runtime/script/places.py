"""Where in the user's own files something was called."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from autoaccel.runtime.script.entry import installed_folders

_INSTALLED = installed_folders()


def user_frames() -> Iterator[FrameType]:
    """Yield the frames of the user's own code that the program is in, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((*_INSTALLED, "<frozen", "<string>")):
            yield frame
        frame = frame.f_back


def place_of(frame: FrameType) -> str:
    """Return where a frame is, such as "train.py:31"."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def where_constructed(thing: Any) -> str:
    """Return from where the user's code constructs an object, its own constructors left out; empty if it does not.

    To be called in the constructor.
    """
    for frame in user_frames():
        names = frame.f_code.co_varnames
        if not (frame.f_code.co_name == "__init__" and names and frame.f_locals.get(names[0]) is thing):
            return place_of(frame)
    return ""
