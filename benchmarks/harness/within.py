"""How long a script that is measured spends within the hooks of its measurement, by the clock.

    PYTHONPATH=HOUSE SPEC=... python -m benchmarks.harness.within SECONDS

in the working folder of the script. What is timed lies between two readings of the clock, one on either side of what is
put around backward(), the updates of optimizers and the calls of models; one reading of the two is timed, too. The last
line of standard error says how many seconds that were, for each update of an optimizer, and how long after the update
before it that one ended.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from autoaccel.records.base import Record, decode, encode
from autoaccel.records.messages import Failure, GiveTurn, WorkerSpec
from autoaccel.runtime.script import measure
from autoaccel.runtime.script.boundary import Boundary
from autoaccel.runtime.script.events import listen
from autoaccel.runtime.script.models import Models
from autoaccel.runtime.script.serving import serve_script

MARK = "WITHIN"
_CALL = "_compiled_call_impl"  # where a module's call is replaced
_OWN_CALL = "_call_impl"  # what is called there by what replaces it


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


class Clock:
    """Reads the time on either side of the hooks."""

    def __init__(self, seconds: float) -> None:
        """Begin; so many seconds after the first update the process says what was found, and ends."""
        self._seconds = seconds
        self._since = 0.0
        self._spent = 0.0  # since the last update
        self._updates: list[float] = []
        self._ends: list[float] = []

    def start(self, *_: Any) -> None:
        """What is timed begins."""
        self._since = time.perf_counter()

    def stop(self, *_: Any) -> None:
        """It ends."""
        self._spent += time.perf_counter() - self._since

    def around(self, own: Callable[..., Any], reading: Callable[[], None]) -> Callable[..., Any]:
        """Return a function that reads the clock before it does what another one does."""

        @functools.wraps(own)
        def read(*args: Any, **kwargs: Any) -> Any:
            reading()
            return own(*args, **kwargs)

        return read

    def listen(self, events: Boundary, failed: Callable[[BaseException], None]) -> Callable[[], None]:
        """Listen like the hooks' own function, which this stands in for."""
        torch.autograd.backward = self.around(torch.autograd.backward, self.stop)
        register_optimizer_step_pre_hook(self.start)
        register_optimizer_step_post_hook(self.start)
        ended = listen(events, failed)
        torch.autograd.backward = self.around(torch.autograd.backward, self.start)
        register_optimizer_step_pre_hook(self.stop)
        register_optimizer_step_post_hook(self._update_ended)
        return ended

    def _update_ended(self, *_: Any) -> None:
        self.stop()
        self._updates.append(self._spent)
        self._spent = 0.0
        self._ends.append(time.perf_counter())
        if self._ends[-1] - self._ends[0] > self._seconds:
            steps = [late - early for early, late in itertools.pairwise(self._ends)]
            sys.stderr.write(f"\n{MARK}{json.dumps((self._updates[1:], steps))}\n")
            sys.stderr.flush()
            os._exit(0)


def main() -> None:
    """Run the script of the WorkerSpec that the environment has."""
    clock = Clock(float(sys.argv[1]))

    class TimedModels(Models):
        def _called(self, module: nn.Module, trains: bool) -> None:
            before = vars(module).get(_CALL)
            if trains and before is None:
                vars(module)[_OWN_CALL] = clock.around(module._call_impl, clock.stop)
            super()._called(module, trains)
            if vars(module).get(_CALL) is not before:
                vars(module)[_CALL] = clock.around(vars(module)[_CALL], clock.start)

    replaced: Any = measure
    replaced.listen, replaced.Models = clock.listen, TimedModels
    answer = serve_script(decode(os.environ.pop("SPEC").encode(), WorkerSpec), EndlessTurn())
    raise RuntimeError(f"the script has ended: {answer}")


if __name__ == "__main__":
    main()
