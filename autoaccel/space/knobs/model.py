"""Knobs that change how the model is stored, or the model itself."""

from __future__ import annotations

from autoaccel.records.by_hand import ByHand
from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import (
    NO_EFFECT_OF_ITS_OWN,
    ON,
    Clash,
    Knob,
    KnobContext,
    Need,
    always,
    choices,
    equals,
    switch,
)
from autoaccel.space.knobs.precision import AUTOCAST

SPARSITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
PRUNING_LIBRARIES = {"torch-pruning": "pruning", "nni": "nni"}
"""Distribution that prunes -> the extra that brings it."""

_PRUNES = Need("model.sparsity", ON, "above 0")


def _why_no_images(context: KnobContext) -> str:
    if context.training is not None and not context.training.has_image_convolutions:
        return "the model has no convolution over images"
    return ""


def _why_no_norm_biases(context: KnobContext) -> str:
    if context.training is not None and not context.training.biases_before_norm:
        return "no bias is followed by batch normalisation"
    return ""


def _why_no_biases(context: KnobContext) -> str:
    if context.training is not None and not context.training.biases:
        return "no convolution or linear layer has a bias"
    return ""


def _kernels(context: KnobContext) -> tuple[str, ...]:
    """Return the kernels of attention that may be asked for: on an accelerator those that trained in some dtype."""
    if context.device == "cpu":
        return ("flash", "math")
    return tuple(context.machine.torch.attention) if context.machine.torch else ()


def _attention_kernels(context: KnobContext) -> tuple[Value, ...]:
    """PyTorch's own choice, and on an accelerator each kernel; math, which writes all scores to memory, is its last."""
    kernels = () if context.device == "cpu" else _kernels(context)
    return ("auto", *(name for name in kernels if name != "math"))


def _why_one_attention_kernel(context: KnobContext) -> str:
    return "" if _kernels(context) else f"no kernel can be chosen on this {context.device}"


def _why_auto_attention(context: KnobContext) -> str:
    if context.device == "cpu":
        return "PyTorch uses the flash kernel wherever a CPU can use it"
    return "" if len(_attention_kernels(context)) > 1 else "only separate operators (the math kernel) can train here"


def _why_wrong_kernel(value: Value, context: KnobContext) -> str:
    others = [name for name in _kernels(context) if name not in _attention_kernels(context)]
    return "" if value in others else " or ".join(others) or "another that trains here"


def _lacks_its_dtype(context: KnobContext, kernel: Value, autocast: Value) -> bool:
    """Whether the kernel does not train in what autocast leaves: on a GPU flash and cuDNN's take only 16 bits."""
    if context.device == "cpu" or context.machine.torch is None:
        return False
    unchanged = (context.training.own_autocast or context.training.dtype) if context.training is not None else "float32"
    return (unchanged if AUTOCAST.is_off(autocast) else autocast) not in context.machine.torch.attention.get(
        str(kernel), ()
    )


def _pruners(context: KnobContext) -> tuple[Value, ...]:
    """The first is there even if it is not installed: a knob has a default everywhere."""
    return tuple(name for name in PRUNING_LIBRARIES if name in context.machine.packages) or ("torch-pruning",)


def _why_no_pruning(context: KnobContext) -> str:
    if not set(PRUNING_LIBRARIES) & context.machine.packages.keys():
        return "no pruning library is installed: pip install 'autoaccel[pruning]'"
    if context.training is not None and context.training.prunable_layers < 2:
        return "the model has no pair of layers of which one could be made smaller"
    return ""


def _why_one_pruner(context: KnobContext) -> str:
    if reason := _why_no_pruning(context):
        return reason
    missing = [extra for name, extra in PRUNING_LIBRARIES.items() if name not in context.machine.packages]
    return f"only one pruning library is installed: pip install 'autoaccel[{missing[0]}]'" if missing else ""


_KERNELS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
"""Names in torch.nn.attention.SDPBackend."""


def _kernel_by_hand(value: Value, device: str) -> ByHand:
    kernel = f"torch.nn.attention.SDPBackend.{_KERNELS.get(str(value), str(value))}"
    return ByHand("forward", f"torch.nn.attention.sdpa_kernel({kernel})")


KNOBS = (
    Knob(
        name="model.norm_biases",
        group="model",
        effect_stage="model",
        risk="rounding",
        help="whether biases that batch normalisation subtracts again are kept or dropped",
        helps_when="convolutions with a bias before batch normalisation: dropping it saves a pass over their output",
        effect="autoaccel.runtime.knobs.biases:NormBiases",
        values=choices("keep", "drop"),
        usual=always("keep"),
        off="keep",
        why_unavailable=_why_no_norm_biases,
    ),
    Knob(
        name="model.biases",
        group="model",
        effect_stage="model",
        risk="changes_training",
        help="whether all biases of convolutions and linear layers are kept or dropped",
        helps_when="many narrow layers, whose biases cost a pass but hardly matter",
        effect="autoaccel.runtime.knobs.biases:Biases",
        values=choices("keep", "drop"),
        usual=always("keep"),
        off="keep",
        why_unavailable=_why_no_biases,
        clashes=(Clash(equals("drop"), "model.norm_biases", equals("drop"), "no bias is left to drop"),),
    ),
    Knob(
        name="model.attention",
        group="model",
        effect_stage="step",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the kernel of scaled dot-product attention",
        helps_when="attention dominates and PyTorch's choice among its kernels is not the best for these shapes",
        effect="autoaccel.runtime.knobs.attention:Attention",
        by_hand=_kernel_by_hand,
        values=_attention_kernels,
        usual=always("auto"),
        off="auto",
        why_unavailable=_why_one_attention_kernel,
        why_untried=_why_auto_attention,
        why_wrong=_why_wrong_kernel,
        clashes=(
            Clash(
                ON,
                "precision.autocast",
                lambda value: True,
                "this attention kernel does not support the dtype that autocast leaves",
                where=_lacks_its_dtype,
            ),
        ),
    ),
    Knob(
        name="model.sparsity",
        group="model",
        effect_stage="model",
        risk="changes_training",
        help="the share of the channels of each layer that is permanently removed after a warm-up, the least "
        "important first",
        helps_when="a model wider than its task needs, trained for many epochs",
        effect="autoaccel.runtime.knobs.pruning:Pruning",
        values=choices(*SPARSITIES),
        usual=always(0.0),
        off=0.0,
        why_unavailable=_why_no_pruning,
        value_range=lambda context: (0.0, 0.95),
        start_seconds=0.0,  # that of its warm-up and its search for channels depends on the training
    ),
    Knob(
        name="model.pruning_criterion",
        group="model",
        effect_stage="model",
        risk="changes_training",
        help="a channel's importance: the sum of its weights' magnitudes (l1) or of their squares (l2)",
        helps_when="either may lose less accuracy",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=choices("l1", "l2"),
        usual=always("l1"),
        why_unavailable=_why_no_pruning,
        needs=(_PRUNES,),
    ),
    Knob(
        name="model.pruning_library",
        group="model",
        effect_stage="model",
        risk="changes_training",
        help="the library that removes the channels",
        helps_when="one of them may handle a model that the other cannot",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=_pruners,
        usual=lambda context: _pruners(context)[0],
        why_unavailable=_why_one_pruner,
        needs=(_PRUNES,),
        clashes=(
            Clash(
                equals("nni"),
                "model.attention",
                ON,
                "NNI does not trace attention, so attention lacks the channels that were removed before it",
            ),
        ),
    ),
    Knob(
        name="model.pruning_keeps",
        group="model",
        effect_stage="model",
        risk="changes_training",
        help="which layers keep their size: the last, whose outputs have a meaning, or the first and the last",
        helps_when="the first layer sees the data itself and often has few channels to spare",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=choices("last", "first and last"),
        usual=always("last"),
        why_unavailable=_why_no_pruning,
        needs=(_PRUNES,),
    ),
    Knob(
        name="model.pruning_warmup",
        group="model",
        effect_stage="model",
        risk="changes_training",
        help="number of epochs that are trained before channels are removed",
        helps_when="weights show what matters only after some training",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=choices(1, 0, 2),
        usual=always(1),
        why_unavailable=_why_no_pruning,
        value_range=lambda context: (0, 1000),
        needs=(_PRUNES,),
    ),
    Knob(
        name="layout.channels_last",
        group="model",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="images flow through convolutions with channels last; weights stay as they are",
        helps_when="convolutions dominate, especially in reduced precision",
        effect="autoaccel.runtime.knobs.layout:ChannelsLast",
        by_hand=lambda value, device: ByHand(
            "model",
            "{model} = {model}.to(memory_format=torch.channels_last)",
            "each batch of images in training: images = images.contiguous(memory_format=torch.channels_last)",
        ),
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_images,
    ),
)
"""Those of the model, in the order in which they change it."""
