"""The compilers that torch.compile would use: for C++ on a CPU; for C, through Triton, on a GPU."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def find_compiler() -> str | None:
    """Return the path of the compiler that torch.compile would find on PATH, or None if it would find none.

    It tries only one: CXX as a single command without arguments, else g++ (clang++ on macOS). With clang++ alone on
    Linux it fails. Source: `cpp.cxx` in torch/_inductor/config.py of torch 2.13.
    """
    return shutil.which(os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++"))


def find_c_compiler() -> str | None:
    """Return the path of the compiler with which Triton would build its launchers, or None if it would find none.

    It takes CC, else gcc, else clang. Source: triton/runtime/build.py of Triton 3.2 to 3.6.
    """
    if "CC" in os.environ:
        return shutil.which(os.environ["CC"])
    return shutil.which("gcc") or shutil.which("clang")


def has_python_headers() -> bool:
    """Whether what Triton builds could include Python.h, which distributions keep in a package of its own."""
    return (Path(sysconfig.get_path("include")) / "Python.h").exists()
