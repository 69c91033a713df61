"""Pruning by torch-pruning (Fang et al., DepGraph, CVPR 2023), which finds out what must shrink together."""

from __future__ import annotations

import copy

import torch
import torch_pruning
from torch import nn

from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.knobs.inspecting import LossOf, undisturbed
from autoaccel.runtime.knobs.removal import Removal
from autoaccel.runtime.modules import layers


def prune(model: nn.Module, loss_of: LossOf, removal: Removal) -> nn.Module:
    """Return the model with about `removal.share` of each layer's outputs removed.

    Where the model itself relies on a layer's width (attention heads, views), only layers of which nothing but the next
    layer sees the outputs shrink.

    Args:
        model: It is changed; of no use if this raises.
        loss_of: Returns its loss on a batch.
        removal: Which outputs, and how many.

    Raises:
        IneffectiveError: If nothing could be removed so that the model still runs.
    """
    untouched = copy.deepcopy(model)
    everywhere = _attempt(model, loss_of, removal)
    if everywhere is not None:
        return everywhere
    hidden = {id(layer) for layer in _hidden_layers(untouched)}
    exposed = {
        name for name, module in untouched.named_modules() if layers(module) == [module] and id(module) not in hidden
    }
    inside = _attempt(untouched, loss_of, removal._replace(kept=removal.kept | exposed))
    if inside is None:
        raise IneffectiveError("torch-pruning removed channels that the model relies on")
    return inside


def _attempt(model: nn.Module, loss_of: LossOf, removal: Removal) -> nn.Module | None:
    """Return the pruned model, or None if it no longer runs."""
    shared = _shared_parameters(model)
    ignored = [
        module
        for name, module in model.named_modules()
        if name in removal.kept or isinstance(module, (nn.Embedding, nn.MultiheadAttention)) or id(module) in shared
    ]
    try:
        with undisturbed(model):
            pruner = torch_pruning.pruner.BasePruner(
                model,
                example_inputs=torch.zeros(1),  # loss_of has the batch
                importance=torch_pruning.importance.GroupMagnitudeImportance(p=removal.norm),
                pruning_ratio=removal.share,
                ignored_layers=ignored,
                forward_fn=lambda network, _: loss_of(network),
            )
            pruner.step()
            model.zero_grad()
        with undisturbed(model):
            loss_of(copy.deepcopy(model).train()).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    except (RuntimeError, ValueError, IndexError, AssertionError):
        return None  # shapes that no longer fit
    return model


def _shared_parameters(model: nn.Module) -> set[int]:
    """Return the ids of the modules that share a parameter with another, such as tied embeddings."""
    owners: dict[int, list[int]] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), []).append(id(module))
    return {module for modules in owners.values() if len(modules) > 1 for module in modules}


def _hidden_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers that stand in an nn.Sequential before another layer: nothing else sees their outputs."""
    found = []
    for sequence in (module for module in model.modules() if isinstance(module, nn.Sequential)):
        inside = [child for child in sequence.children() if layers(child) == [child]]
        found.extend(inside[:-1])
    return found
