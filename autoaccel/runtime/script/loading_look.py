"""Whether workers would load what a training loads that goes on: looked at in a process forked from it.

Samples are loaded there that the training never asks for, and its sampler is asked, without the training noticing: the
process is as much apart from it as a loader's worker is.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import torch
from torch.utils.data import DataLoader

from autoaccel.runtime.datasets import LoadingFacts, loads_same, look_at_samples
from autoaccel.runtime.loaders import context_name
from autoaccel.runtime.script.changing import SampleSources
from autoaccel.runtime.script.feeding import LoadedHere

_MAX_SECONDS = 10.0  # looking takes two of them, and workers must be started


def why_not_apart(loader: DataLoader[Any]) -> str:
    """Return why nobody can look from a forked process, nor workers load; empty if they can."""
    if sys.platform != "linux" or context_name(loader) != "fork":
        return "workers would not be forked from this process, but started as programs of their own"
    return ""


class LoadingLook:
    """Looks at how samples are loaded, while the training goes on."""

    def __init__(self, drawn: LoadedHere, sources: Sequence[SampleSources], trained: Collection[int]) -> None:
        """Begin to look.

        Args:
            drawn: A batch that was loaded just now, as the training has not seen it yet.
            sources: What was seen of the datasets that such batches come from.
            trained: Ids of the parameters that are trained.
        """
        self._began = time.monotonic()
        self._said = b""
        self._found: LoadingFacts | None = None
        self._end, writes = os.pipe()
        with warnings.catch_warnings():
            # Python's, of other threads: this fork is as safe as that of a worker.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            _look_apart(writes, lambda: _look(drawn, sources, trained))
        os.close(writes)
        os.set_blocking(self._end, False)

    def found(self) -> LoadingFacts | None:
        """Return what was seen; None as long as that is not known."""
        if self._found is None and self._has_ended():
            self._found = self._close()
        elif self._found is None and time.monotonic() - self._began > _MAX_SECONDS:
            with contextlib.suppress(ProcessLookupError):  # its own workers may have outlived it
                os.kill(self._process, signal.SIGKILL)
            self._found = self._close()
        return self._found

    def _has_ended(self) -> bool:
        try:
            while piece := os.read(self._end, 1 << 16):
                self._said += piece
        except BlockingIOError:
            return False
        return True

    def _close(self) -> LoadingFacts:
        os.close(self._end)
        with contextlib.suppress(ChildProcessError):  # the script may have waited for it
            os.waitpid(self._process, 0)
        if not self._said:
            return LoadingFacts(None, "", why_bound="its samples could not be looked at")
        found: LoadingFacts = pickle.loads(self._said)  # this process has written it
        return found


def _look_apart(writes: int, look: Callable[[], LoadingFacts]) -> NoReturn:
    """Look in this forked process, and end it: nothing of the script's is to run in it."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.alarm(round(2 * _MAX_SECONDS))  # in case nobody is left to end it
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        torch.set_num_threads(1)  # as in a worker: the threads of this process were not forked
        os.write(writes, pickle.dumps(look()))
    finally:
        os._exit(0)


def _look(drawn: LoadedHere, sources: Sequence[SampleSources], trained: Collection[int]) -> LoadingFacts:
    if bound := next(filter(None, (one.ended(trained) for one in sources)), ""):
        return LoadingFacts(None, "", why_bound=bound)
    found = look_at_samples(drawn.loader)
    if found.why_bound or found.why_loading_matters:
        return found
    # With as many threads as the training has, which round otherwise than the one of a worker, only it can load.
    if not loads_same(drawn.loader, drawn.indices, drawn.batch):
        return found._replace(why_bound="workers make other batches of the same samples")
    return found
