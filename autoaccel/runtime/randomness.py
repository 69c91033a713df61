"""The generators of random numbers that a whole process shares: torch's, numpy's and Python's own."""

from __future__ import annotations

import random
from types import TracebackType

import numpy
import torch

_NUMPY_SEEDS = 2**32  # numpy takes no larger ones


def seed_all(seed: int) -> None:
    """Seed them all, those of accelerators included."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % _NUMPY_SEEDS)


class Apart:
    """Random numbers apart from those of the process: inside of `with`, the shared generators give these.

    What is drawn inside does not depend on what was drawn outside, and the other way round. It begins as the generators
    are after `seed_all(seed)`, accelerators' excepted, which stay what they are.
    """

    def __init__(self, seed: int) -> None:
        self._torch = torch.Generator().manual_seed(seed).get_state()
        self._python = random.Random(seed).getstate()
        # A generator is exchanged for another in half a microsecond; to read and write the state takes numpy 140.
        numbers = numpy.random.MT19937()
        numpy.random.RandomState(numbers).seed(seed % _NUMPY_SEEDS)
        self._numpy: numpy.random.BitGenerator = numbers

    def __enter__(self) -> None:
        self._exchange()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exchange()

    def _exchange(self) -> None:
        other_torch, other_python = torch.get_rng_state(), random.getstate()
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        other_numpy = numpy.random.get_bit_generator()  # type: ignore[attr-defined]  # not in its stubs
        numpy.random.set_bit_generator(self._numpy)  # type: ignore[attr-defined]
        self._torch, self._python, self._numpy = other_torch, other_python, other_numpy
