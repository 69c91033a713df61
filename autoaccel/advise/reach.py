"""What a remedy could win at most, from the measured rates of the operators that it reaches.

A remedy reaches some groups of operators and leaves the rest of the step as it is. For each group there is a limit to
how much quicker the remedy can make it; no use of the remedy is expected to make the step shorter than these allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoaccel.advise.bounds import bound_of_share
from autoaccel.advise.observations import DENSE, Observations

MARGIN = 1.25
"""By how much operators may get quicker than rates and bytes say: a kernel may be nearer to its peak in one type or
layout than in another, and what needs less memory misses fewer caches. Chosen so that no remedy measured in
benchmarks/results/tables (on one processor, steps below 0.2 s) wins more than its bound; steps in which another type
keeps data in a nearer cache would need more."""

WORTH_CASTING = 1.2  # times as fast, in dense operators: what autocast converts takes back a part
_HALF_THE_BYTES = 2.0  # what memory limits reads and writes 16 bits instead of 32
_LAYOUT = 1.8
"""By how much convolutions get quicker with channels last where that was not measured: the most that is reported of
whole models ("Accelerating PyTorch Vision Models with Channels Last on CPU", PyTorch's blog, 2022)."""
_STRIDED = 4.0
"""Pooling, normalisation and copies: one layout of the two lets them work on whole registers, or spares the copy. A
guess on the safe side: on the convolutional workloads of benchmarks/results/tables channels last won 1.15 at most."""
_UNMEASURED = {"amx_bf16": 16.0, "cuda": 16.0}
"""How many times as fast 16-bit units are as those for float32, where nobody measured. AMX: 1,024 operations per core
and cycle against 64 with two units for AVX-512 (Intel's optimization manual); tensor cores of an A100: 312 against 19.5
TFLOP/s (NVIDIA's data sheet). Of others, a register holds twice as many numbers."""
_MAX_UNITS = 4.0  # times the rate in float32, of 16-bit instructions without tiles (Arm's BFMMLA)
_READS_OVER_COPIES = 1.5  # a copy also reads the lines that it writes (McCalpin on STREAM): reading alone is that fast

_OF_COMPUTE = (
    *DENSE, "normalisation", "pooling", "softmax and loss", "embedding", "random", "memory", "elementwise", "other",
)  # fmt: skip


def compute_groups(observed: Observations) -> dict[str, float]:
    """Return the share of the step that each group of operators takes in forward, loss and backward.

    Together they are these phases: what lies between operators counts as that of the operators that are not dense.
    """
    dense = {name: share for name in DENSE if (share := observed.dense_share(name))}
    others = {name: observed.profile.groups.get(name, 0.0) for name in _OF_COMPUTE if name not in DENSE}
    rest = max(0.0, observed.compute - sum(dense.values()))
    whole = sum(others.values())
    spread = {name: rest * share / whole for name, share in others.items() if share} if whole else {"other": rest}
    return {**dense, **spread}


def bound_of_groups(observed: Observations, most: Mapping[str, float], otherwise: float = 1.0) -> float:
    """Return the speed-up of the step if each group of operators became as much quicker as it could.

    Args:
        observed: What is known of the step.
        most: Group -> by how much it can become quicker at most, 1 for not at all, infinite for its vanishing.
        otherwise: That of all other groups of forward, loss and backward.
    """
    saved = sum(share * (1 - 1 / most.get(name, otherwise)) for name, share in compute_groups(observed).items())
    return bound_of_share(saved)


def rate_ratio(observed: Observations, kind: str, slow: str, *fast: str) -> float | None:
    """Return how many times as fast the fastest of some dtypes is as another in "matmul" or "convolution".

    None where that was not measured.
    """
    rates = observed.rates
    measured: Mapping[str, float] = {} if rates is None else rates.matmul if kind == "matmul" else rates.convolution
    return max((measured[dtype] / measured[slow] for dtype in fast if dtype in measured and slow in measured),
               default=None)  # fmt: skip


def probed_speedup(observed: Observations) -> float | None:
    """Return how many times as fast a CPU was found to multiply in 16 bits as in 32; None where nobody measured."""
    torch = observed.machine.torch
    return max(torch.product_speedups.values(), default=None) if torch is not None and not observed.on_gpu else None


def sixteen_bits(observed: Observations) -> dict[str, float]:
    """Return how many times as fast dense operators are here in 16 bits as in 32, by group; at least 1."""
    products = rate_ratio(observed, "matmul", "float32", "bfloat16", "float16") or probed_speedup(observed)
    convolutions = rate_ratio(observed, "convolution", "float32", "bfloat16", "float16")
    has_amx = "amx_bf16" in observed.machine.cpu.features and not observed.on_gpu
    unit = "cuda" if observed.on_gpu else "amx_bf16" if has_amx else ""
    unmeasured, most = _UNMEASURED.get(unit, 2.0), _UNMEASURED.get(unit, _MAX_UNITS)
    # What no hardware has is a rate in float32 that others disturbed.
    matmul = min(most, max(1.0, products or unmeasured))
    # Convolutions are products for some of their shapes, and their gradients.
    return {
        "matmul": matmul,
        "attention": matmul,
        "convolution": min(most, max(matmul, convolutions or products or unmeasured)),
    }


def bound_of_sixteen_bits(observed: Observations) -> float:
    """Return what a 16-bit type could win at most: dense operators by their rates, all others by half the bytes.

    The update stays as it is: parameters stay float32.
    """
    if observed.conditions is not None and observed.conditions.autocast:
        return bound_of_groups(observed, {}, MARGIN)  # it computes in 16 bits already
    dense = {name: MARGIN * ratio for name, ratio in sixteen_bits(observed).items()}
    return bound_of_groups(observed, dense, MARGIN * _HALF_THE_BYTES)


def bound_of_layout(observed: Observations) -> float:
    """Return what channels last could win at most."""
    layout = MARGIN * ratio if (ratio := _layout_ratio(observed)) else _LAYOUT
    return bound_of_groups(observed, {"convolution": layout, "normalisation": _STRIDED, "pooling": _STRIDED,
                                      "memory": _STRIDED})  # fmt: skip


def bound_of_compiling(observed: Observations) -> float:
    """Return what a compiler could win at most: what is not dense vanishes, dense kernels change their layout.

    Products in batches may be attention that somebody has written out, which it replaces by one kernel: these are
    limited by the scores that they write to memory, and vanish as well.
    """
    layout = MARGIN * (_layout_ratio(observed) or 1.0)
    written_out = any(name.endswith(("::bmm", "::baddbmm")) for name in observed.profile.operator_names)
    dense = {"matmul": math.inf if written_out else MARGIN, "attention": MARGIN, "convolution": layout}
    return bound_of_groups(observed, dense, math.inf)


def bound_of_update(observed: Observations) -> float:
    """Return what another form of the update could win at most: it passes over its numbers once, from memory.

    At least half of the update's share counts: memory that was measured while others used it may be faster.
    """
    min_share = _min_update_seconds(observed) / observed.mean_step_seconds
    return bound_of_share(max(observed.update / 2, observed.update - min_share))


def _layout_ratio(observed: Observations) -> float | None:
    """Return how many times as fast a convolution in float32 is here channels last; None where nobody measured."""
    if observed.rates is None or observed.rates.channels_first is None:
        return None
    last = observed.rates.convolution.get("float32")
    return min(_STRIDED, max(1.0, last / observed.rates.channels_first)) if last else None


def _min_update_seconds(observed: Observations) -> float:
    """Return the least time in which memory delivers what an update reads and writes; 0 where that is not known.

    Parameters, gradients and the optimizer's state are read, parameters and state are written; what the caches hold
    comes from there.
    """
    profile, rates, conditions = observed.profile, observed.rates, observed.conditions
    if rates is None or conditions is None or profile.min_bytes is None:
        return 0.0
    sizes = {"float64": 8, "bfloat16": 2, "float16": 2}
    weights = profile.parameters * sum(share * sizes.get(name, 4) for name, share in conditions.model.dtypes.items())
    # See runtime/work.py: 6 times the parameters that are trained, twice the state, the batch.
    twice_state = profile.min_bytes - 6 * weights - conditions.batch_bytes
    if twice_state < 0:
        return 0.0  # some parameters are not trained
    caches = 0 if observed.on_gpu else observed.machine.cpu.cache_bytes
    moved = max(0.0, 3 * weights + twice_state - caches)
    return moved / (_READS_OVER_COPIES * rates.memory_bytes_per_second)
