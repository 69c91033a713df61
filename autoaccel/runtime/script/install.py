"""Install settings at the parts of a script: at its optimizers when they begin, at its loaders when they are made."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from autoaccel.records.script import LoaderKey, ScriptFacts
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.script.numbering import length_of

_OF_WORKERS = {"persistent_workers": False, "prefetch_factor": None, "timeout": 0, "multiprocessing_context": None}
"""What a loader without workers must not be told, as torch's constructor has it."""


def equip(optimizer: torch.optim.Optimizer, applied: Applied) -> None:
    """Let an optimizer of the script's, which is about to make its first update, update as the settings say."""
    changed = applied.optimizer(optimizer)
    assert changed is optimizer  # of those that replace it none acts in scripts


def install_loaders(facts: ScriptFacts, applied: Applied) -> None:
    """Give each loader that is made from now on, and whose batches are trained on, the settings' arguments.

    Args:
        facts: Say which these are.
        applied: The settings.
    """
    feeding = frozenset(loader.key for loader in facts.loaders if loader.feeds and not loader.fixed)
    kind: Any = DataLoader
    own_init = kind.__init__
    signature = inspect.signature(own_init)

    @functools.wraps(own_init)
    def made(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
        given = signature.bind(loader, *args, **kwargs).arguments
        given.pop("self")
        if key_of_arguments(given) in feeding:
            given = {**given, **changed_arguments(given, applied)}
        own_init(loader, **given)

    kind.__init__ = made  # for as long as this process lives


def changed_arguments(given: dict[str, Any], applied: Applied) -> dict[str, Any]:
    """Return the arguments of a loader that settings decide on.

    Args:
        given: By the script.
        applied: The settings.
    """
    arguments = applied.loader_arguments({})
    if arguments.get("num_workers", given.get("num_workers", 0)) == 0:
        arguments = {**arguments, **{name: value for name, value in _OF_WORKERS.items() if name in given}}
    return arguments


def key_of_arguments(given: dict[str, Any]) -> LoaderKey:
    """Return the key of the loader that will be made of these arguments; see `key_of`."""
    dataset, batches = given["dataset"], given.get("batch_sampler")
    if batches is not None:
        return LoaderKey(type(dataset).__name__, length_of(dataset), None, type(batches).__name__)
    sampler = given.get("sampler")
    if sampler is not None:
        name = type(sampler).__name__
    elif isinstance(dataset, IterableDataset):
        name = "_InfiniteConstantSampler"
    else:
        name = "RandomSampler" if given.get("shuffle") else "SequentialSampler"
    return LoaderKey(type(dataset).__name__, length_of(dataset), given.get("batch_size", 1), name)
