"""PipedConsole: a console that leaves it to its caller what a closed pipe means."""

from __future__ import annotations

import errno
import os
from typing import NoReturn

from rich.console import Console


class PipedConsole(Console):
    """Rich's own ends the program with exit code 1, which says that nothing faster was found."""

    def on_broken_pipe(self) -> NoReturn:
        """Write nothing more.

        Raises:
            BrokenPipeError: Always.
        """
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
