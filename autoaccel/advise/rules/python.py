"""Rules about Python: what the user's code does in each step, and what watches it."""

from __future__ import annotations

from autoaccel.advise.observations import Gain, Observations, Rule, make_finding
from autoaccel.records.conditions import Switched
from autoaccel.records.profile import Finding, PythonFunction

_READS = ("Tensor.item", "Tensor.tolist", "Tensor.cpu", "Tensor.numpy", "Tensor.__float__", "Tensor.__bool__")
_PRINTS = ("print", "TextIOWrapper.write", "TextIOWrapper.flush", "sys.stdout.write")
_METRICS = (
    "Tensor.argmax", "torch.argmax", "Tensor.topk", "torch.topk", "Tensor.sort", "torch.sort", "Tensor.unique",
    "torch.bincount", "torch.histc", "Tensor.eq", "torch.eq",
)  # fmt: skip
_GRADIENTS = (
    "Tensor.norm", "torch.norm", "torch._C._linalg.linalg_vector_norm", "Tensor.clamp_", "Tensor.clip_", "Tensor.mul_",
    "Tensor.clamp", "Tensor.div_", "Tensor.square", "Tensor.pow", "Tensor.copy_",
)  # fmt: skip
_NOTICEABLE = 0.02  # share of the step: two fresh processes with the same settings differ by more
_CACHES = 0.25
"""By how much all else takes longer because these lines empty the caches, as a share of their own time. From one
planted problem of the benchmark: 0.12 to 0.18 where lines read 1,024 numbers, with 2 MiB of second-level cache.
Larger caches, or a step that needs more of them, would make it larger: filling takes about as long as emptying, so
that 1 is its limit."""
_LOOP = 8  # calls per step by one function: a loop over tensors, not a handful of them
_MEASURABLE = 1.02  # ratio of step times taken in turns
_LOUD = (
    "TORCH_SHOW_CPP_STACKTRACES", "TORCH_CPP_LOG_LEVEL", "TORCH_DISTRIBUTED_DEBUG", "TORCH_LOGS", "NCCL_DEBUG",
    "GLOO_LOG_LEVEL", "ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKL_VERBOSE", "MKLDNN_VERBOSE", "MALLOC_CHECK_",
    "MALLOC_PERTURB_", "OMP_DISPLAY_ENV", "OMP_DISPLAY_AFFINITY", "PYTHONDEVMODE", "PYTHONMALLOC",
    "PYTHONPROFILEIMPORTTIME", "PYTHONTRACEMALLOC", "ASAN_OPTIONS", "CUDA_LAUNCH_BLOCKING",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCHDYNAMO_DISABLE",
)  # fmt: skip
_OFF = ("", "0", "off", "false", "warn", "warning", "error", "fatal", "none")


def reading_functions(observed: Observations) -> list[PythonFunction]:
    """Return the user's functions that read numbers out of tensors in each step, not to treat gradients."""
    loops = gradient_functions(observed)
    return [function for function in _calling(observed, _READS, 1) if function not in loops]


def gradient_functions(observed: Observations) -> list[PythonFunction]:
    """Return the user's functions that treat many tensors one by one in each step, and are no forward pass."""
    return [
        function for function in _calling(observed, _GRADIENTS, _LOOP) if function.name.rsplit(".", 1)[-1] != "forward"
    ]


def _calling(observed: Observations, names: tuple[str, ...], min_calls: float) -> list[PythonFunction]:
    """Return the user's functions that call any of these so often per step, the most expensive first."""
    return [
        function
        for function in observed.profile.python
        if sum(function.built_in_calls.get(name, 0.0) for name in names) >= min_calls
    ]


def _calls(functions: list[PythonFunction], names: tuple[str, ...]) -> float:
    return sum(function.built_in_calls.get(name, 0.0) for function in functions for name in names)


def line_share(functions: list[PythonFunction]) -> float:
    """Return the share of the step that these functions' lines take."""
    return sum(function.line_share for function in functions)


def _share_with_caches(functions: list[PythonFunction]) -> float:
    """Return the share of the step that could go with these functions' lines: what is left finds warmer caches."""
    return (1 + _CACHES) * line_share(functions)


def synchronising(observed: Observations) -> Finding | None:
    """Numbers are read out of tensors in the step, one by one."""
    functions = reading_functions(observed)
    reads = max(_calls(functions, _READS), observed.profile.reads_per_step or 0.0)
    if not functions or reads < 1:
        return None
    share = _share_with_caches(functions)
    if observed.on_gpu and observed.profile.gpu is not None:
        # Each read waits until the GPU has done everything before it, which then has nothing to do.
        share = max(share, 1 - observed.profile.gpu.busy_share)
    if share < _NOTICEABLE:
        return None
    first = functions[0]
    return make_finding(
        "synchronising",
        f"{first.name} ({first.where}) reads numbers out of tensors {reads:.0f} times a step",
        Gain(share, removable=0.9),
        "Keep sums in tensors instead of calling .item() or .tolist(), and read them only every 100 steps or so.",
        numbers={"reads_per_step": reads, "line_share": line_share(functions)},
    )


def printing(observed: Observations) -> Finding | None:
    """Something is printed or written in each step."""
    functions = _calling(observed, _PRINTS, 1)
    share = _share_with_caches(functions)
    if not functions or share < _NOTICEABLE:
        return None
    first, prints = functions[0], _calls(functions, _PRINTS)
    return make_finding(
        "printing",
        f"{first.name} ({first.where}) prints {prints:.0f} times a step",
        Gain(share, removable=0.8),
        "Print only every 100 steps or so.",
        numbers={"prints_per_step": prints, "line_share": line_share(functions)},
    )


def step_metrics(observed: Observations) -> Finding | None:
    """A metric is computed in each training step."""
    functions = _calling(observed, _METRICS, 1)
    share = _share_with_caches(functions)
    if not functions or share < _NOTICEABLE:
        return None
    first = functions[0]
    return make_finding(
        "step-metrics",
        f"{first.name} ({first.where}) computes a metric in each step",
        Gain(share, removable=0.5),
        "Compute it during evaluation, or only every 100 steps or so.",
        numbers={"calls_per_step": _calls(functions, _METRICS), "line_share": line_share(functions)},
    )


def gradient_loop(observed: Observations) -> Finding | None:
    """Gradients are clipped or scaled one by one, in Python."""
    functions = gradient_functions(observed)
    share = _share_with_caches(functions)
    if not functions or share < _NOTICEABLE:
        return None
    first, calls = functions[0], _calls(functions, _GRADIENTS)
    return make_finding(
        "gradient-loop",
        f"{first.name} ({first.where}) handles tensors one by one, with {calls:.0f} operators a step",
        Gain(share, removable=0.8),
        "torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=True) clips all of them at once.",
        numbers={"calls_per_step": calls, "line_share": line_share(functions)},
    )


def _switched_off(observed: Observations, name: str) -> Switched | None:
    """Return the step times with and without something, if that makes a difference."""
    switched = observed.conditions.switched.get(name) if observed.conditions else None
    if switched is None or switched.step_seconds < _MEASURABLE * switched.without_seconds:
        return None
    return switched


def _cost(switched: Switched) -> dict[str, float]:
    return {"step_seconds": switched.step_seconds, "without_seconds": switched.without_seconds}


def _without(code: str, title: str, advice: str, switched: Switched) -> Finding:
    share = 1 - switched.without_seconds / switched.step_seconds
    gain = Gain(share, bound_speedup=switched.bound_speedup, claims_half=switched.wins_half)
    return make_finding(code, f"{title}: {share:.0%} of the step", gain, advice, numbers=_cost(switched))


def anomaly_mode(observed: Observations) -> Finding | None:
    """Autograd checks each gradient and keeps a traceback for each operator."""
    switched = _switched_off(observed, "anomaly")
    if switched is None:
        return None
    return _without(
        "anomaly-mode",
        "autograd's anomaly mode is on",
        "Remove torch.autograd.set_detect_anomaly(True) once the error is found.",
        switched,
    )


def deterministic(observed: Observations) -> Finding | None:
    """Algorithms that always give the same bits, and memory that is filled before it is used."""
    switched = _switched_off(observed, "deterministic")
    if switched is None:
        return None
    return _without(
        "deterministic",
        "deterministic algorithms are on",
        "Use them only in tests, or keep them and set torch.utils.deterministic.fill_uninitialized_memory = False.",
        switched,
    )


def profiler_on(observed: Observations) -> Finding | None:
    """Something watches each call."""
    switched = _switched_off(observed, "profilers")
    if switched is None or observed.conditions is None:
        return None
    return _without(
        "profiler-on",
        f"{', '.join(observed.conditions.profilers)} is on",
        "Remove the profiler, tracer or coverage from runs that should be fast.",
        switched,
    )


def debug_variables(observed: Observations) -> Finding | None:
    """Environment variables with which people look for errors."""
    if observed.conditions is None:
        return None
    names = [
        name
        for name, value in observed.conditions.environment.items()
        if name in _LOUD and value.lower() not in _OFF and not (name == "PYTHONMALLOC" and "debug" not in value)
    ]
    if not names:
        return None
    blocks = observed.on_gpu and "CUDA_LAUNCH_BLOCKING" in names
    return make_finding(
        "debug-variables",
        f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} set, which is meant for debugging",
        Gain(1 - observed.data_wait, removable=0.4 if blocks else 0.05),
        f"unset {' '.join(names)}",
        numbers={"variables": len(names)},
    )


def held_back(observed: Observations) -> Finding | None:
    """A variable keeps torch from instructions that the processor has."""
    if observed.conditions is None or observed.on_gpu:
        return None
    environment = observed.conditions.environment
    names = [name for name in ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA") if name in environment]
    lowered = [name for name in names if environment[name].lower() not in ("default_max", "all", "")]
    if not lowered:
        return None
    return make_finding(
        "held-back",
        f"{', '.join(f'{name}={environment[name]}' for name in lowered)} keeps torch from using newer instructions",
        Gain(observed.compute + observed.update, removable=0.3),
        f"unset {' '.join(lowered)}",
        numbers={"variables": len(lowered)},
    )


def between_steps(observed: Observations) -> Finding | None:
    """Python between the optimizer's step and the next batch."""
    share = observed.phases("other")
    if observed.on_gpu or share < 0.05 or observed.updates_itself:
        return None
    return make_finding(
        "between-steps",
        f"{share:.1%} of the step is spent after the update: on the schedule, hooks, and reading the loss",
        Gain(share, removable=0.5),
        "Call the scheduler once per epoch, and do little after each step.",
    )


RULES: dict[str, Rule] = {
    "synchronising": synchronising,
    "printing": printing,
    "step-metrics": step_metrics,
    "gradient-loop": gradient_loop,
    "anomaly-mode": anomaly_mode,
    "deterministic": deterministic,
    "profiler-on": profiler_on,
    "debug-variables": debug_variables,
    "held-back": held_back,
    "between-steps": between_steps,
}
