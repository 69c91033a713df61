"""Knobs of torch.compile."""

from __future__ import annotations

from autoaccel.records.by_hand import ByHand
from autoaccel.records.script import DOUBLE_BACKWARD
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

_INDUCTOR_MODES = ("reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_COMPILES = Need("compile.mode", ON, "not off")
_COMPILE_SECONDS = 25.0  # 15 to 30 s for small models on a CPU
_DYNAMO = ("torch._dynamo", "torch._inductor.compile_fx")


def _modes(context: KnobContext) -> tuple[Value, ...]:
    """On a CPU there are no CUDA graphs: modes that only add them would claim what they do not do."""
    if context.device == "cuda":
        return ("off", "default", *_INDUCTOR_MODES)
    return ("off", "default", "max-autotune-no-cudagraphs")


def _why_no_compiler(context: KnobContext) -> str:
    if "torch.compile" in context.seen.does:
        return "the script compiles its model itself"
    if DOUBLE_BACKWARD in context.seen.does:
        return "the script differentiates its gradients, which compiled models do not support"
    if context.device in ("cuda", "xpu"):
        return _why_no_triton(context)
    return "" if context.machine.compiler is not None else "no C++ compiler: apt install g++ (or set CXX)"


def _why_no_triton(context: KnobContext) -> str:
    """Return why torch.compile could not generate code for a GPU; empty if it could."""
    if context.machine.torch is not None and not context.machine.torch.has_triton:
        return (
            "Triton does not work with this GPU (NVIDIA: compute capability 7.0 or later), or is missing: pip "
            "install triton"
        )
    if context.machine.c_compiler is None:
        return "no C compiler, which Triton needs: apt install gcc (or set CC)"
    return "" if context.machine.python_headers else "no Python.h, which Triton needs: apt install python3-dev"


def _backends(context: KnobContext) -> tuple[Value, ...]:
    """Inductor, and whichever other compiled and ran a small training step here."""
    found = context.machine.torch.compile_backends if context.machine.torch else ()
    return ("inductor", *(name for name in found if name != "inductor"))


def _why_one_backend(context: KnobContext) -> str:
    if reason := _why_no_compiler(context):
        return reason
    if len(_backends(context)) > 1:
        return ""
    return (
        "no other backend can train here: pip install onnxruntime onnxscript, torch_xla or intel-extension-for-pytorch"
    )


def _shapes_change(context: KnobContext) -> bool:
    return context.training is not None and context.training.shapes_change


def _dynamic_values(context: KnobContext) -> tuple[Value, ...]:
    return ("on", "auto", "off") if _shapes_change(context) else ("auto", "off", "on")


def _why_no_blocks(context: KnobContext) -> str:
    if reason := _why_no_compiler(context):
        return reason
    if context.training is not None and context.training.repeated_blocks < 2:
        return "the model has no repeated blocks"
    return ""


KNOBS = (
    Knob(
        name="compile.mode",
        group="compile",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="torch.compile fuses the model's operators into generated code; the mode says how hard it tries",
        helps_when="many small elementwise operators, and a run long enough to repay the compilation",
        effect="autoaccel.runtime.knobs.compiling:Compile",
        by_hand=lambda value, device: ByHand("compile", f'mode="{value}"'),
        values=_modes,
        usual=always("off"),
        off="off",
        why_unavailable=_why_no_compiler,
        modules=_DYNAMO,
        start_seconds=_COMPILE_SECONDS,
        # All modes generate the same fused code; the others add CUDA graphs, a search for kernels, or both (PyTorch's
        # documentation of torch.compile).
        basic="default",
    ),
    Knob(
        name="compile.backend",
        group="compile",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the backend that compiles the captured graph",
        helps_when="another compiler suits this processor better than Inductor",
        effect=NO_EFFECT_OF_ITS_OWN,
        by_hand=lambda value, device: ByHand("compile", f'backend="{value}"'),
        values=_backends,
        usual=always("inductor"),
        why_unavailable=_why_one_backend,
        needs=(_COMPILES,),
        clashes=(
            Clash(
                lambda value: value != "inductor",
                "compile.mode",
                equals(*_INDUCTOR_MODES),
                "only Inductor has modes other than default",
            ),
        ),
    ),
    Knob(
        name="compile.dynamic",
        group="compile",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="whether shapes are compiled as variables: automatically on the second shape, always, or never",
        helps_when="batches of many lengths (on: the default where batches are seen to change their shapes), or an "
        "incomplete last batch that must not slow the others (off)",
        effect=NO_EFFECT_OF_ITS_OWN,
        by_hand=lambda value, device: ByHand("compile", f"dynamic={ {'on': True, 'off': False}.get(str(value)) }"),
        values=_dynamic_values,
        usual=lambda context: "on" if _shapes_change(context) else "auto",
        why_unavailable=_why_no_compiler,
        needs=(_COMPILES,),
        clashes=(
            Clash(
                equals("off"),
                "compile.mode",
                ON,
                "batches change their shapes, and each shape would be compiled separately",
                lambda context, mine, theirs: _shapes_change(context),
            ),
        ),
    ),
    Knob(
        name="compile.fullgraph",
        group="compile",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="refuse to compile a model whose graph breaks, instead of compiling its parts separately",
        helps_when="never by itself: it only ensures that the whole model is compiled",
        effect=NO_EFFECT_OF_ITS_OWN,
        by_hand=lambda value, device: ByHand("compile", f"fullgraph={value}"),
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_compiler,
        needs=(_COMPILES,),
    ),
    Knob(
        name="compile.region",
        group="compile",
        effect_stage="model",
        acts_in=("loop", "script"),
        risk="rounding",
        help="compile the whole model, or only its repeated blocks, whose code is then generated once",
        helps_when="a deep model of identical blocks, and a run too short to repay compiling all of it",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=choices("model", "blocks"),
        usual=always("model"),
        why_unavailable=_why_no_blocks,
        needs=(_COMPILES,),
        clashes=(
            Clash(equals("blocks"), "memory.checkpointing", ON, "a checkpointed block runs outside the compiled code"),
        ),
    ),
    Knob(
        name="compile.optimizer",
        group="compile",
        effect_stage="step",
        risk="rounding",
        help="torch.compile fuses the optimizer's update into generated code",
        helps_when="many small parameters, or an optimizer without a fused form",
        effect="autoaccel.runtime.knobs.compiling:CompileOptimizer",
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_no_compiler,
        modules=_DYNAMO,
        clashes=(
            Clash(ON, "optimizer.fused", ON, "a fused update is already one kernel"),
            Clash(
                ON,
                "optimizer.foreach",
                equals("on"),
                "the compiled update has a tensor as learning rate, which foreach rejects",
            ),
            Clash(ON, "precision.autocast", equals("float16"), "the gradient scaler calls the step itself"),
            Clash(ON, "ipex.optimize", ON, "ipex replaces the update with its own"),
        ),
        start_seconds=_COMPILE_SECONDS,
    ),
)
"""Those of torch.compile. They come last of all that change the model: what is compiled is what the others left."""
