"""Removal: what pruning takes out of a model, whichever library does it."""

from __future__ import annotations

from typing import NamedTuple


class Removal(NamedTuple):
    """Which outputs of a model's layers are removed."""

    share: float  # of the outputs of each layer
    norm: int  # of a channel's weights, by which its importance is told: 1 or 2
    kept: frozenset[str]  # names of the layers whose outputs keep their number
