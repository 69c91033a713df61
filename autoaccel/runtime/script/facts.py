"""What was seen of a script, as data."""

from __future__ import annotations

import collections
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from autoaccel.errors import BadRequestError
from autoaccel.records.script import LoaderKey, ScriptFacts, SeenLoader, SeenModel, SeenOptimizer
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.datasets import look_at_samples
from autoaccel.runtime.knobs import found_in, found_settings
from autoaccel.runtime.knobs.optimizers import has_form
from autoaccel.runtime.loaders import context_name
from autoaccel.runtime.modules import count_parameters, normalises_batches, repeated_blocks
from autoaccel.runtime.script.planned import EnclosingLoop, planned_rounds

METRIC = "training loss"
_ASSUMED_EPOCHS = 10  # where the planned length cannot be read,
_ASSUMED_STEPS = 1000  # nor how long an epoch is


class Seen:
    """What an observer has seen, torch's own objects included."""

    def __init__(self) -> None:
        self.roots: list[nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.loaders: dict[LoaderKey, DataLoader[Any]] = {}
        self.where: dict[int, str] = {}  # by id: where it was constructed
        self.draws: collections.Counter[LoaderKey] = collections.Counter()  # batches
        self.gaps: collections.Counter[LoaderKey] = collections.Counter()  # updates before which batches were drawn
        self.autocast: set[str] = set()
        self.does: list[str] = []
        self.loops: list[EnclosingLoop] = []
        self.compiles = False
        self.has_loss = False
        self.period: tuple[int, ...] = ()
        self.updates = 0
        self.backwards = 0
        self.step_seconds = 0.0

    @property
    def steps(self) -> int:
        """Whole steps that were seen."""
        return max(1, self.updates // len(self.period))

    @property
    def device(self) -> torch.device:
        """Where the parameters lie that are updated."""
        found: torch.device = self.optimizers[0].param_groups[0]["params"][0].device
        return found

    def feeds(self, key: LoaderKey) -> bool:
        """Whether a loader's batches are trained on: it was drawn from before most steps."""
        return self.gaps[key] > self.steps / 2

    @property
    def batches_a_step(self) -> int:
        """How many batches of the loader that feeds it a step takes: more than one are accumulated."""
        return max(1, round(max((self.draws[key] for key in self.loaders if self.feeds(key)), default=0) / self.steps))

    def no_period(self, updates: int) -> BadRequestError:
        """Return the error that there are no steps: the updates do not repeat."""
        return BadRequestError(
            f"the order in which its {len(self.optimizers)} optimizers make updates does not repeat within {updates} "
            "updates, so it is unclear what a step is. Name a file whose build() returns a Training."
        )


def script_facts(seen: Seen) -> ScriptFacts:
    """Return what was seen of a script, as data."""
    loaders = tuple(_loader(seen, key, loader) for key, loader in seen.loaders.items())
    lengths = [loader.batches for loader in loaders if loader.feeds]
    length = lengths[0] if len(lengths) == 1 else None
    per_epoch = None if length is None else max(1, length // seen.batches_a_step)
    planned, planned_from = _planned(seen, per_epoch)
    return ScriptFacts(
        models=tuple(
            SeenModel(_name(root), count_parameters(root), _count_trained(root), seen.where.get(id(root), ""))
            for root in seen.roots
        ),
        optimizers=tuple(
            SeenOptimizer(type(one).__name__, _count_updated(one), seen.where.get(id(one), ""))
            for one in seen.optimizers
        ),
        loaders=loaders,
        cycle=seen.period,
        device=str(seen.device),
        step_seconds=seen.step_seconds,
        steps_seen=seen.steps,
        steps_per_epoch=per_epoch,
        planned_steps=planned,
        planned_from=planned_from,
        has_loss=seen.has_loss,
        backwards=max(1, round(seen.backwards / seen.steps)),
        does=_does(seen),
    )


def training_facts(seen: Seen, script: ScriptFacts) -> TrainingFacts:
    """Return the same in the terms of any training."""
    loader, optimizer = script.loader, seen.optimizers[0]
    own = next((found for key, found in seen.loaders.items() if loader and key == loader.key), None)
    steps = script.planned_steps or (script.steps_per_epoch or _ASSUMED_STEPS // _ASSUMED_EPOCHS) * _ASSUMED_EPOCHS
    per_epoch = min(steps, script.steps_per_epoch or steps)
    batch = loader.key.batch_size if loader else None
    return TrainingFacts(
        metric=METRIC,
        direction="minimize",
        epochs=max(1, round(steps / per_epoch)),
        steps_per_epoch=per_epoch,
        batch_size=batch * seen.batches_a_step if batch else None,
        parameters=sum(model.parameters for model in script.models),
        device=script.device,
        settings={},
        optimizer=", ".join(one.kind for one in script.optimizers),
        optimizer_has_fused=all(has_form(one, "fused") for one in seen.optimizers),
        optimizer_has_foreach=all(has_form(one, "foreach") for one in seen.optimizers),
        has_image_convolutions=_has(seen, nn.Conv2d, nn.ConvTranspose2d),
        has_convolutions=_has(seen, nn.Conv1d, nn.Conv2d, nn.Conv3d),
        loader_adjustable=loader is not None and not loader.fixed,
        loader_workers=loader.workers if loader else 0,
        loader_pins_memory=loader.pins_memory if loader else False,
        loader_fixed=loader.fixed if loader else "",
        loader_prefetch=loader.prefetch if loader else 2,
        loader_persistent=loader.persistent if loader else False,
        loader_context=loader.context if loader else "",
        loading_matters=look_at_samples(own).why_loading_matters if own is not None else "",
        repeated_blocks=max((len(repeated_blocks(root)) for root in seen.roots), default=0),
        has_batch_statistics=any(normalises_batches(root) for root in seen.roots),
        found={**found_settings(seen.device), **found_in(optimizer), **_found_in_loader(loader)},
        own_autocast=" and ".join(sorted(seen.autocast)),
        script=script,
    )


def _found_in_loader(loader: SeenLoader | None) -> Settings:
    """Return what the script has told the loader that feeds it: no such value is to be changed."""
    if loader is None:
        return {}
    found: Settings = {"loader.workers": loader.workers, "loader.pin_memory": loader.pins_memory}
    if not loader.workers:
        return found
    of_workers: Settings = {"loader.prefetch": loader.prefetch, "loader.persistent": loader.persistent}
    return {**found, **of_workers, "loader.context": loader.context}


def _planned(seen: Seen, per_epoch: int | None) -> tuple[int | None, str]:
    rounds = planned_rounds(seen.loops)
    words = ", ".join(loop.words for loop in reversed(seen.loops) if loop.rounds is not None)
    if rounds is None:
        return None, ""
    # The innermost loop may be one over batches, of which a step takes several.
    is_over_batches = seen.batches_a_step > 1 and per_epoch is not None
    return max(1, rounds // seen.batches_a_step if is_over_batches else rounds), words


def _loader(seen: Seen, key: LoaderKey, loader: DataLoader[Any]) -> SeenLoader:
    try:
        batches = len(loader)
    except TypeError:
        batches = None
    fixed = "its data is a stream, which workers either divide among themselves or repeat"
    return SeenLoader(
        key=key,
        where=seen.where.get(id(loader), ""),
        batches=batches,
        feeds=seen.feeds(key),
        workers=loader.num_workers,
        pins_memory=loader.pin_memory,
        prefetch=loader.prefetch_factor or 2,
        persistent=loader.persistent_workers,
        context=context_name(loader),
        fixed=fixed if isinstance(loader.dataset, IterableDataset) else "",
    )


def _does(seen: Seen) -> tuple[str, ...]:
    found = [f"autocast to {name}" for name in sorted(seen.autocast)]
    modules = [module for root in seen.roots for module in root.modules()]
    if seen.compiles or any(type(module).__name__ == "OptimizedModule" for module in modules):
        found.append("torch.compile")
    if any(isinstance(module, nn.parallel.DistributedDataParallel) for module in modules):
        found.append("DistributedDataParallel")
    if seen.batches_a_step > 1:
        found.append(f"accumulates the gradients of {seen.batches_a_step} batches")
    return (*found, *seen.does)


def _name(module: nn.Module) -> str:
    own = getattr(module, "_orig_mod", module)
    return type(own).__name__


def _has(seen: Seen, *kinds: type[nn.Module]) -> bool:
    return any(isinstance(module, kinds) for root in seen.roots for module in root.modules())


def _count_trained(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _count_updated(optimizer: torch.optim.Optimizer) -> int:
    return sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
