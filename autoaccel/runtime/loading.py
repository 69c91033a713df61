"""Find the user's build() and call it; tell their code's failures from ours."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import msgspec
import torch
from torch.nn.modules.conv import _ConvNd

from autoaccel.errors import BadRequestError
from autoaccel.records.workload import PickledFunction, TrainingFacts, TrainingFunction
from autoaccel.runtime.applied import Applied
from autoaccel.runtime.data import count_steps, divides_batches, train_loader
from autoaccel.runtime.datasets import LoadingFacts, look_at_samples, why_bound
from autoaccel.runtime.knobs.forms import has_form
from autoaccel.runtime.loaders import context_name, why_not_rebuildable
from autoaccel.runtime.loop import device_of
from autoaccel.runtime.modules import (
    before_norm,
    count_parameters,
    layers,
    normalises_batches,
    repeated_blocks,
    with_bias,
)
from autoaccel.runtime.randomness import seed_all
from autoaccel.runtime.sparse import makes_sparse_gradients
from autoaccel.runtime.training import Training, check_training, is_dataset
from autoaccel.runtime.vision import watch_for_torchvision

_HOME = str(Path(__file__).parents[1])


def load_build(workload: TrainingFunction) -> Callable[[], Any]:
    """Run the user's file and return its entry.

    Raises:
        BadRequestError: If the file has no such function.
        BaseException: Whatever the file raises.
    """
    watch_for_torchvision()
    path = Path(workload.path)
    sys.argv = [workload.path, *workload.arguments]
    # First, as Python itself puts a script's folder; torch and autoaccel are loaded already, so a json.py of the
    # user's shadows nothing of theirs.
    sys.path.insert(0, str(path.parent))
    if isinstance(workload, PickledFunction):
        unpickled: Callable[[], Any] = pickle.loads(path.read_bytes())  # written by this user's own program
        return unpickled
    # Under its own name, so that loader workers started by spawning can import its classes again.
    name = (
        path.stem if path.stem not in sys.modules else f"_workload_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    )
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadRequestError("must be a Python file (.py).")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    build: Callable[[], Any] | None = getattr(module, workload.entry, None)
    if not callable(build):
        functions = [found for found, value in vars(module).items() if callable(value) and not found.startswith("_")]
        offered = f"It has {', '.join(functions[:8])}; name one as {path.name}:NAME." if functions else ""
        raise BadRequestError(f"must define a function {workload.entry}(). {offered}".rstrip())
    return build


def build_training(build: Callable[[], Any], workload: TrainingFunction, seed: int) -> Training:
    """Call build() with all generators seeded, and seed them again for what follows: ranks must build the same.

    Raises:
        BadRequestError: If it returns anything but a Training.
        BaseException: Whatever it raises.
    """
    seed_all(seed)
    training = check_training(build(), workload.part)
    seed_all(seed)
    return training


def describe(training: Training) -> TrainingFacts:
    """Return what a Training is, as data."""
    loader = train_loader(training, Applied({}), seed=0)
    torch_loader = loader if isinstance(loader, torch.utils.data.DataLoader) else None
    bound = why_bound(torch_loader) if torch_loader is not None else ""  # before anything is loaded
    look = look_at_samples(torch_loader) if torch_loader is not None else LoadingFacts(None, "")
    model = training.model.train()
    blocks = repeated_blocks(model)
    optimizer = _make_optimizer(training)
    facts = TrainingFacts(
        metric=training.metric.name,
        direction=training.metric.direction,
        epochs=training.epochs,
        steps_per_epoch=count_steps(training, loader),
        batch_size=training.batch_size or (torch_loader.batch_size if torch_loader is not None else None),
        parameters=count_parameters(model),
        device=str(device_of(training)),
        settings=dict(training.settings),
        optimizer=type(optimizer).__name__,
        optimizer_has_fused=has_form(optimizer, "fused") and not makes_sparse_gradients(model),
        optimizer_has_foreach=has_form(optimizer, "foreach"),
        has_image_convolutions=any(
            isinstance(module, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)) for module in model.modules()
        ),
        has_convolutions=any(isinstance(module, _ConvNd) for module in model.modules()),
        loader_adjustable=False,
        loader_workers=0,
        loader_pins_memory=False,
        batches_divisible=divides_batches(loader),
        batch_adjustable=_has_batches_of_any_size(training),
        dataset_bytes=look.bytes_if_cached,
        loading_matters=look.why_loading_matters,
        loading_redraws=look.only_redraws,
        loading_bound=bound or look.why_bound,
        repeated_blocks=len(blocks),
        blocks_normalise_batches=any(normalises_batches(getattr(parent, name)) for parent, name in blocks),
        has_batch_statistics=normalises_batches(model),
        biases=len(with_bias(model)),
        biases_before_norm=len(before_norm(model)),
        prunable_layers=len(layers(model)),
        parameter_tensors=sum(1 for _ in model.parameters()),
        dtype=_most_common_dtype(model),
        eval_samples=_count_samples(training.eval_data),
    )
    return facts if torch_loader is None else _with_loader(facts, torch_loader)


def _make_optimizer(training: Training) -> torch.optim.Optimizer:
    """Return the training's optimizer.

    Raises:
        BadRequestError: If its steps take more than one gradient.
    """
    optimizer = training.make_optimizer(training.model)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise BadRequestError(
            "Training: optimizer must make a step from one gradient, got LBFGS. Choose another, such as Adam."
        )
    return optimizer


def _with_loader(facts: TrainingFacts, loader: torch.utils.data.DataLoader[Any]) -> TrainingFacts:
    """Return the facts with those of the loader of training batches."""
    fixed = why_not_rebuildable(loader)
    return msgspec.structs.replace(
        facts,
        loader_adjustable=not fixed,
        loader_fixed=fixed,
        loader_workers=loader.num_workers,
        loader_pins_memory=loader.pin_memory,
        loader_prefetch=loader.prefetch_factor or 2,
        loader_persistent=loader.persistent_workers,
        loader_context=context_name(loader),
    )


def _count_samples(data: Any) -> int | None:
    """Return how many samples a dataset has; None where only iterating over it would tell."""
    try:
        return len(data) if is_dataset(data) else None
    except TypeError:
        return None


def _most_common_dtype(model: torch.nn.Module) -> str:
    numbers: Counter[str] = Counter()
    for parameter in model.parameters():
        numbers[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    return numbers.most_common(1)[0][0] if numbers else "float32"


def _has_batches_of_any_size(training: Training) -> bool:
    """Whether batches are cut from a dataset, so that their size decides on nothing but the number of steps."""
    data = training.train_data
    streamed = isinstance(data, torch.utils.data.IterableDataset)
    return is_dataset(data) and not streamed and training.steps_per_epoch is None


_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))


class Imports:
    """Watches what is imported from now on, in a process with a short life: its audit hook cannot be removed."""

    def __init__(self) -> None:
        self._before = set(sys.modules)
        self._user_changes_environment = False
        sys.addaudithook(self._watch)

    def since(self) -> tuple[str, ...]:
        """Return the installed modules that were imported since, in order.

        Empty if the user's own code changed the environment: without that change they might be imported otherwise.
        """
        if self._user_changes_environment:
            return ()
        return tuple(
            name
            for name, module in sys.modules.items()
            if name not in self._before
            and (spec := getattr(module, "__spec__", None)) is not None
            and str(spec.origin).startswith(_INSTALLED)
            and spec.name == name
        )

    def _watch(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in ("os.putenv", "os.unsetenv"):
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(("<frozen", os.__file__)):
            frame = frame.f_back  # in os itself
        if frame is not None and not frame.f_code.co_filename.startswith(_INSTALLED):
            self._user_changes_environment = True


def user_traceback(error: BaseException) -> str:
    """Return the traceback without autoaccel's own frames above the user's code."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None and _is_ours(trace.tb_frame):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith((_HOME, "<frozen importlib", "<string>"))
