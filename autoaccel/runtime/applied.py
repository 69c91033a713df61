"""Applied: settings brought to bear on a training, whoever runs its loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import nn

from autoaccel.records.settings import Value
from autoaccel.runtime.knobs import effects_of
from autoaccel.runtime.knobs.effect import IneffectiveError


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], batch: Any) -> Any:
    """Return the batch with the function applied to each tensor in its tuples, lists and dicts."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(function, value) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(function, value) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(map_tensors(function, value) for value in batch)
    return batch


class Applied:
    """Settings brought to bear on a training. The methods stand in the order in which a training needs them.

        applied = autoaccel.apply("recipe.json")
        loader = DataLoader(dataset, batch_size=64, **applied.loader_arguments())
        model = applied.model(model)
        optimizer = applied.optimizer(optimizer)
        for batch in loader:
            inputs, target = applied.batch(batch)
            with applied.forward():
                loss = loss_function(model(inputs), target)
            applied.backward(loss)
            applied.step(optimizer)

    Making one changes the process (its thread count).
    """

    def __init__(self, settings: Mapping[str, Value], device: str | torch.device = "cpu") -> None:
        self.settings = dict(settings)
        self.device = torch.device(device)
        self._effects = effects_of(settings, self.device.type)
        for effect in self._effects.values():
            effect.process()

    @property
    def compiles(self) -> bool:
        """Whether the model will be compiled, so that a new shape of batch is expensive."""
        return self.settings.get("compile.mode", "off") != "off"

    def loader_arguments(self) -> dict[str, Any]:
        """Return keyword arguments for a torch DataLoader."""
        arguments: dict[str, Any] = {}
        for effect in self._effects.values():
            arguments = effect.loader_arguments(arguments)
        return arguments

    def model(self, model: nn.Module) -> nn.Module:
        """Return the module to call in training. It shares its parameters with `model`: evaluate and save that one."""
        for effect in self._effects.values():
            model = effect.model(model)
        return model

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Return the optimizer to use; make schedulers from this one."""
        for effect in self._effects.values():
            optimizer = effect.optimizer(optimizer)
        return optimizer

    def batch(self, batch: Any) -> Any:
        """Return the batch on the device and in the layout that the model should get."""

        def place(tensor: torch.Tensor) -> torch.Tensor:
            tensor = tensor.to(self.device, non_blocking=True)
            for effect in self._effects.values():
                tensor = effect.batch(tensor)
            return tensor

        return map_tensors(place, batch)

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context for the forward pass and the loss."""
        stack = ExitStack()
        for effect in self._effects.values():
            stack.enter_context(effect.forward())
        return stack

    def backward(self, loss: torch.Tensor) -> None:
        """Run the backward pass."""
        for effect in self._effects.values():
            loss = effect.scale(loss)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Update the parameters and clear their gradients."""
        if not any(effect.step(optimizer) for effect in self._effects.values()):
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def check(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return, after the first steps, what shows that each knob took effect, and which did nothing and why."""
        learned, ineffective = {}, {}
        for name, effect in self._effects.items():
            try:
                if shown := effect.check():
                    learned[name] = shown
            except IneffectiveError as error:
                ineffective[name] = str(error)
        return learned, ineffective
