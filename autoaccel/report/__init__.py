"""What people see of a run: the terminal during the run and at its end, and one HTML file to keep.

Called as a function, `autoaccel.report("accuracy", 0.97)`, it is `autoaccel.reported.report`: the name that a script
finds, whether or not the package was imported.
"""

from __future__ import annotations

import sys
from types import ModuleType

from autoaccel.reported import report


class _Report(ModuleType):
    """This package, which can be called."""

    def __call__(self, name: str, value: float) -> None:
        report(name, value)


sys.modules[__name__].__class__ = _Report
