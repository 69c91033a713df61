"""What a batch consists of: only this module looks into tuples, mappings, dataclasses and objects of the user's own.

A batch is whatever the user's loader gives: a tensor, or tensors inside of each other's tuples, lists, mappings (those
of transformers included) and dataclasses. Beside those, an object that has a `.to()`, such as a packed sequence, is
moved by that; its tensors are those among its attributes.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence


def map_tensors(
    function: Callable[[torch.Tensor], torch.Tensor],
    batch: Any,
    move: Callable[[Any], Any] = lambda thing: thing,
) -> Any:
    """Return the batch with the function applied to each of its tensors; every part of it keeps its class.

    Args:
        function: Of a tensor.
        batch: It stays as it is.
        move: Applied to each object that moves by a `.to()` of its own.
    """
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if _moves_itself(batch):
        return move(batch)
    if isinstance(batch, Mapping):
        items = {key: map_tensors(function, value, move) for key, value in batch.items()}
        return items if type(batch) is dict or not isinstance(batch, MutableMapping) else _with_items(batch, items)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(function, value, move) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(map_tensors(function, value, move) for value in batch)
    if _is_dataclass(batch):
        changed = copy.copy(batch)
        for name, value in _fields(batch):
            object.__setattr__(changed, name, map_tensors(function, value, move))  # it may be frozen
        return changed
    return batch


def _with_items(batch: MutableMapping[Any, Any], items: Mapping[Any, Any]) -> MutableMapping[Any, Any]:
    """Return a mapping of the same class and with the same attributes, such as transformers' BatchEncoding."""
    changed = copy.copy(batch)
    for key, value in items.items():
        changed[key] = value
    return changed


def tensors_of(batch: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        yield batch
        return
    for part in parts_of(batch):
        yield from tensors_of(part)


def parts_of(batch: Any) -> Iterable[Any]:
    """Return what a batch, or a part of one, consists of; nothing if it cannot be looked into."""
    if isinstance(batch, Mapping):
        return batch.values()
    if isinstance(batch, (tuple, list)):
        return batch
    if _is_dataclass(batch):
        return [value for _, value in _fields(batch)]
    if _moves_itself(batch) and hasattr(batch, "__dict__"):
        # Not into further objects: they may point back.
        return [value for value in vars(batch).values() if not _moves_itself(value)]
    return ()


def count_samples(batch: Any) -> int:
    """Return the length of the first tensor in the batch, 1 if there is none."""
    first = next(tensors_of(batch), None)
    return len(first) if first is not None and first.dim() else 1


def _moves_itself(thing: Any) -> bool:
    """Whether only a `.to()` of its own knows how to move it: a packed sequence keeps a part on the CPU."""
    if isinstance(thing, (Mapping, tuple, list, type)):
        return isinstance(thing, PackedSequence)
    return not isinstance(thing, torch.Tensor) and callable(getattr(thing, "to", None))


def _is_dataclass(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _fields(thing: Any) -> list[tuple[str, Any]]:
    names = [field.name for field in dataclasses.fields(thing)]
    return [(name, getattr(thing, name)) for name in names if hasattr(thing, name)]
