"""torch.compile of the model and of the optimizer's update."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from autoaccel.runtime.accelerator import cuda_graphs
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.modules import Shadow, followed, repeated_blocks

_DYNAMIC = {"auto": None, "on": True, "off": False}


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _has_stopped() -> bool:
    """Whether torch compiles nothing anew any more, so that steps run without it. Dynamo tells it in words alone."""
    from torch._dynamo.utils import counters

    # "cache_size_limit reached" in torch 2.6, "Dynamo recompile limit exceeded ..." later.
    reasons = [reason for reason in counters["unimplemented"] if "limit" in reason]
    return any("reached" in reason or "exceeded" in reason for reason in reasons)


def _check_limit() -> None:
    """Raise an error if torch has stopped compiling.

    Raises:
        IneffectiveError: If it did.
    """
    if _has_stopped():
        raise IneffectiveError(
            f"torch.compile has reached its limit of compilations after {_graphs()} graphs, and anything new runs "
            "without it; compile.dynamic=on may need fewer"
        )


class Compile(Effect):
    """Compile the model; the module given stays as it is, so evaluation needs no compilation of its own."""

    compiled_blocks = 0

    def begin(self) -> None:
        self._shadows: weakref.WeakSet[Shadow] = weakref.WeakSet()

    def compiles(self) -> bool:
        return not self.is_off

    @property
    def arguments(self) -> dict[str, Any]:
        """What torch.compile is told."""
        backend = str(self.settings.get("compile.backend", "inductor"))
        arguments: dict[str, Any] = {
            "backend": backend,
            "dynamic": _DYNAMIC[str(self.settings.get("compile.dynamic", "auto"))],
            "fullgraph": bool(self.settings.get("compile.fullgraph", False)),
        }
        # A mode is Inductor's own word for some of its options; other backends refuse it.
        return {**arguments, "mode": str(self.value)} if backend == "inductor" else arguments

    def model(self, model: nn.Module) -> nn.Module:
        if self.is_off:
            return model
        if self.settings.get("compile.region", "model") == "blocks":
            shadow = Shadow(model)
            for parent, name in repeated_blocks(shadow.model):
                # Of each block the same code: dynamo compiles a class's forward once for all blocks of equal shapes.
                setattr(parent, name, torch.compile(getattr(parent, name), **self.arguments))
                self.compiled_blocks += 1
            self._shadows.add(shadow)
            return shadow.model
        # Not model.compile(): that captures nothing, silently, where the class is one of torch.nn's own.
        compiled: nn.Module = torch.compile(model, **self.arguments)  # type: ignore[assignment]  # declared a function
        return compiled

    def forward(self) -> AbstractContextManager[Any]:
        return followed(self._shadows)

    def check(self) -> str:
        if self.is_off:
            return ""
        from torch._dynamo.utils import counters

        graphs = _graphs()
        if not graphs:
            raise IneffectiveError("torch.compile captured no graph; the step may not call the model itself")
        if self.settings.get("compile.region") == "blocks" and not self.compiled_blocks:
            raise IneffectiveError("the model has no repeated blocks")
        _check_limit()
        blocks = f" from {self.compiled_blocks} blocks" if self.compiled_blocks else ""
        if self.value not in ("reduce-overhead", "max-autotune"):
            return f"{graphs} graphs compiled{blocks}"
        skips = counters["inductor"]["cudagraph_skips"]
        # On a CPU every graph is skipped, and torch before 2.7 does not count that.
        if (skips or self.device.type != "cuda") and not cuda_graphs(self.device):
            raise IneffectiveError("CUDA graphs were skipped; torch's log says why")
        if not skips:
            return f"{graphs} graphs compiled{blocks}"
        return f"{graphs} graphs compiled{blocks}, of which {skips} are not CUDA graphs"


class CompileOptimizer(Effect):
    """Compile the optimizer's step."""

    compiled: Callable[[], Any] | None = None
    graphs = 0

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if not self.is_off:
            _rates_as_tensors(optimizer)
            optimizer.register_load_state_dict_post_hook(_rates_as_tensors)
            optimizer.register_state_dict_post_hook(_save_rates_as_numbers, prepend=True)
            self.compiled = torch.compile(optimizer.step, fullgraph=False)
        return optimizer

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.compiled is None:
            return False
        before = _graphs() if not self.graphs else 0
        self.compiled()
        if not self.graphs:
            self.graphs = _graphs() - before
        return True

    def check(self) -> str:
        if self.is_off:
            return ""
        if not self.graphs:
            raise IneffectiveError("torch.compile captured no graph of the optimizer's step")
        _check_limit()
        return f"{self.graphs} graphs of the optimizer's step compiled"


def _rates_as_tensors(optimizer: torch.optim.Optimizer) -> None:
    """Let learning rates be tensors: as numbers a scheduler's every change of them would compile anew."""
    for group in optimizer.param_groups:
        group["lr"] = torch.as_tensor(group["lr"])


def _save_rates_as_numbers(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Let a checkpoint have learning rates as its user has them: some forms of an update refuse tensors."""
    for group in saved["param_groups"]:
        for name in ("lr", "initial_lr"):
            if isinstance(group.get(name), torch.Tensor):
                group[name] = float(group[name])
