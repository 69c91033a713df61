"""What a model is made of: blocks that repeat, biases, layers that could be smaller; and a copy that shares weights."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import fx, nn

_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class Shadow:
    """A tree of modules of its own that shares parameters and buffers with a model, and in `followed` all else."""

    def __init__(self, model: nn.Module) -> None:
        """Make the tree; its modules may be replaced by others, and their `forward`."""
        self._twins: dict[nn.Module, _Twin] = {}
        self.model = self._twin_of(model)
        vars(self.model)["_shadow"] = self  # lives as long as its model

    def _twin_of(self, module: nn.Module) -> nn.Module:
        if module not in self._twins:
            self._twins[module] = _Twin(module)
            self._twins[module].follow_children(self._twin_of)
        return self._twins[module].twin

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Call the model within: it has what its original has got since, modes too, and gives back what changes."""
        for twin in list(self._twins.values()):
            twin.share_attributes()
            twin.follow_children(self._twin_of)
        try:
            yield
        finally:
            for twin in self._twins.values():
                twin.share_attributes()


class _Twin:
    """A module of a shadow."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._children: dict[str, nn.Module | None] = {}  # that the module had
        self.twin = copy.copy(module)
        self.twin._modules = {}
        self._before = dict(vars(self.twin))

    def share_attributes(self) -> None:
        """Give the module what has changed of the twin, in its backward pass too; and the twin what the module has."""
        here, there, before = vars(self.twin), vars(self._module), self._before
        changed = {name: value for name, value in here.items() if value is not before.get(name, before)}
        own = {name: here[name] for name in _OWN_OF_EACH if name in here}
        there.update((name, value) for name, value in changed.items() if name not in own)
        here.update(there)
        for name in _OWN_OF_EACH:
            here.pop(name, None)
        here.update(own)
        self._before = dict(here)

    def follow_children(self, twin_of: Callable[[nn.Module], nn.Module]) -> None:
        """Have twins of the module's children; those that it has got since are as plain as they are."""
        now = self._module._modules
        if now == self._children:
            return
        for name in self._children.keys() - now.keys():
            del self.twin._modules[name]
        for name, child in now.items():
            if name not in self._children or child is not self._children[name]:
                self.twin._modules[name] = None if child is None else twin_of(child)
        self._children = dict(now)


@contextmanager
def followed(shadows: Iterable[Shadow]) -> Iterator[None]:
    """Call models within that are shadows of others."""
    with ExitStack() as stack:
        for shadow in list(shadows):
            stack.enter_context(shadow.followed())
        yield


_OWN_OF_EACH = "_modules", "forward", "_compiled_call_impl", "_shadow"
"""Attributes that a module and its twin do not share."""


def repeated_blocks(model: nn.Module) -> list[tuple[nn.Module, str]]:
    """Return where blocks of one class stand beside each other, as (parent, name); the outermost, none inside another.

    A block is a module with children of its own and parameters, such as a transformer's layer; single operators that
    repeat are none.
    """
    found: list[tuple[nn.Module, str]] = []
    for name, child in model.named_children():
        kinds = Counter(type(sibling) for sibling in model.children() if _is_block(sibling))
        if _is_block(child) and kinds[type(child)] >= 2:
            found.append((model, name))
        else:
            found.extend(repeated_blocks(child))
    return found


def _is_block(module: nn.Module) -> bool:
    container = isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
    return not container and any(True for _ in module.children()) and any(True for _ in module.parameters())


def normalises_batches(model: nn.Module) -> bool:
    """Whether batch normalisation is anywhere in the model."""
    return any(isinstance(module, _NORMS) for module in model.modules())


def layers(model: nn.Module) -> list[nn.Module]:
    """Return the convolutions and linear layers."""
    return [module for module in model.modules() if isinstance(module, _LAYERS)]


def with_bias(model: nn.Module) -> list[nn.Module]:
    """Return the convolutions and linear layers that have a bias."""
    return [layer for layer in layers(model) if isinstance(layer.bias, nn.Parameter)]


def before_norm(model: nn.Module) -> list[nn.Module]:
    """Return the layers whose bias batch normalisation subtracts again: nothing else sees their output.

    Known where the model can be traced symbolically; else only inside nn.Sequential.
    """
    candidates = {id(layer) for layer in with_bias(model)}
    if not candidates or not normalises_batches(model):
        return []
    try:
        found = _before_norm_by_trace(model)
    except Exception:  # control flow that depends on data, whatever else a tracer cannot follow
        found = _before_norm_by_position(model)
    return [layer for layer in found if id(layer) in candidates]


def _before_norm_by_trace(model: nn.Module) -> list[nn.Module]:
    modules = dict(model.named_modules())
    graph = fx.symbolic_trace(model).graph
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    found = []
    for node in graph.nodes:
        if node.op != "call_module" or calls[node.target] > 1:
            continue
        users = list(node.users)
        if len(users) == 1 and users[0].op == "call_module" and _normalises(modules[str(users[0].target)]):
            found.append(modules[str(node.target)])
    return found


def _before_norm_by_position(model: nn.Module) -> list[nn.Module]:
    sequences = [list(module.children()) for module in model.modules() if isinstance(module, nn.Sequential)]
    pairs = (pair for children in sequences for pair in itertools.pairwise(children))
    return [first for first, second in pairs if _normalises(second)]


def _normalises(module: nn.Module) -> bool:
    # In evaluation mode forever, it subtracts a mean that knows nothing of the bias.
    return isinstance(module, _NORMS) and module.training


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers are trained."""
    return sum(parameter.numel() for parameter in model.parameters())


def take_shapes(model: nn.Module, state: dict[str, torch.Tensor]) -> nn.Module:
    """Return the model with its layers made as large as a state dict says, and its weights loaded.

    Raises:
        RuntimeError: If the state dict is not of this model, whatever the sizes.
    """
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        for kind in (module._parameters, module._buffers):
            for key, tensor in kind.items():
                stored = state.get(prefix + key)
                if tensor is None or stored is None or tensor.shape == stored.shape:
                    continue
                fresh = torch.empty_like(stored, device=tensor.device, dtype=tensor.dtype)
                is_parameter = isinstance(tensor, nn.Parameter)
                kind[key] = nn.Parameter(fresh, tensor.requires_grad) if is_parameter else fresh
        _follow_sizes(module)
    model.load_state_dict(state)
    return model


def _follow_sizes(module: nn.Module) -> None:
    """Set the sizes that a layer remembers to those of its weight."""
    weight = module._parameters.get("weight")
    if weight is None:
        return
    if isinstance(module, nn.Linear):
        module.out_features, module.in_features = weight.shape
    elif isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        depthwise = module.groups > 1 and module.groups == module.in_channels
        module.groups = weight.shape[0] if depthwise else module.groups
        module.out_channels, module.in_channels = weight.shape[0], weight.shape[1] * module.groups
    elif isinstance(module, _NORMS):
        module.num_features = weight.shape[0]
    elif isinstance(module, nn.LayerNorm):
        module.normalized_shape = tuple(weight.shape)
