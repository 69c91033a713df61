"""How much work a step is: floating-point operations, bytes, and which module they belong to."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from autoaccel.records.profile import ModuleTime
from autoaccel.runtime.accelerator import synchronize
from autoaccel.runtime.batches import tensors_of
from autoaccel.runtime.datasets import bytes_of
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.sparse import bytes_of_tensor
from autoaccel.runtime.tracing import group_of

_MAX_STEPS = 3
_MAX_SECONDS = 1.0


class _Moved(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Counts the bytes that operators read and write, if nothing stays in a cache between two of them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.bytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None
    ) -> Any:
        outputs = function(*arguments, **(keywords or {}))
        if not _makes_a_view(function):
            for tensor in tensors_of([arguments, keywords, outputs]):
                self.bytes += bytes_of_tensor(tensor)
        return outputs


def _makes_a_view(function: Any) -> bool:
    aliases = [returned.alias_info for returned in function._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def count_work(loop: Inspectable, batch: Any) -> tuple[dict[str, int], int]:
    """Return a step's floating-point operations by group of operators, and the bytes that its operators move.

    The plain model is run, operator by operator; no parameter changes.
    """
    batch = loop.applied.batch(batch)
    counter = FlopCounterMode(display=False)
    moved = _Moved()
    # What anomaly mode checks and records is no work of the step's own.
    with counter, moved, torch.autograd.set_detect_anomaly(False), loop.applied.forward():
        loss = loop.loss(loop.plain_model, batch)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    loop.applied.zero_grad(loop.optimizer)
    groups: defaultdict[str, int] = defaultdict(int)
    for operator, flops in counter.get_flop_counts().get("Global", {}).items():
        groups[group_of(str(operator).replace(".", "::"))] += int(flops)
    return dict(groups), moved.bytes


def min_bytes(loop: Inspectable, batch: Any) -> int:
    """Return the bytes that a step has to move whatever its operators are.

    Parameters are read forward and backward and changed, gradients are written and read, the optimizer's state is read
    and written, the batch is read.
    """
    parameters = [parameter for parameter in loop.plain_model.parameters() if parameter.requires_grad]
    weights = sum(parameter.element_size() * parameter.numel() for parameter in parameters)
    state = sum(
        value.element_size() * value.numel()
        for values in loop.optimizer.state.values()
        for value in values.values()
        if isinstance(value, torch.Tensor)
    )
    return 4 * weights + 2 * weights + 2 * state + bytes_of(batch)


class _ModuleTimer:
    """Adds up how long the forward passes of modules take, by their names."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.seconds_in_children: defaultdict[str, float] = defaultdict(float)
        self.calls: defaultdict[str, int] = defaultdict(int)
        self._device = device
        self._began: list[tuple[str, float, float]] = []  # name, start, seconds inside its children

    def entering(self, name: str) -> Callable[[nn.Module, Any], None]:
        """Return the hook that is called before a module of this name."""
        return lambda module, inputs: self._began.append((name, self._now(), 0.0))

    def leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        """Note that the module which was entered last is left."""
        name, start, in_children = self._began.pop()
        seconds = self._now() - start
        self.seconds[name] += seconds
        self.seconds_in_children[name] += in_children
        self.calls[name] += 1
        if self._began:
            parent, parent_start, others = self._began.pop()
            self._began.append((parent, parent_start, others + seconds))

    def _now(self) -> float:
        synchronize(self._device)
        return time.perf_counter()


def time_modules(loop: Inspectable, step_seconds: float) -> tuple[ModuleTime, ...]:
    """Return how long each module's forward pass takes; none of a compiled model, whose modules are no longer apart."""
    if loop.applied.compiles:
        return ()
    modules = dict(loop.plain_model.named_modules())
    timer = _ModuleTimer(loop.device)
    steps = min(_MAX_STEPS, max(1, int(_MAX_SECONDS / step_seconds)))
    hooks = [module.register_forward_pre_hook(timer.entering(name)) for name, module in modules.items()]
    hooks += [module.register_forward_hook(timer.leave) for module in modules.values()]
    try:
        for _ in range(steps):
            loop.step()
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(
        ModuleTime(
            name,
            type(module).__name__,
            timer.seconds[name] / steps,
            (timer.seconds[name] - timer.seconds_in_children[name]) / steps,
            timer.calls[name] / steps,
        )
        for name, module in modules.items()
        if timer.calls[name]
    )
