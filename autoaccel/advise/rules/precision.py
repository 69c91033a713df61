"""Rules about the types of numbers."""

from __future__ import annotations

from autoaccel.advise.observations import Gain, Observations, Rule, make_finding
from autoaccel.advise.reach import WORTH_CASTING, bound_of_sixteen_bits, probed_speedup, rate_ratio, sixteen_bits
from autoaccel.records.profile import Finding

_MOST = 0.5  # of the parameters
_NOTICEABLE = 0.02
_USUAL_RATIO = 2.0  # float32 over float64: a register holds twice as many, and memory moves half the bytes
_FEW_DENORMALS = 1e-3  # of the numbers; one such operand costs about 150 cycles (Intel's optimization manual)


def float64_model(observed: Observations) -> Finding | None:
    """The model computes in double precision."""
    conditions = observed.conditions
    share64 = conditions.model.dtypes.get("float64", 0.0) if conditions else 0.0
    if share64 < _MOST:
        return None
    measured = [rate_ratio(observed, kind, "float64", "float32") or 0.0 for kind in ("matmul", "convolution")]
    ratio = max(_USUAL_RATIO, *measured)
    share = (observed.compute + observed.update) * (1 - 1 / ratio)
    return make_finding(
        "float64-model",
        f"{share64:.0%} of the parameters are float64, which is up to {ratio:.1f} times as slow here as float32",
        Gain(share, removable=0.8),
        "Use model.float() and float32 data: training needs no double precision, which numpy arrays have by default.",
        numbers={"float64_share": share64, "float32_over_float64": ratio},
    )


def float64_data(observed: Observations) -> Finding | None:
    """Batches arrive in double precision and are converted in each step."""
    conditions = observed.conditions
    if conditions is None or "float64" not in conditions.batch_dtypes:
        return None
    if conditions.model.dtypes.get("float64", 0.0) >= _MOST:
        return None  # nothing is converted then
    copies = sum(
        operator.share for operator in observed.profile.operators if operator.name in ("aten::copy_", "aten::_to_copy")
    )
    share = observed.compute * copies + observed.phases("host to device") + 0.5 * observed.data_wait
    if share < _NOTICEABLE:
        return None
    return make_finding(
        "float64-data",
        f"batches of {conditions.batch_bytes / 2**20:.3g} MiB are float64: twice the bytes, converted in each step",
        Gain(share, removable=0.5),
        "Convert the data once, in the dataset: array.astype(numpy.float32).",
        numbers={"batch_bytes": conditions.batch_bytes},
    )


def reduced_precision(observed: Observations) -> Finding | None:
    """The hardware has units for 16-bit numbers that the training does not use."""
    conditions, torch = observed.conditions, observed.machine.torch
    if conditions is None or torch is None or conditions.autocast:
        return None
    if conditions.model.dtypes.get("float32", 0.0) < _MOST or "bfloat16" not in torch.autocast:
        return None
    if not observed.on_gpu and not observed.machine.cpu.has_bfloat16:
        return None
    ratio = max((of for name, of in sixteen_bits(observed).items() if observed.dense_share(name)), default=1.0)
    if ratio < WORTH_CASTING or observed.dense < _NOTICEABLE:
        return None
    won = 0.5 * observed.dense * (1 - 1 / ratio)  # conversions and everything between take back half of it
    bound = bound_of_sixteen_bits(observed)
    measured = "is" if observed.rates or probed_speedup(observed) else "is taken to be"
    return make_finding(
        "reduced-precision",
        f"bfloat16 {measured} {ratio:.1f} times as fast here as float32 in products and convolutions, "
        f"{observed.dense:.0%} of the step, and halves the data that the operators between them move",
        Gain(observed.compute, removable=min(0.9, won / (1 - 1 / bound)), bound_speedup=bound),
        "Call the model under torch.autocast(device, torch.bfloat16); parameters stay float32.",
        knobs=("precision.autocast",),
        numbers={"bfloat16_over_float32": ratio, "dense_share": observed.dense},
    )


def full_float32(observed: Observations) -> Finding | None:
    """Products in full float32 on a GPU whose tensor cores have TF32."""
    conditions = observed.conditions
    if conditions is None or conditions.device != "cuda" or conditions.autocast:
        return None
    if conditions.float32_matmul != "highest" or conditions.model.dtypes.get("float32", 0.0) < _MOST:
        return None
    share = observed.compute * observed.groups("matmul")
    if share < _NOTICEABLE:
        return None
    return make_finding(
        "full-float32",
        f"float32 matrix products, {share:.0%} of the step, do not use the tensor cores",
        Gain(share, removable=0.5),
        'torch.set_float32_matmul_precision("high") lets them use TF32, with 10 bits of mantissa.',
        knobs=("precision.float32_matmul",),
    )


def denormals(observed: Observations) -> Finding | None:
    """Numbers too small for the processor's fast path."""
    conditions = observed.conditions
    if conditions is None or observed.on_gpu or conditions.flushes_denormals:
        return None
    share = conditions.model.denormal_share
    if share < _FEW_DENORMALS:
        return None
    return make_finding(
        "denormals",
        f"{share:.1%} of parameters and gradients are denormal: so small that the processor computes them slowly",
        Gain(observed.compute + observed.update, removable=min(0.9, 20 * share)),
        "torch.set_flush_denormal(True) treats them as zero.",
        knobs=("precision.flush_denormals",),
        numbers={"denormal_share": share},
    )


RULES: dict[str, Rule] = {
    "float64-model": float64_model,
    "float64-data": float64_data,
    "reduced-precision": reduced_precision,
    "full-float32": full_float32,
    "denormals": denormals,
}
