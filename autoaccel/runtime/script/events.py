"""What a training is seen to do, by hooks of torch and around its entry points: nothing of the script is rewritten."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader


class Events:
    """Hears what a training does. The base does nothing."""

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to make an update."""

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has made an update."""

    def backward_begins(self, loss: torch.Tensor) -> None:
        """backward() was called on this tensor."""

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """Somebody begins to draw batches from a loader."""

    def saves(self) -> None:
        """Something is about to be saved."""


def listen(events: Events, failed: Callable[[BaseException], None]) -> None:
    """Tell what happens in this process from now on, until it ends; not in those that it forks.

    Args:
        events: Hears it.
        failed: Called with an error of the listener's: it must not reach the script, which may catch it.
    """
    process = os.getpid()

    def tell(method: Callable[..., None], *what: Any) -> None:
        if os.getpid() == process:
            try:
                method(*what)
            except BaseException as error:
                failed(error)

    register_optimizer_step_pre_hook(lambda optimizer, *_: tell(events.update_begins, optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: tell(events.update_ended, optimizer))
    before(torch.autograd, "backward", lambda tensors, *_, **__: tell(events.backward_begins, _first(tensors)))
    before(DataLoader, "__iter__", lambda loader: tell(events.loader_begins, loader))
    before(torch, "save", lambda *_, **__: tell(events.saves))


def before(holder: Any, name: str, call: Callable[..., Any]) -> None:
    """Call a function with the same arguments before each call of an attribute, for as long as the process lives."""
    own = getattr(holder, name)

    @functools.wraps(own)
    def both(*args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        return own(*args, **kwargs)

    setattr(holder, name, both)


def _first(tensors: Any) -> torch.Tensor:
    found: torch.Tensor = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors))
    return found


class RootCalls:
    """Tells of modules that are called with gradients, are trained, and are called by no other module.

    Not by torch's global hooks: those come too late to change the first call, and compiled modules warn of them.
    """

    def __init__(self, called: Callable[[nn.Module], None]) -> None:
        """Begin to tell. Each call of any module takes a microsecond longer until `end`.

        Args:
            called: Told of each call, before it.
        """
        self._called = called
        self._depth = 0
        kind: Any = nn.Module
        self._own = own = kind.__call__

        @functools.wraps(own)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return own(module, *args, **kwargs)
            if not self._depth and torch.is_grad_enabled() and is_trained(module):
                self._called(module)
            self._depth += 1
            try:
                return own(module, *args, **kwargs)
            finally:
                self._depth -= 1

        kind.__call__ = call

    def end(self) -> None:
        """Tell no more."""
        kind: Any = nn.Module
        kind.__call__ = self._own


def is_trained(module: nn.Module) -> bool:
    """Whether it is in training mode and some of its parameters take gradients."""
    return module.training and any(parameter.requires_grad for parameter in module.parameters())
