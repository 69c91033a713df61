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

    def told(method: Callable[..., None], first: int | None = None) -> Callable[..., None]:
        """Return what calls a method with the first of what it is itself called with, or all; in this process alone."""

        def tell(*args: Any, **kwargs: Any) -> None:
            if os.getpid() == process:
                try:
                    method(*args[:first], **kwargs)
                except TrainingOverError:
                    raise
                except BaseException as error:
                    failed(error)

        return tell

    def skipped(optimizer: torch.optim.Optimizer) -> None:
        events.update_begins(optimizer)
        events.update_ended(optimizer)

    def backward_begins(tensors: Any, *_: Any, **__: Any) -> None:
        if events.own_updates is not None:
            events.own_updates.gradients_begin(True)
        events.backward_begins(own_loss(_first(tensors)))

    def differentiates(*_: Any, **__: Any) -> None:
        if torch._C._current_graph_task_id() != -1:
            return  # it is part of a backward pass, as where the adjoint of an equation is solved
        if events.own_updates is not None:
            events.own_updates.gradients_begin(False)
        events.differentiates()

    with ExitStack() as ends:
        ends.callback(register_optimizer_step_pre_hook(told(events.update_begins, 1)).remove)
        ends.callback(register_optimizer_step_post_hook(told(events.update_ended, 1)).remove)
        _hear_skipped_updates(told(skipped), ends)
        own_loss = _before_scaling(ends)
        ends.callback(before(torch.autograd, "backward", told(backward_begins)))
        ends.callback(before(torch.autograd, "grad", told(differentiates)))  # torch.func calls it, too
        ends.callback(before(DataLoader, "__iter__", told(events.loader_begins)))
        ends.callback(before(torch, "save", told(lambda *_, **__: events.saves())))
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

    ends.callback(put(kind, "step", step))


def _before_scaling(ends: ExitStack) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what gives the loss that a GradScaler was given, where it is asked about what that has made of it.

    The scale changes, at other steps under other settings.
    """
    kind: Any = torch.amp.GradScaler
    own = kind.scale
    scaled: tuple[weakref.ref[torch.Tensor], torch.Tensor] | None = None  # the last one; detached: it holds no graph

    @functools.wraps(own)
    def scale(scaler: Any, outputs: Any) -> Any:
        nonlocal scaled
        result = own(scaler, outputs)
        if isinstance(outputs, torch.Tensor):
            scaled = weakref.ref(result), outputs.detach()
        return result

    def before_it(tensor: torch.Tensor) -> torch.Tensor:
        return scaled[1] if scaled is not None and scaled[0]() is tensor else tensor

    ends.callback(put(kind, "scale", scale))
    return before_it


def before(holder: Any, name: str, call: Callable[..., Any]) -> Callable[[], None]:
    """Call a function with the same arguments before each call of an attribute; return what ends that."""
    own = getattr(holder, name)

    @functools.wraps(own)
    def both(*args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        return own(*args, **kwargs)

    return put(holder, name, both)


def put(holder: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Put a function in place of an attribute; return what puts that back, unless somebody has replaced it since."""
    own = getattr(holder, name)
    setattr(holder, name, function)

    def put_back() -> None:
        if getattr(holder, name) is function:
            setattr(holder, name, own)

    return put_back


def _first(tensors: Any) -> torch.Tensor:
    found: torch.Tensor = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors))
    return found


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
            # Within the computation of gradients it is called again, part by part: by activation checkpointing.
            if not self._depth and torch._C._current_graph_task_id() == -1:
                self._called(module, torch.is_grad_enabled() and is_trained(module))
            self._depth += 1
            try:
                return own(module, *args, **kwargs)
            finally:
                self._depth -= 1

        call.told_to = self  # type: ignore[attr-defined]  # marks it as ours
        kind.__call__ = call

    def end(self) -> None:
        """Tell no more; what has begun to tell since goes on."""
        self._has_ended = True
        kind: Any = nn.Module
        while (last := getattr(kind.__call__, "told_to", None)) is not None and last._has_ended:
            kind.__call__ = last._own


def is_trained(module: nn.Module) -> bool:
    """Whether it is in training mode and some of its parameters take gradients."""
    return module.training and any(parameter.requires_grad for parameter in module.parameters())
