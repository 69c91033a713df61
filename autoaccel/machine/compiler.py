"""The C++ compiler that torch.compile would use."""

from __future__ import annotations

import os
import shutil
import sys


def find_compiler() -> str | None:
    """Return the path of the compiler that torch.compile would find on PATH, or None if it would find none.

    It tries one only: CXX as a single command without arguments, else g++ (clang++ on macOS). With clang++ alone on
    Linux it fails. Source: `cpp.cxx` in torch/_inductor/config.py of torch 2.13.
    """
    return shutil.which(os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++"))
