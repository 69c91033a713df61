"""Do something in each OpenMP thread that computes for this one: what a thread is told, others that run do not know."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import torch

_RUNTIME = re.compile(r"/lib(?:gomp|iomp5|omp)\b[^/]*\.so[^/]*$")


def in_each_thread(call: Callable[[], object]) -> None:
    """Call a function in this thread, and in those among which its operators are divided, at the same time.

    On Linux, by GOMP_parallel of GNU's OpenMP runtime (tried with torch 2.13.0), and of others that have it; elsewhere
    in this thread alone.
    """
    call()
    with contextlib.suppress(OSError):  # no /proc
        for runtime in sorted({line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if line}):
            if _RUNTIME.search(runtime):
                _fork(runtime, call)


def _fork(runtime: str, call: Callable[[], object]) -> None:
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: (call(), None)[1])
    with contextlib.suppress(AttributeError, OSError):
        parallel = ctypes.CDLL(runtime).GOMP_parallel
        parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        parallel.restype = None
        parallel(ctypes.cast(function, ctypes.c_void_p), None, torch.get_num_threads(), 0)
