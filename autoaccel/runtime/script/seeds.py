"""Seeds of a script: the same for both of a pair, others for each pair."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy
import torch

from autoaccel.runtime.randomness import seed_all

_APART = 1_000_003  # between seeds that follow each other; a script may use its seed plus the number of a worker
_MAX = 2**32  # numpy takes no larger ones


def shift_seeds(pair: int) -> None:
    """Seed all generators, and give the script other seeds than it asks for, the same ones in each process of a pair.

    Args:
        pair: Its number; from 0, whose seeds are the script's own.
    """
    seed_all(pair)
    if not pair:
        return
    for holder, name in ((torch, "manual_seed"), (random, "seed"), (numpy.random, "seed")):
        _shift(holder, name, pair * _APART)


def _shift(holder: Any, name: str, by: int) -> None:
    own = getattr(holder, name)

    @functools.wraps(own)
    def shifted(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
        return own((seed + by) % _MAX if isinstance(seed, int) else seed, *args, **kwargs)

    setattr(holder, name, shifted)
