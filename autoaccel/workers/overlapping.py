"""Whether starts overlap: workers start side by side, or one after the other where they slow each other down."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from autoaccel.records.messages import Built, Failure
from autoaccel.workers.group import WorkerGroup
from autoaccel.workers.listening import await_news
from autoaccel.workers.measuring import failure_of
from autoaccel.workers.worker import Worker


class Overlapping:
    """Starts workers side by side, once a start was seen alone and until that is seen to take longer than one by one.

    A start that one thread does takes no longer beside another. Where two processes divide small operators among
    threads on the same cores, each waits for threads of its own that the other keeps from running: on two cores, the
    start of a training that composes 3,000 pictures takes 4 s alone and 29 s beside another, and that of one that draws
    as many 3 s and 119 s. So starts that have taken as long as they would one by one go on one by one.
    """

    def __init__(self) -> None:
        """Begin with nothing seen."""
        # By whether the workers are programs of their own, which import what others are spared.
        self._alone_seconds: dict[bool, float] = {}  # the longest start of a worker beside which no other started
        self._slowed_down: set[bool] = set()

    def start(
        self, starting: Iterable[Worker | WorkerGroup], deadline: float, fresh: bool
    ) -> tuple[list[Worker | WorkerGroup], list[float | Failure]]:
        """Return the workers, and how long after its start each had built its training.

        Args:
            starting: Starts a worker each time it is asked for the next one.
            deadline: When all must have built, by `time.perf_counter`.
            fresh: Whether they are programs of their own.
        """
        workers: list[Worker | WorkerGroup] = []
        built: list[float | Failure] = []
        alone_seconds = None if fresh in self._slowed_down else self._alone_seconds.get(fresh)
        if alone_seconds is None:
            for worker in starting:
                workers.append(worker)
                built.append(_await_built(worker, deadline))
        else:
            workers = list(starting)
            built = _await_all_built(workers, deadline, len(workers) * alone_seconds)
        longest = max((one for one in built if not isinstance(one, Failure)), default=0.0)
        if alone_seconds is None or len(workers) == 1:  # nothing else was starting
            self._alone_seconds[fresh] = max(self._alone_seconds.get(fresh, 0.0), longest)
        elif longest > len(workers) * alone_seconds:
            self._slowed_down.add(fresh)
        return workers, built


def _await_all_built(
    workers: Sequence[Worker | WorkerGroup], deadline: float, patience_seconds: float
) -> list[float | Failure]:
    """Return how long after its start each worker had built its training.

    Args:
        workers: They start side by side.
        deadline: When all must have built, by `time.perf_counter`.
        patience_seconds: For how long they do; those that have not built by then go on one after the other.
    """
    built: dict[Worker | WorkerGroup, float | Failure] = {}
    end = min(time.perf_counter() + patience_seconds, deadline)
    slow = list(workers)
    while slow and (heard := await_news(slow, end - time.perf_counter())):
        for worker in heard:
            built[worker] = _await_built(worker, deadline)
            slow.remove(worker)
    for worker in slow[1:]:
        worker.pause()
    for worker in slow:
        worker.resume()
        built[worker] = _await_built(worker, deadline)
    return [built[worker] for worker in workers]


def _await_built(worker: Worker | WorkerGroup, deadline: float) -> float | Failure:
    """Return how long after its start a worker had built its training."""
    answer = worker.receive(deadline - time.perf_counter())
    return time.perf_counter() - worker.started_at if isinstance(answer, Built) else failure_of(answer)
