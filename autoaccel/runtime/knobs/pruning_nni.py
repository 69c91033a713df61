"""Pruning by NNI 3.0 (archived): its pruners mask channels, its ModelSpeedup removes them.

Three of its assumptions about torch no longer hold; they are set right here, from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodDescriptorType
from typing import Any

import torch
from torch import fx, nn

from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.knobs.inspecting import LossOf, undisturbed
from autoaccel.runtime.knobs.removal import Removal
from autoaccel.runtime.modules import layers


def prune(model: nn.Module, loss_of: LossOf, removal: Removal) -> nn.Module:
    """Return the model with `removal.share` of the outputs of its convolutions and linear layers removed.

    See `pruning_torch.prune` for the arguments.

    Raises:
        IneffectiveError: If nothing could be removed so that the model still runs.
    """
    _set_right()
    from nni.compression.pruning import L1NormPruner, L2NormPruner
    from nni.compression.speedup import ModelSpeedup

    names = [name for name, module in model.named_modules() if layers(module) == [module] and name not in removal.kept]
    if not names:
        raise IneffectiveError("no layer of the model may shrink")
    inputs = _first_inputs(model, loss_of)
    of_norm = L1NormPruner if removal.norm == 1 else L2NormPruner
    pruner = of_norm(model, [{"op_names": names, "sparse_ratio": removal.share}])
    _, masks = pruner.compress()
    pruner.unwrap_model()
    try:
        with undisturbed(model):
            ModelSpeedup(model, inputs, masks).speedup_model()
            with torch.no_grad():
                loss_of(model)  # around attention it removes what is still needed, and does not notice
    except Exception as error:  # of its tracer, of torch.fx or of shapes that no longer fit
        raise IneffectiveError(f"NNI could not remove channels of this model: {error}") from error
    return model.train()  # its tracer leaves submodules in either mode


def _first_inputs(model: nn.Module, loss_of: LossOf) -> tuple[torch.Tensor, ...]:
    """Return what the model is called with."""
    seen: list[tuple[Any, ...]] = []
    hook = model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    try:
        with undisturbed(model), torch.no_grad():
            loss_of(model)
    finally:
        hook.remove()
    return tuple(tensor.detach() for tensor in seen[0])


def _set_right() -> None:
    """Make NNI's tracer work with the torch that is here. Twice does no more than once."""
    from nni.common.concrete_trace_utils import concrete_tracer

    # torch.fx passes a second argument since 2.6. Its code tells, not its signature: that is copied from torch's.
    check = concrete_tracer.node_is_impure_wrapper
    if check.__code__.co_argcount == 1:
        concrete_tracer.node_is_impure_wrapper = _taking_more(check)
    # torch's functions write `list[int]` while NNI has something of its own in the place of `list`.
    create = concrete_tracer._create_wrapped_leaf_iterable_class
    if create.__name__ != _subscriptable.__name__:
        concrete_tracer._create_wrapped_leaf_iterable_class = _subscriptable(create)
    # The class of tensors' methods has lost its underscore, by which NNI knows where to wrap them.
    methods = concrete_tracer.ConcreteTracer.default_autowrap_leaf_function
    for function, (places, is_forced, instead) in list(methods.items()):
        if not function.__qualname__.startswith("TensorBase."):
            continue
        if isinstance(function, MethodDescriptorType):
            here = (torch.Tensor, function.__name__)
            methods[function] = ([*(place for place in places if place != here), here], is_forced, instead)
        else:
            del methods[function]  # a static one, which no model calls


def _subscriptable(create: Callable[[Any, type], Any]) -> Callable[[Any, type], Any]:
    """Return a maker of stand-ins for builtin classes that can be subscripted as these can."""

    def made(tracer: Any, builtin: Any) -> Any:
        stand_in = create(tracer, builtin)
        type(stand_in).__getitem__ = lambda self, item: builtin[item]
        return stand_in

    made.__name__ = _subscriptable.__name__
    return made


def _taking_more(check: Callable[[fx.Node], bool]) -> Callable[..., bool]:
    """Return a check that ignores whether random operators count as impure."""

    def wrapped(node: fx.Node, impure_random: bool = True) -> bool:
        return check(node)

    return wrapped
