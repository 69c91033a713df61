"""See what a script's argument parser makes of its command line. Imports the standard library alone."""

from __future__ import annotations

import argparse
import functools
from typing import Any


def watch_parsers(parsed: dict[str, str]) -> None:
    """Keep the numbers and words that any parser of this process finds, by their names, defaults included.

    Args:
        parsed: Where they are kept.
    """
    own = argparse.ArgumentParser.parse_known_args

    @functools.wraps(own)
    def parse(*args: Any, **kwargs: Any) -> Any:
        found = own(*args, **kwargs)
        for name, value in vars(found[0]).items():
            if type(value) in (int, float, str):
                parsed[name.replace("_", "-").lower()] = str(value)
        return found

    argparse.ArgumentParser.parse_known_args = parse  # type: ignore[method-assign]  # replaced for as long as this process lives
