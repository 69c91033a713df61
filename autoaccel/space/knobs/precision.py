"""Knobs of the number formats that the step computes in."""

from __future__ import annotations

from autoaccel.records.by_hand import ByHand
from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import Knob, KnobContext, always, choices, switch, why_no_gpu

_FLOAT16_UNITS = {"amx_fp16", "neon"}
"""CPU features with which float16 may be more than a way to store numbers; of ARM it is not known."""

_FLOAT16_MATMUL_UNITS = {"avx512_fp16"}
"""CPU features with which only matrix products in float16 are: a convolution's step took 20 to 130 times as long as in
float32, that of linear layers and attention 0.8 times (torch 2.13 on a Xeon with AVX512-FP16)."""

_BFLOAT16_UNITS = {"amx_bf16", "bf16"}
"""CPU features with which oneDNN multiplies float32 matrices in bfloat16 if it is allowed to; with AVX512_BF16 alone it
did not (torch 2.13 on Zen 5)."""


def _autocast_values(context: KnobContext) -> tuple[Value, ...]:
    """The types that train here; on a CPU float16 only where it computes in it: emulated, it is slower tenfold."""
    found = context.machine.torch.autocast if context.machine.torch else ()
    no_convolutions = context.training is not None and not context.training.has_convolutions
    units = _FLOAT16_UNITS | _FLOAT16_MATMUL_UNITS if no_convolutions else _FLOAT16_UNITS
    emulated = context.device == "cpu" and not units & set(context.machine.cpu.features)
    without = emulated or not context.seen.scales_loss
    return ("off", *(name for name in found if not (name == "float16" and without)))


def _why_no_autocast(context: KnobContext) -> str:
    if context.training is not None and (autocast := context.training.own_autocast):
        return f"the training's own code uses autocast to {autocast}; without that, it could be tuned"
    return "" if len(_autocast_values(context)) > 1 else f"no dtype works under autocast on this {context.device}"


def _matmul_values(context: KnobContext) -> tuple[Value, ...]:
    """The user's own, and on GPUs TF32, which medium is there as well; on CPUs autocast does more than medium."""
    known = ("highest", "high") if context.device == "cuda" else ("highest",)
    return tuple(dict.fromkeys([*known, context.found.get("precision.float32_matmul", "highest")]))


def _why_wrong_matmul(value: Value, context: KnobContext) -> str:
    return "" if value == "medium" else "medium"


def _why_highest(context: KnobContext) -> str:
    return "" if len(_matmul_values(context)) > 1 else "autocast already computes in bfloat16 whatever benefits from it"


def _why_no_short_matmul(context: KnobContext) -> str:
    if context.device not in ("cpu", "cuda"):
        return f"{context.device} multiplies float32 in only one way"
    if context.device == "cpu" and not _BFLOAT16_UNITS & set(context.machine.cpu.features):
        return "on this processor PyTorch does not multiply float32 matrices in bfloat16"
    return ""


def _why_no_algorithms(context: KnobContext) -> str:
    if reason := why_no_gpu(context):
        return reason
    without = context.training is not None and not context.training.has_convolutions
    return "the model has no convolution" if without else ""


def _reduction(dtype: str, mode: str) -> Knob:
    return Knob(
        name=f"precision.{mode}_reduction",
        group="precision",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help=f"whether {dtype} matrix products may accumulate in {dtype} instead of float32",
        helps_when="large inner dimensions; off is safer, on is PyTorch's default",
        effect=f"autoaccel.runtime.knobs.precision:{mode.capitalize()}Reduction",
        by_hand=lambda value, device: ByHand(
            "start", f"torch.backends.cuda.matmul.allow_{mode}_reduced_precision_reduction = {value}"
        ),
        values=choices(True, False),
        usual=always(True),
        why_unavailable=why_no_gpu,
    )


AUTOCAST = Knob(
    name="precision.autocast",
    group="precision",
    effect_stage="step",
    acts_in=("loop", "script"),
    risk="rounding",
    help="matrix products and convolutions run in a shorter floating-point type; float16 with a gradient scaler",
    helps_when="they dominate and the processor computes in that type (AVX512_BF16, AMX, tensor cores)",
    effect="autoaccel.runtime.knobs.precision:Autocast",
    by_hand=lambda value, device: ByHand("forward", f'torch.autocast("{device}", dtype=torch.{value})'),
    values=_autocast_values,
    usual=always("off"),
    off="off",
    usual_effect=0.3,
    why_unavailable=_why_no_autocast,
)

KNOBS = (
    AUTOCAST,
    Knob(
        name="precision.float32_matmul",
        group="precision",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the precision of float32 matrix products: high allows TF32 inside the product, medium bfloat16",
        helps_when="matrix products dominate and autocast is off or leaves many in float32",
        effect="autoaccel.runtime.knobs.precision:Float32Matmul",
        by_hand=lambda value, device: ByHand("start", f'torch.set_float32_matmul_precision("{value}")'),
        values=_matmul_values,
        why_wrong=_why_wrong_matmul,
        usual=always("highest"),
        why_unavailable=_why_no_short_matmul,
        why_untried=_why_highest,
    ),
    Knob(
        name="precision.cudnn_tf32",
        group="precision",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help="whether cuDNN's convolutions may compute float32 in TF32",
        helps_when="convolutions in float32; on is PyTorch's default",
        effect="autoaccel.runtime.knobs.precision:CudnnTf32",
        by_hand=lambda value, device: ByHand("start", f"torch.backends.cudnn.allow_tf32 = {value}"),
        values=choices(True, False),
        usual=always(True),
        why_unavailable=why_no_gpu,
    ),
    _reduction("float16", "fp16"),
    _reduction("bfloat16", "bf16"),
    Knob(
        name="precision.cudnn_benchmark",
        group="precision",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help="cuDNN tries its convolution algorithms on each new shape and keeps the fastest",
        helps_when="convolutions over batches that all have one shape",
        effect="autoaccel.runtime.knobs.precision:CudnnBenchmark",
        by_hand=lambda value, device: ByHand("start", f"torch.backends.cudnn.benchmark = {value}"),
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_algorithms,
    ),
    Knob(
        name="precision.flush_denormals",
        group="precision",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help="numbers too small for the normal range of a float become zero",
        helps_when="a CPU trains with weights or activations that decay towards zero: denormals cost it a hundredfold",
        effect="autoaccel.runtime.knobs.precision:FlushDenormals",
        by_hand=lambda value, device: ByHand("start", f"torch.set_flush_denormal({value})"),
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=lambda context: "" if context.device == "cpu" else "GPUs compute denormals at full speed",
    ),
)
"""Those of number formats."""
