"""The phases of a script's steps, told by hooks of torch around what begins and ends them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from autoaccel.records.script import LoaderKey
from autoaccel.runtime.script.numbering import key_of


class PhaseHooks:
    """Tells of the end of each phase, in this process and the thread that trains, for as long as it lives.

    What lies between two phases, such as logging, is "other".
    """

    def __init__(self, tell: Callable[[str], None], feeds: frozenset[LoaderKey], loss_is_apart: bool) -> None:
        """Begin to tell.

        Args:
            tell: Called with the phase that has just ended.
            feeds: Loaders whose batches are trained on.
            loss_is_apart: Whether models will tell of their forward passes; else these are told as part of the loss.
        """
        self.loader: DataLoader[Any] | None = None
        """That feeds the training, as far as it was drawn from."""
        self.batch: Any = None
        """The last one, else what a model was called with while gradients were recorded."""
        self._tell = tell
        self._feeds = feeds
        self._owner = os.getpid(), threading.get_ident()
        self._depth = 0  # of models inside of each other
        self._loss_is_apart = loss_is_apart
        self._computes_loss = False  # a forward pass is over, and no gradients were computed since
        self._hear_loaders()
        self._around(torch.autograd, "backward", lambda: "loss", "backward")
        for holder in (torch.optim.Optimizer, nn.Module):  # many clear gradients between the loss and backward()
            self._around(holder, "zero_grad", self._before_clearing, "zero grad")
        register_optimizer_step_pre_hook(lambda *_: self._ended("other"))
        register_optimizer_step_post_hook(lambda *_: self._ended("optimizer"))

    def hear_models(self, models: Sequence[nn.Module], look: Callable[[nn.Module, Any], None]) -> None:
        """Tell of the forward passes of these models as well, none of which is compiled.

        Args:
            models: That the script calls.
            look: Called before each.
        """

        def begins(model: nn.Module, args: Any) -> None:
            look(model, args)
            if self.loader is None and args and torch.is_grad_enabled():
                self.batch = args
            if not self._depth:
                self._ended("other")
            self._depth += 1

        def ends(model: nn.Module, args: Any, outputs: Any) -> None:
            self._depth = max(0, self._depth - 1)
            if not self._depth:
                self._ended("forward")
                self._computes_loss = torch.is_grad_enabled()

        for model in models:
            model.register_forward_pre_hook(begins)
            model.register_forward_hook(ends, always_call=True)

    def _ended(self, phase: str) -> None:
        if (os.getpid(), threading.get_ident()) == self._owner:
            self._tell(phase)
            self._computes_loss = self._computes_loss and phase != "backward"

    def _before_clearing(self) -> str:
        return "loss" if self._computes_loss or not self._loss_is_apart else "other"

    def _around(self, holder: Any, name: str, before: Callable[[], str], after: str) -> None:
        own = getattr(holder, name)

        @functools.wraps(own)
        def told(*args: Any, **kwargs: Any) -> Any:
            self._ended(before())
            result = own(*args, **kwargs)
            self._ended(after)
            return result

        setattr(holder, name, told)

    def _hear_loaders(self) -> None:
        iterators: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        begins, draws = DataLoader.__iter__, iterators.__next__
        feeding: set[int] = set()  # ids of iterators

        @functools.wraps(begins)
        def begun(loader: DataLoader[Any]) -> Any:
            self._ended("other")
            iterator = begins(loader)
            if key_of(loader) in self._feeds:
                self.loader = loader
                feeding.add(id(iterator))
            self._ended("data wait")  # its workers are started
            return iterator

        @functools.wraps(draws)
        def drawn(iterator: Any) -> Any:
            self._ended("other")
            batch = draws(iterator)
            if id(iterator) in feeding:
                self.batch = batch
            self._ended("data wait")
            return batch

        DataLoader.__iter__, iterators.__next__ = begun, drawn  # type: ignore[method-assign]  # replaced for the profile
