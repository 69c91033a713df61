"""The command line of a script."""

from __future__ import annotations

import argparse


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the script's docstring, line by line as it is written."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
