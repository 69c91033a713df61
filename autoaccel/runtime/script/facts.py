"""What was seen of a script, as data."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from autoaccel.records.script import LoaderKey, SeenLoader, SeenModel, SeenOptimizer
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.workload import TrainingFacts
from autoaccel.runtime.datasets import LoadingFacts, look_at_samples
from autoaccel.runtime.knobs import found_in, found_settings
from autoaccel.runtime.knobs.forms import has_form
from autoaccel.runtime.loaders import context_name
from autoaccel.runtime.modules import count_parameters, normalises_batches, repeated_blocks
from autoaccel.runtime.script.numbering import length_of, ranks_now
from autoaccel.runtime.script.planned import assumed_steps, planned_rounds
from autoaccel.runtime.script.rounds import steps_in
from autoaccel.runtime.script.seen import Seen
from autoaccel.runtime.sparse import makes_sparse_gradients

METRIC = "training loss"
_UNSEEN = "no sample was loaded twice, because this training is not thrown away"


def script_facts(seen: Seen) -> ScriptFacts:
    """Return what was seen of a script, as data."""
    loaders = tuple(_loader(seen, key, loader) for key, loader in seen.loaders.items())
    length = _length(seen)
    planned, planned_from = planned_steps(seen)
    per_epoch = None if length is None else max(1, _steps_of(seen, length, 1))
    updated = _updated(seen)
    return ScriptFacts(
        models=tuple(
            SeenModel(
                _name(root),
                count_parameters(root),
                _count(root, updated),
                seen.origins.where(_own(root)),
                seen.held_as.get(id(root)),
            )
            for root in _models(seen, updated)
        ),
        optimizers=tuple(
            SeenOptimizer(type(one).__name__, _count_updated(one), seen.origins.where(one)) for one in seen.optimizers
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
        evaluations=seen.evaluations,
        seen_seconds=seen.seen_seconds,
        other_seconds=seen.other_seconds,
        growth=seen.growth,
        others=seen.others,
        updates_itself=seen.updates_itself,
        ranks=ranks_now(),
        calls_models=bool(seen.roots),
    )


def training_facts(seen: Seen, script: ScriptFacts, may_load: bool = True) -> TrainingFacts:
    """Return the same in the terms of any training.

    Args:
        seen: Of the script.
        script: What was seen, as data.
        may_load: Whether samples may be loaded to look at them, in a process whose training is thrown away.
    """
    loader = script.loader
    own = next((found for key, found in seen.loaders.items() if loader and key == loader.key), None)
    steps = script.planned_steps or assumed_steps(script.steps_per_epoch, script.step_seconds)
    per_epoch = min(steps, script.steps_per_epoch or steps)
    batch = loader.key.batch_size if loader else None
    look = look_at_samples(own) if own is not None and may_load else LoadingFacts(None, "" if may_load else _UNSEEN)
    bound = seen.loading_bound.get(loader.key, "") if loader else ""
    blocks = [repeated_blocks(root) for root in seen.roots]
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
        optimizer_has_fused=all(has_form(one, "fused") for one in seen.optimizers)
        and not any(map(makes_sparse_gradients, seen.roots)),
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
        loading_matters=look.why_loading_matters,
        loading_redraws=look.only_redraws,
        loading_bound=bound or look.why_bound,
        parameter_tensors=len({id(one) for root in seen.roots for one in root.parameters()}),
        repeated_blocks=max(map(len, blocks), default=0),
        blocks_normalise_batches=any(
            normalises_batches(getattr(parent, name)) for found in blocks for parent, name in found
        ),
        has_batch_statistics=any(normalises_batches(root) for root in seen.roots),
        found={**found_settings(seen.device), **found_in(seen.optimizer), **_found_in_loader(loader)},
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


def models_held(seen: Seen) -> dict[int, tuple[str, ...] | None]:
    """Return which variables hold each model, by its id. To be called within the user's code."""
    return {id(one): seen.origins.held_as(_own(one), one) for one in _models(seen, _updated(seen))}


def planned_steps(seen: Seen) -> tuple[int | None, str]:
    """Return how many steps a training makes, and what that was read from.

    From a trainer that says it, else from the loops around all that makes up a step.
    """
    length = _length(seen)
    if plan := seen.plans[seen.period[0]]:
        return plan
    around = [list(reversed(seen.loops[number])) for number in sorted(set(seen.period))]
    loops = [same[0] for same in itertools.takewhile(lambda same: len(set(same)) == 1, zip(*around, strict=False))]
    loops = [loop._replace(rounds=length, length=length) if loop.makes_loader else loop for loop in loops]
    if len(seen.period) > 1 and len(loops) > 1 and loops[-1].rounds == len(seen.period):
        loops = loops[:-1]  # it is over the optimizers of a step
    rounds = planned_rounds(loops)
    words = ", ".join(loop.words for loop in loops if loop.rounds is not None)
    if rounds is None:
        return None, ""
    # The innermost loop may be one over batches, of which a step takes several.
    batches = loops[-1].rounds
    if batches is None or length is None or loops[-1].length != length or loops[-1].counts_updates:
        if loops[-1].counts_updates:
            return rounds, words
        steps, seen_of_it = steps_in(rounds, loops, seen.rounds, seen.start, len(seen.period))
        return steps, words + seen_of_it
    return max(1, _steps_of(seen, batches, rounds // batches)), words


def _length(seen: Seen) -> int | None:
    """Return the batches of an epoch; None where no loader of a length feeds the training, or several do."""
    lengths = [length_of(loader) for key, loader in seen.loaders.items() if seen.feeds(key)]
    return lengths[0] if len(lengths) == 1 else None


def _steps_of(seen: Seen, batches: int, epochs: int) -> int:
    """Return how many steps epochs of so many batches are.

    Where a step takes several of them, and some are left, the end of an epoch that was seen tells what becomes of them,
    else what the source says of it.
    """
    together = seen.batches_a_step
    if seen.rest == "carried":
        return epochs * batches // together
    said = any(loop.updates_at_end for loop in seen.loops[seen.period[0]])
    is_step = seen.rest == "step" if seen.rest else said
    return epochs * (math.ceil(batches / together) if is_step else batches // together)


def _loader(seen: Seen, key: LoaderKey, loader: DataLoader[Any]) -> SeenLoader:
    fixed = "its data is a stream, which workers either divide among themselves or repeat"
    return SeenLoader(
        key=key,
        where=seen.origins.where(loader),
        batches=length_of(loader),
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
    if seen.accumulated > 1:
        found.append(f"accumulates the gradients of {seen.accumulated} backward passes")
    return (*found, *seen.does)


def _name(module: nn.Module) -> str:
    return type(_own(module)).__name__


def _own(module: nn.Module) -> nn.Module:
    """Return the module that torch.compile() was given."""
    found: nn.Module = getattr(module, "_orig_mod", module)
    return found


def _updated(seen: Seen) -> set[int]:
    """Return the ids of the parameters that a step updates."""
    groups = itertools.chain(*(seen.optimizers[number].param_groups for number in set(seen.period)))
    return {id(parameter) for group in groups for parameter in group["params"]}


def _models(seen: Seen, updated: set[int]) -> list[nn.Module]:
    """Return the modules that the script calls to train them; if that was not seen, those that it updates."""
    called = _outermost([_held(seen, root) for root in seen.roots if _count(root, updated)])
    if called:
        return _with_wholes(seen, called)
    holding = [module for module in seen.origins.all(nn.Module) if _count(module, updated)]
    inner = {id(child) for module in holding for child in module.children()}
    outer = [module for module in holding if id(module) not in inner]
    # A package may keep the parameters of all layers at the model, and the layers where no children() are.
    held = {id(module): {id(one) for one in module.parameters()} for module in outer}
    return [module for module in outer if not any(held[id(module)] < held[id(other)] for other in outer)]


def _held(seen: Seen, root: nn.Module) -> nn.Module:
    """Return the model that a trainer holds, where what is called is a loss around it; else what is called."""
    held = seen.held[seen.period[0]]
    return held if held is not None and any(module is held for module in root.modules()) else root


def _outermost(modules: list[nn.Module]) -> list[nn.Module]:
    """Return those that are no part of another one: a part may be called alone, as to find out what it returns."""
    inner = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in {id(one): one for one in modules}.values() if id(module) not in inner]


def _with_wholes(seen: Seen, called: list[nn.Module]) -> list[nn.Module]:
    """Return modules that are called, where a model stands for parts of it that are called one by one.

    It does if a single optimizer updates these parts: those of a generator and its discriminator are two models.
    """
    for number in sorted(set(seen.period)):
        updated = {id(one) for group in seen.optimizers[number].param_groups for one in group["params"]}
        parts = [module for module in called if _count(module, updated)]
        if len(parts) < 2 or (whole := _smallest_holding(seen, parts, updated)) is None:
            continue
        called = [module for module in called if not any(module is part for part in parts)] + [whole]
    return called


def _smallest_holding(seen: Seen, parts: list[nn.Module], updated: set[int]) -> nn.Module | None:
    """Return the smallest model that these are parts of, and that has all parameters of an optimizer."""
    found: list[tuple[int, nn.Module]] = []
    for module in seen.origins.all(nn.Module):
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)):  # which nobody calls
            continue
        inner = {id(one) for one in module.modules()}
        if all(id(part) in inner for part in parts) and updated <= {id(one) for one in module.parameters()}:
            found.append((len(inner), module))
    return min(found, key=lambda one: one[0], default=(0, None))[1]


def _has(seen: Seen, *kinds: type[nn.Module]) -> bool:
    return any(isinstance(module, kinds) for root in seen.roots for module in root.modules())


def _count(module: nn.Module, updated: set[int]) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if id(parameter) in updated)


def _count_updated(optimizer: torch.optim.Optimizer) -> int:
    return sum(parameter.numel() for group in optimizer.param_groups for parameter in group["params"])
