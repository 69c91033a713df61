"""What a training is seen to do, by hooks of torch and around its entry points: nothing of the script is rewritten."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from autoaccel.runtime.script.cycle import TrainingOverError
from autoaccel.runtime.script.own_updates import OwnUpdates


class Events:
    """Hears what a training does. The base does nothing."""

    own_updates: OwnUpdates | None = None
    """Tells of the updates of a script that makes them itself; None: optimizers of torch's make them."""

    def update_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to make an update."""

    def update_ended(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer has made an update, or a GradScaler has skipped it."""

    def differentiates(self) -> None:
        """Gradients are about to be computed without backward()."""

    def backward_begins(self, loss: torch.Tensor) -> None:
        """backward() was called on this tensor, or on what a GradScaler has made of it."""

    def loader_begins(self, loader: DataLoader[Any]) -> None:
        """Somebody begins to draw batches from a loader."""

    def saves(self) -> None:
        """Something is about to be saved."""


def listen(events: Events, failed: Callable[[BaseException], None]) -> Callable[[], None]:
    """Tell what happens in this process from now on; not in those that it forks.

    Return what ends that, and leaves torch as it was; not to be called while an optimizer makes an update, whose hooks
    are being gone through.

    Args:
        events: Hears it.
        failed: Called with an error of the listener's: it must not reach the script, which may catch it. That a
            training is over is meant to.
    """
    process = os.getpid()

    def told(
        method: Callable[..., None], first: int | None = None, own: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Return what calls a method with the first of what it is itself called with, or all, in this process alone.

        And then the own function, with all, if there is one: each Python function more that is called within a step
        costs it microseconds, because what computes gradients has left little else in the caches.
        """

        def tell(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() == process:
                try:
                    method(*args[:first], **kwargs)
                except TrainingOverError:
                    raise
                except BaseException as error:
                    failed(error)
            return own(*args, **kwargs) if own is not None else None

        return tell

    def tell_before(holder: Any, name: str, method: Callable[..., None]) -> None:
        own = getattr(holder, name)
        ends.callback(_put(holder, name, functools.wraps(own)(told(method, own=own))))

    def skipped(optimizer: torch.optim.Optimizer) -> None:
        events.update_begins(optimizer)
        events.update_ended(optimizer)

    def backward_begins(tensors: Any, *_: Any, **__: Any) -> None:
        if events.own_updates is not None:
            events.own_updates.gradients_begin(True)
        loss = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors))
        events.backward_begins(loss if scaling.last is None else scaling.before(loss))

    def differentiates(*_: Any, **__: Any) -> None:
        if events.own_updates is not None:
            events.own_updates.gradients_begin(False)
        events.differentiates()

    with ExitStack() as ends:
        ends.callback(register_optimizer_step_pre_hook(told(events.update_begins, 1)).remove)
        ends.callback(register_optimizer_step_post_hook(told(events.update_ended, 1)).remove)
        _hear_skipped_updates(told(skipped), ends)
        scaling = _Scaling(ends)
        tell_before(torch.autograd, "backward", backward_begins)
        tell_before(torch.autograd, "grad", differentiates)  # torch.func calls it, too
        tell_before(DataLoader, "__iter__", events.loader_begins)
        tell_before(torch, "save", lambda *_, **__: events.saves())
        return ends.pop_all().close


def _hear_skipped_updates(skipped: Callable[[torch.optim.Optimizer], Any], ends: ExitStack) -> None:
    """Tell of each step of a GradScaler in which the optimizer makes no update, because gradients have overflown."""
    kind: Any = torch.amp.GradScaler
    own = kind.step

    @functools.wraps(own)
    def step(scaler: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        updated: list[torch.optim.Optimizer] = []
        hook = register_optimizer_step_post_hook(lambda one, *_: updated.append(one))
        try:
            result = own(scaler, optimizer, *args, **kwargs)
        finally:
            hook.remove()
        if not updated:
            skipped(optimizer)
        return result

    ends.callback(_put(kind, "step", step))


class _Scaling:
    """Knows the loss that a GradScaler was last given: its scale changes, at other steps under other settings."""

    def __init__(self, ends: ExitStack) -> None:
        self.last: tuple[weakref.ref[torch.Tensor], torch.Tensor] | None = None
        """What a scaler has made of a loss, and that loss, detached: it holds no graph."""
        kind: Any = torch.amp.GradScaler
        own = kind.scale

        @functools.wraps(own)
        def scale(scaler: Any, outputs: Any) -> Any:
            result = own(scaler, outputs)
            if isinstance(outputs, torch.Tensor):
                self.last = weakref.ref(result), outputs.detach()
            return result

        ends.callback(_put(kind, "scale", scale))

    def before(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the loss that a scaler was given, if it has made this of it; else this itself."""
        return self.last[1] if self.last is not None and self.last[0]() is tensor else tensor


def before(holder: Any, name: str, call: Callable[..., Any]) -> Callable[[], None]:
    """Call a function with the same arguments before each call of an attribute; return what ends that."""
    own = getattr(holder, name)

    @functools.wraps(own)
    def both(*args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        return own(*args, **kwargs)

    return _put(holder, name, both)


def _put(holder: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Put a function in place of an attribute; return what puts that back, unless somebody has replaced it since."""
    own = getattr(holder, name)
    setattr(holder, name, function)

    def put_back() -> None:
        if getattr(holder, name) is function:
            setattr(holder, name, own)

    return put_back


class RootCalls:
    """Tells of modules that are called by no other module.

    Not by torch's global hooks: those come too late to change the first call, and compiled modules warn of them.
    """

    def __init__(self, called: Callable[[nn.Module, bool], None]) -> None:
        """Begin to tell. Each call of any module takes a microsecond longer until `end`.

        Args:
            called: Told of each call, before it, and whether the module is trained by it: called in training mode, with
                gradients that some of its parameters take.
        """
        self._called = called
        self._depth = 0
        self._has_ended = False
        kind: Any = nn.Module
        self._own = own = kind.__call__

        @functools.wraps(own)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            # What was compiled meanwhile goes on calling this, and is called by a module that is no longer seen.
            if self._has_ended or torch.compiler.is_compiling():
                return own(module, *args, **kwargs)
            if not self._depth:
                self._called(module, torch.is_grad_enabled() and is_trained(module))
            self._depth += 1
            try:
                return own(module, *args, **kwargs)
            finally:
                self._depth -= 1

        kind.__call__ = call

    def end(self) -> None:
        """Tell no more."""
        self._has_ended = True
        kind: Any = nn.Module
        kind.__call__ = self._own


def is_trained(module: nn.Module) -> bool:
    """Whether it is in training mode and some of its parameters take gradients."""
    return module.training and any(parameter.requires_grad for parameter in module.parameters())
