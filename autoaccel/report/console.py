"""The one rich console of autoaccel, on which nothing but visible text and rich's own styles comes out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from autoaccel.text import printable


class PlainConsole(Console):
    """A console for text of strangers: markup and emoji codes in it are shown as they are, control characters not.

    All that is drawn passes `render`, whatever it was made of.
    """

    def __init__(self, to_stderr: bool = False) -> None:
        """Write to stdout, or to stderr beside JSON."""
        super().__init__(stderr=to_stderr, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        """Write nothing more. Rich's own ends the program with exit code 1, which says that nothing faster was found.

        Raises:
            BrokenPipeError: Always.
        """
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what a renderable is drawn with, control codes of rich's own included."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
