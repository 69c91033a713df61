"""Whether autoaccel has started this process to run the user's program in it.

Imports nothing: a script may decide on what torch does before it imports it.
"""

from __future__ import annotations

_hosted = False


def host() -> None:
    """The user's program is about to run here, under settings of ours."""
    global _hosted
    _hosted = True


def is_hosted() -> bool:
    """Whether it does."""
    return _hosted
