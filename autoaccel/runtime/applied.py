"""Applied: settings applied to a training, whoever runs its loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch import nn

from autoaccel.errors import BadRequestError
from autoaccel.records.messages import ModelSize
from autoaccel.records.settings import Value
from autoaccel.runtime.batches import map_tensors
from autoaccel.runtime.knobs import effects_of, optimizer_arguments
from autoaccel.runtime.knobs.effect import Effect, IneffectiveError
from autoaccel.runtime.learning_rates import scale_rates
from autoaccel.runtime.modules import take_shapes


class Applied:
    """Settings applied to a training. The methods stand in the order in which a training needs them.

        applied = autoaccel.apply("recipe.json")
        loader = DataLoader(applied.dataset(dataset), applied.batch_size(64), **applied.loader_arguments())
        model = applied.model(model)
        optimizer = applied.optimizer(optimizer)
        for batch in applied.prefetch(loader):
            inputs, target = applied.batch(batch)
            with applied.forward():
                loss = loss_function(model(inputs), target)
            applied.backward(loss)
            if applied.unscale(optimizer):  # only if you clip gradients, or look at them
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            applied.step(optimizer)

    Making one changes the process (its thread count, say) where that has other values than the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, Value],
        device: str | torch.device = "cpu",
        found: Mapping[str, Value] | None = None,
    ) -> None:
        """Apply the settings to this process.

        Args:
            settings: All of them.
            device: That the training runs on.
            found: What the user's own code makes of its process; None: what this process has now. Settings that equal
                these are neither written nor checked.
        """
        self.settings = dict(settings)
        self.device = torch.device(device)
        self._effects = tuple(effects_of(settings, self.device, found).values())
        self.parts = math.prod(effect.parts() for effect in self._effects)
        """How many batches, each with its backward pass, make one step."""
        self._passes = 0
        self._non_blocking = any(effect.non_blocking() for effect in self._effects)
        for effect in self._effects:
            effect.process()

    def insist(self) -> None:
        """Change the process once more, where the user's own code has set something else since."""
        for effect in self._effects:
            if (found := effect.found(self.device)) is not None and found != effect.value:
                effect.process()

    @property
    def compiles(self) -> bool:
        """Whether the model will be compiled, so that a new shape of batch is expensive."""
        return any(effect.compiles() for effect in self._effects)

    @property
    def copies_ahead(self) -> bool:
        """Whether a batch is fetched before the step on the one before it is over."""
        return any(effect.copies_ahead() for effect in self._effects)

    def dataset(self, dataset: Any) -> Any:
        """Return the dataset to load from."""
        for effect in self._effects:
            dataset = effect.dataset(dataset)
        return dataset

    @property
    def batch_factor(self) -> float:
        """Samples of one step, over those of a step of the training's own."""
        return math.prod((effect.batch_factor() for effect in self._effects), start=1.0)

    def step_samples(self, own: int) -> int:
        """Return the samples of a step, all its batches on all ranks, where the training's own step has so many.

        Raises:
            BadRequestError: If that is no whole number, at least 1.
        """
        samples = own * self.batch_factor
        if samples < 0.5 or abs(samples - round(samples)) > 1e-6:
            names = " and ".join(effect.name for effect in self._effects if not effect.batch_factor().is_integer())
            raise BadRequestError(
                f"{names} must give a whole number of samples, got {samples:g} "
                f"({self.batch_factor:g} times {own}). Choose another factor."
            )
        return round(samples)

    def batch_size(self, own: int) -> int:
        """Return the samples of a batch to load, where the training's own batch has so many.

        Under several ranks it is what all of them load together, each its share.

        Raises:
            BadRequestError: If a step's samples cannot be loaded in equal batches.
        """
        samples = self.step_samples(own)
        if samples % self.parts:
            names = " and ".join(effect.name for effect in self._effects if effect.parts() > 1)
            raise BadRequestError(
                f"{names} must divide the {samples} samples of a step, got {self.parts}. Choose a batch size that "
                "it divides, or train with `autoaccel run`, which weights unequal parts."
            )
        return samples // self.parts

    def loader_arguments(self, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return keyword arguments for a torch DataLoader; `own` are those that you would give it otherwise."""
        arguments = dict(own or {})
        for effect in self._effects:
            arguments = effect.loader_arguments(arguments)
        return arguments

    def model(self, model: nn.Module) -> nn.Module:
        """Return the module to call in training. It shares its parameters with `model`: evaluate and save that one."""
        for effect in self._effects:
            model = effect.model(model)
        return model

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Return the optimizer to use, the same object where its settings can be changed in place.

        Make schedulers from the one returned.
        """
        for effect in self._effects:
            optimizer = effect.optimizer(optimizer)
        # Their product, at once: of two that scale the rates for a step the second would keep what the first had made.
        factor = math.prod(effect.rate_factor() for effect in self._effects)
        if factor != 1.0:
            scale_rates(optimizer, factor)
        return optimizer

    def load_optimizer_state_dict(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Resume an optimizer from what its `state_dict` has returned, under these settings or others.

        Arguments of its groups that settings decide on, such as `fused`, stay as these settings have made them.
        """
        decided = optimizer_arguments()
        kept = [{name: group[name] for name in group if name in decided} for group in optimizer.param_groups]
        optimizer.load_state_dict(state)
        for group, arguments in zip(optimizer.param_groups, kept, strict=True):
            group.update(arguments)

    @property
    def shrinks_after(self) -> int | None:
        """After how many epochs the model is to be made smaller; None: never."""
        found = [epochs for effect in self._effects if (epochs := effect.shrinks_after()) is not None]
        return max(found, default=None)

    def shrink(
        self, model: nn.Module, loss_of: Callable[[nn.Module], torch.Tensor]
    ) -> tuple[nn.Module, ModelSize | None]:
        """Return a smaller model in place of this plain one, and what that changed.

        Call it once `shrinks_after` epochs are trained; then call `model` and `optimizer` again, for the new one.

        Args:
            model: As trained so far.
            loss_of: Returns the loss of a model on a batch.
        """
        size: ModelSize | None = None
        for effect in self._effects:
            if (smaller := effect.shrink(model, loss_of)) is not None:
                model, size = smaller
        return model, size

    def restore(self, model: nn.Module, state: dict[str, torch.Tensor]) -> nn.Module:
        """Return a freshly built plain model with the weights of a state dict, made as small as these are.

        Raises:
            RuntimeError: If the state dict is not of this model, whatever the sizes.
        """
        for effect in self._effects:
            model = effect.restore(model)
        return take_shapes(model, state)

    @property
    def changing_calls(self) -> list[str]:
        """The names of the settings under which calling the model in training is another thing than it was."""
        own = (Effect.model, Effect.forward, Effect.batch)
        return [
            effect.name
            for effect in self._effects
            if not effect.is_off and (type(effect).model, type(effect).forward, type(effect).batch) != own
        ]

    def arranged(self, inputs: Any) -> Any:
        """Return inputs of the model in the layout that it should get; they stay on their device, and keep their class.

        What `batch` does besides moving them.
        """

        def arrange(tensor: torch.Tensor) -> torch.Tensor:
            for effect in self._effects:
                tensor = effect.batch(tensor)
            return tensor

        return map_tensors(arrange, inputs)

    def prefetch(self, batches: Any) -> Iterator[Any]:
        """Return an iterator over the batches, which may already be copied to the device."""
        found: Iterator[Any] = iter(batches)
        for effect in self._effects:
            found = effect.prefetch(found, self.batch)
        return found

    def batch(self, batch: Any) -> Any:
        """Return the batch on the device and in the layout that the model should get; it keeps its class.

        Its tensors lie in tuples, lists, mappings and dataclasses; any other object is moved by its own `.to()`, if it
        has one.
        """

        def place(tensor: torch.Tensor) -> torch.Tensor:
            tensor = tensor.to(self.device, non_blocking=self._non_blocking)
            for effect in self._effects:
                tensor = effect.batch(tensor)
            return tensor

        def move(thing: Any) -> Any:
            return thing.to(self.device, non_blocking=True) if self._non_blocking else thing.to(self.device)

        return map_tensors(place, batch, move)

    def forward(self) -> AbstractContextManager[Any]:
        """Return the context for the forward pass and the loss."""
        stack = ExitStack()
        for effect in self._effects:
            stack.enter_context(effect.forward())
        return stack

    def backward(self, loss: torch.Tensor) -> None:
        """Run the backward pass."""
        self._passes += 1
        for effect in self._effects:
            loss = effect.scale(loss)
        if self.parts > 1:
            loss = loss / self.parts
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @property
    def is_accumulating(self) -> bool:
        """Whether the gradients so far are only a part of the step's: more backward passes make it up."""
        return self._passes % self.parts != 0

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Update the parameters and clear their gradients; return False if more backward passes make up this step."""
        updated = self.update(optimizer)
        if updated:
            self.zero_grad(optimizer)
        return updated

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Make the gradients those of the loss itself; return False if more backward passes make up this step.

        Call it before you look at gradients or change them. After False leave them alone: they are only a part.
        """
        if self.is_accumulating:
            return False
        for effect in self._effects:
            effect.unscale(optimizer)
        return True

    def update(self, optimizer: torch.optim.Optimizer) -> bool:
        """Update the parameters; return False if more backward passes make up this step."""
        if not self.unscale(optimizer):
            return False
        if not any(effect.step(optimizer) for effect in self._effects):
            optimizer.step()
        return True

    def zero_grad(self, optimizer: torch.optim.Optimizer) -> None:
        """Clear the gradients."""
        if not any(effect.zero_grad(optimizer) for effect in self._effects):
            optimizer.zero_grad(set_to_none=True)

    def check(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return, after some steps, what shows that each knob took effect, and which did nothing and why."""
        learned, ineffective = {}, {}
        for effect in self._effects:
            try:
                if shown := effect.check():
                    learned[effect.name] = shown
            except IneffectiveError as error:
                ineffective[effect.name] = str(error)
        return learned, ineffective

    def state_dict(self) -> dict[str, Any]:
        """Return what the settings have learned from the steps so far, such as float16's scale, for a checkpoint."""
        return {effect.name: state for effect in self._effects if (state := effect.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from what `state_dict` has returned, under these settings or others."""
        for effect in self._effects:
            effect.load_state_dict(state.get(effect.name, {}))
