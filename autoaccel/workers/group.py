"""WorkerGroup: the ranks of one training, seen from the tuner as one worker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from autoaccel.records.messages import Answer, Failure
from autoaccel.workers.listening import await_news
from autoaccel.workers.worker import Worker

_LAST_WORDS_SECONDS = 2.0  # to hear the rank that failed first, when another has noticed it


class WorkerGroup:
    """Workers that train side by side. They are told, paused and closed together; the first speaks for all."""

    def __init__(self, workers: Sequence[Worker], rendezvous_file: Path) -> None:
        """Group workers that have been started.

        Args:
            workers: In the order of their ranks.
            rendezvous_file: The file by which they meet; `close` removes it.
        """
        self._workers = tuple(workers)
        self._leader = workers[0]
        self._rendezvous_file = rendezvous_file
        self._answered: set[Worker] = set()
        self.started_at = self._leader.started_at
        self.import_seconds = self._leader.import_seconds

    @property
    def is_closed(self) -> bool:
        """Whether they were ended."""
        return self._leader.is_closed

    def fileno(self) -> int:
        """Return the descriptor of the leader's channel, which `select` can wait for."""
        return self._leader.fileno()

    def tell(self, message: msgspec.Struct) -> None:
        """Send a message to workers that wait for one."""
        for worker in self._workers:
            worker.tell(message)

    def receive(self, timeout_seconds: float) -> Answer:
        """Return the leader's next answer, or the Failure of whichever rank failed."""
        deadline = time.perf_counter() + timeout_seconds
        while True:
            ready = self._with_news(deadline - time.perf_counter())
            if not ready or self._leader in ready:  # if all are silent, the leader tells where it hangs
                answer = self._leader.receive(max(0.0, deadline - time.perf_counter()))
                if not self._leader.is_gone:
                    self._answered.add(self._leader)
                return self._reason(answer) if isinstance(answer, Failure) else answer
            for worker in ready:
                if (failure := self._hear(worker)) is not None:
                    return self._reason(failure)

    def pause(self) -> None:
        """Stop them all where they are."""
        for worker in self._workers:
            worker.pause()

    def resume(self) -> None:
        """Let them all continue."""
        for worker in self._workers:
            worker.resume()

    def close(self) -> None:
        """Kill them all."""
        for worker in self._workers:
            worker.close()
        self._rendezvous_file.unlink(missing_ok=True)  # as it is where the ranks have not met yet

    def _with_news(self, seconds: float) -> list[Worker]:
        """Return the workers that have answered or died, after at most so many seconds; empty if none has."""
        listening = [worker for worker in self._workers if not worker.is_gone]
        return await_news(listening, seconds)

    def _hear(self, worker: Worker) -> Failure | None:
        """Read what a rank answers; return it if it is a failure. The leader gives every other answer as well."""
        answer = worker.receive(_LAST_WORDS_SECONDS)
        if worker.is_gone and worker in self._answered and isinstance(answer, Failure) and answer.kind == "exited":
            return None  # it has answered before: its task is done, or its failure is known
        if not worker.is_gone:
            self._answered.add(worker)
        if not isinstance(answer, Failure):
            return None
        rank = self._workers.index(worker)
        return msgspec.structs.replace(answer, message=f"rank {rank}: {answer.message}")

    def _reason(self, failure: Failure) -> Failure:
        """Return the failure of the rank that failed first, if this one failed only because of it."""
        deadline = time.perf_counter() + _LAST_WORDS_SECONDS
        while failure.lost_connection:
            ready = self._with_news(deadline - time.perf_counter())
            if not ready:
                break
            for worker in ready:
                if (other := self._hear(worker)) is not None and not other.lost_connection:
                    return other
        return failure
