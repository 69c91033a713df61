"""Pruning by NNI 3.0 (archived): its pruners mask channels, its ModelSpeedup removes them.

Two of its assumptions about torch.fx no longer hold; both are set right here, from outside.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn

from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.knobs.pruning import Run, undisturbed
from autoaccel.runtime.modules import layers


def prune(model: nn.Module, run: Run, sparsity: float, norm: int, kept: Sequence[str]) -> nn.Module:
    """Return the model with this share of the outputs of its convolutions and linear layers removed.

    See `pruning_torch.prune` for the arguments.

    Raises:
        IneffectiveError: If nothing could be removed so that the model still runs.
    """
    _set_right()
    from nni.compression.pruning import L1NormPruner, L2NormPruner
    from nni.compression.speedup import ModelSpeedup

    names = [name for name, module in model.named_modules() if layers(module) == [module] and name not in kept]
    if not names:
        raise IneffectiveError("no layer of the model may shrink")
    inputs = _first_inputs(model, run)
    pruner = (L1NormPruner if norm == 1 else L2NormPruner)(model, [{"op_names": names, "sparse_ratio": sparsity}])
    _, masks = pruner.compress()
    pruner.unwrap_model()
    try:
        with undisturbed(model):
            ModelSpeedup(model, inputs, masks).speedup_model()
    except Exception as error:  # of its tracer, of torch.fx or of shapes that no longer fit
        raise IneffectiveError(f"NNI could not remove channels of this model: {error}") from error
    return model.train()  # its tracer leaves submodules in either mode


def _first_inputs(model: nn.Module, run: Run) -> tuple[torch.Tensor, ...]:
    """Return what the model is called with."""
    seen: list[tuple[Any, ...]] = []
    hook = model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    try:
        with undisturbed(model), torch.no_grad():
            run(model)
    finally:
        hook.remove()
    return tuple(tensor.detach() for tensor in seen[0])


def _set_right() -> None:
    """Make NNI's tracer work with the torch that is here. Twice does no more than once."""
    from nni.common.concrete_trace_utils import concrete_tracer, utils

    for holder in (concrete_tracer, utils):
        for name, value in list(vars(holder).items()):
            if name == "node_is_impure_wrapper" and len(inspect.signature(value).parameters) == 1:
                setattr(holder, name, _taking_more(value))
    _name_tensor_methods()


def _taking_more(check: Callable[[fx.Node], bool]) -> Callable[..., bool]:
    """Return a check that ignores what torch.fx passes since 2.6: whether random operators count as impure."""

    def wrapped(node: fx.Node, impure_random: bool = True) -> bool:
        return check(node)

    return wrapped


def _name_tensor_methods() -> None:
    """Give the methods of tensors the module by which NNI looks them up."""
    for name in ("__module__",):
        base = torch._C.TensorBase
        if getattr(base, name, None) is None:
            setattr(base, name, "torch._C")
