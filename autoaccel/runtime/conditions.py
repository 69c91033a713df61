"""Facts about the process that trains, gathered after some steps and before it is looked at more closely."""

from __future__ import annotations

import datetime
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader

from autoaccel.records.conditions import Loader, Model, Optimizer, TrainingConditions
from autoaccel.records.environment import SLOWING_VARIABLES, written_value
from autoaccel.runtime.accelerator import gpu_uuids
from autoaccel.runtime.batches import count_samples, tensors_of
from autoaccel.runtime.datasets import bytes_of
from autoaccel.runtime.knobs.precision import Float32Matmul, FlushDenormals
from autoaccel.runtime.modules import layers
from autoaccel.runtime.paced import Inspectable
from autoaccel.runtime.sparse import stored

_EVEN = 8  # sizes that tensor cores and AMX tiles take without padding: multiples of 8 in float16 and bfloat16


class ModelCallState:
    """What is switched on while the model is called: users switch it on for a step alone, too."""

    def __init__(self, device: torch.device) -> None:
        """Look at the process as it is now."""
        self.anomaly_mode = torch.is_anomaly_enabled()
        self.deterministic = torch.are_deterministic_algorithms_enabled()
        self.autocast = self.gradients = self.profiled = False
        self._device = device.type

    def look(self, module: nn.Module, inputs: Any) -> None:
        """Look again; a hook before a model's forward pass."""
        self.anomaly_mode |= torch.is_anomaly_enabled()
        self.deterministic |= torch.are_deterministic_algorithms_enabled()
        self.autocast |= torch.is_autocast_enabled(self._device)
        self.gradients |= torch.is_grad_enabled()
        self.profiled |= torch._C._autograd._profiler_enabled()


def gather_conditions(loop: Inspectable) -> TrainingConditions:
    """Return the conditions of a loop that has made some steps; it makes one more."""
    profilers = profilers_on()
    seen = ModelCallState(loop.device)
    hook = None if loop.applied.compiles else loop.plain_model.register_forward_pre_hook(seen.look)
    try:
        loop.step()
    finally:
        if hook is not None:
            hook.remove()
    if hook is None:
        seen.gradients = True
    batch = loop.next_batch()
    return conditions_of(
        seen, profilers, Parts(loop.device, loop.plain_model, loop.optimizer, loop.loader, batch, count_samples(batch))
    )


class Parts(NamedTuple):
    """What a training consists of."""

    device: torch.device
    model: nn.Module
    optimizer: torch.optim.Optimizer
    loader: Any
    batch: Any
    batch_samples: float


def conditions_of(seen: ModelCallState, profilers: Sequence[str], parts: Parts) -> TrainingConditions:
    """Return the conditions of a training that has made some steps.

    Args:
        seen: While its model was called.
        profilers: That were on between two steps.
        parts: Of the training.
    """
    dtypes = {_short(tensor.dtype) for tensor in tensors_of(parts.batch)}
    return TrainingConditions(
        date=datetime.date.today().isoformat(),
        environment={name: written_value(name) for name in SLOWING_VARIABLES if name in os.environ},
        batch_samples=parts.batch_samples,
        batch_bytes=bytes_of(parts.batch),
        batch_dtypes=tuple(sorted(dtypes)),
        device=parts.device.type,
        threads=torch.get_num_threads(),
        torch_version=str(torch.__version__),
        anomaly_mode=seen.anomaly_mode,
        deterministic=seen.deterministic,
        fills_memory=torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]  # set by a property
        profilers=(*profilers, *(["torch.profiler"] if seen.profiled else [])),
        autocast=seen.autocast,
        flushes_denormals=FlushDenormals.found(parts.device),
        gradients=seen.gradients,
        float32_matmul=Float32Matmul.found(parts.device),
        cuda_available=bool(gpu_uuids()),
        model=_describe_model(parts.model),
        optimizer=_describe_optimizer(parts.optimizer),
        loader=_describe_loader(parts.loader),
    )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def profilers_on() -> list[str]:
    """Return the profilers that are on."""
    found = {
        "sys.setprofile": sys.getprofile() is not None,
        "sys.settrace": sys.gettrace() is not None,
        "tracemalloc": tracemalloc.is_tracing(),
        "torch.profiler": torch._C._autograd._profiler_enabled(),
    }
    return [name for name, is_on in found.items() if is_on]


def _describe_model(model: nn.Module) -> Model:
    parameters = list(model.parameters())
    whole = sum(parameter.numel() for parameter in parameters) or 1
    dtypes: Counter[str] = Counter()
    for parameter in parameters:
        dtypes[_short(parameter.dtype)] += parameter.numel()
    dense = [layer.weight for layer in layers(model) if isinstance(layer.weight, torch.Tensor)]
    convolutions = [weight for weight in dense if weight.dim() == 4]
    odd = sum(weight.numel() for weight in dense if any(size % _EVEN for size in weight.shape[:2]))
    graph_breaks, graphs = _graph_breaks()
    return Model(
        dtypes={name: count / whole for name, count in dtypes.items()},
        has_data_parallel=any(isinstance(module, nn.DataParallel) for module in model.modules()),
        channels_last=any(
            weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()
            for weight in convolutions
        ),
        convolution_share=sum(weight.numel() for weight in convolutions) / whole,
        odd_share=odd / whole,
        denormal_share=_denormal_share(parameters),
        parameter_tensors=len(parameters),
        graph_breaks=graph_breaks,
        graphs=graphs,
    )


def _denormal_share(parameters: list[nn.Parameter]) -> float:
    """Return which share of parameters and gradients lies between zero and the smallest normal number."""
    found = total = 0
    with torch.no_grad():
        for parameter in parameters:
            for tensor in (parameter, parameter.grad):
                if tensor is None or not tensor.dtype.is_floating_point:
                    continue
                size = stored(tensor.detach()).abs()
                # With denormals flushed, comparing with zero finds none of them: then they cost nothing either.
                found += int(((size > 0) & (size < torch.finfo(tensor.dtype).smallest_normal)).sum())
                total += tensor.numel()
    return found / total if total else 0.0


def _graph_breaks() -> tuple[int, int]:
    """Return how often a compiled model went back to Python, and how many graphs it consists of."""
    if "torch._dynamo" not in sys.modules:
        return 0, 0
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values()), int(counters["stats"]["unique_graphs"])


def _describe_optimizer(optimizer: torch.optim.Optimizer) -> Optimizer:
    groups = optimizer.param_groups
    fused = any(group.get("fused") for group in groups)
    foreach = any(group.get("foreach") for group in groups)
    # None lets torch choose: foreach on a GPU, one parameter after the other on a CPU.
    on_gpu = any(parameter.device.type != "cpu" for group in groups for parameter in group["params"])
    foreach_by_default = on_gpu and any(group.get("foreach", False) is None for group in groups)
    return Optimizer(type(optimizer).__name__, fused, foreach or foreach_by_default)


def _describe_loader(loader: Any) -> Loader | None:
    if not isinstance(loader, DataLoader):
        return None
    return Loader(
        workers=loader.num_workers,
        pins_memory=loader.pin_memory,
        persistent=loader.persistent_workers,
        prefetch=loader.prefetch_factor or 0,
    )
