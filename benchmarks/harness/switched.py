"""A script that is measured by its hooks, which are put in and taken out every few updates, in one process.

    PYTHONPATH=HOUSE SPEC=... python -m benchmarks.harness.switched SECONDS

in the working folder of the script. Two processes differ by a hundredth whatever is in them, because of where their
memory lies; steps of one process, a block with hooks beside one without, do not. The last line of standard error says
how many seconds a step takes longer with hooks, for each pair of neighbouring blocks.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.trial import Failure, GiveTurn, WorkerSpec
from autoaccel.runtime.script import measure
from autoaccel.runtime.script.boundary import Boundary
from autoaccel.runtime.script.events import listen
from autoaccel.runtime.script.models import Models
from autoaccel.runtime.script.serving import serve_script

MARK = "SWITCHED"
_BLOCK = 10  # updates: the shortest of the scripts has 41, and its hooks are put in anew when it is run again
_UNCOUNTED = 3  # of these: the first have functions in them that were just made
_CALL = "_compiled_call_impl"  # where a module's call is replaced


class EndlessTurn:
    """The way to a tuner that wants steps for as long as the process lives."""

    def read(self) -> bytes:
        """Return the order."""
        return encode(GiveTurn(1e9))

    def write(self, message: Record) -> None:
        """Take an answer, which tells nothing here.

        Raises:
            RuntimeError: If the script cannot be measured.
        """
        if isinstance(message, Failure):
            raise RuntimeError(message.message)


class Switch:
    """Puts the hooks in and takes them out, and times the updates between."""

    def __init__(self, seconds: float) -> None:
        """Begin once `listen` is called.

        Args:
            seconds: After so many the process says what was found, and ends.
        """
        self.models: Models | None = None
        """Of the script, whose calls are replaced as well."""
        self._seconds = seconds
        self._ends_at: float | None = None
        self._is_in = True
        self._updates: list[float] = []  # of the block, when each ended
        self._blocks: list[tuple[bool, float]] = []
        self._pairs: list[float] = []
        self._calls: dict[int, Any] = {}  # those that were taken out, by the model's identity

    def listen(self, events: Boundary, failed: Callable[[BaseException], None]) -> Callable[[], None]:
        """Listen like the hooks' own function, which this stands in for."""
        own: Callable[..., Any] = torch.autograd.backward
        own_start = events.start_again

        def start_again() -> None:  # with hooks: there are no others that tell of the first step
            self._put(True)
            self._updates, self._blocks = [], []
            own_start()

        def backward(*args: Any, **kwargs: Any) -> Any:
            if len(self._updates) > _BLOCK:
                self._end_block()
            return own(*args, **kwargs)

        torch.autograd.backward = backward  # for as long as this process lives
        events.start_again = start_again  # type: ignore[method-assign]  # of this one object alone
        register_optimizer_step_post_hook(lambda *_: self._updates.append(time.perf_counter()))
        self._put_in = partial(listen, events, failed)
        self._take_out = self._put_in()
        return lambda: None

    def _put(self, is_in: bool) -> None:
        if is_in == self._is_in:
            return
        self._is_in = is_in
        if is_in:
            self._take_out = self._put_in()
        else:
            self._take_out()
        assert self.models is not None
        for model in self.models.trained:  # what is in each of them calls whatever it has replaced
            if is_in:
                vars(model)[_CALL] = self._calls[id(model)]
            else:
                self._calls[id(model)] = vars(model)[_CALL]
                vars(model)[_CALL] = None

    def _end_block(self) -> None:
        seconds = [late - early for early, late in itertools.pairwise(self._updates[_UNCOUNTED:])]
        self._blocks.append((self._is_in, statistics.median(seconds)))
        for (first_in, first), (_, second) in itertools.pairwise(self._blocks[-2:]):
            self._pairs.append(first - second if first_in else second - first)
        self._ends_at = self._ends_at or self._updates[0] + self._seconds
        if self._updates[-1] > self._ends_at and self._pairs:
            self._tell()
        self._put(not self._is_in)
        self._updates = []

    def _tell(self) -> NoReturn:
        sys.stderr.write(f"\n{MARK}{json.dumps(self._pairs)}\n")
        sys.stderr.flush()
        os._exit(0)


def main() -> None:
    """Run the script of the WorkerSpec that the environment has."""
    switch = Switch(float(sys.argv[1]))

    class KnownModels(Models):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            switch.models = self

    replaced: Any = measure
    replaced.listen, replaced.Models = switch.listen, KnownModels
    answer = serve_script(decode(os.environ.pop("SPEC").encode(), WorkerSpec), EndlessTurn())
    raise RuntimeError(f"the script has ended: {answer}")


if __name__ == "__main__":
    main()
