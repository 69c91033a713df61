"""Knobs of the update and of how many samples it rests on."""

from __future__ import annotations

from autoaccel.records.by_hand import ByHand
from autoaccel.records.settings import Value
from autoaccel.space.knobs.knob import (
    ON,
    Clash,
    Knob,
    KnobContext,
    Need,
    always,
    choices,
    switch,
)


def _why_no_fused(context: KnobContext) -> str:
    if context.machine.torch is not None and not context.machine.torch.fused_optimizer:
        return f"torch {context.machine.torch.version} has no fused optimizers on this {context.device}"
    if context.training is not None and not context.training.optimizer_has_fused:
        return _why_made_by_hand(context) or f"{context.training.optimizer} has no fused form"
    return ""


def _why_no_foreach(context: KnobContext) -> str:
    if context.training is not None and not context.training.optimizer_has_foreach:
        return _why_made_by_hand(context) or f"{context.training.optimizer} has no such forms"
    return ""


def _why_made_by_hand(context: KnobContext) -> str:
    return "the script makes its updates itself, without an optimizer" if context.seen.updates_itself else ""


def _why_no_batch(context: KnobContext) -> str:
    if context.training is not None and not context.training.batch_adjustable:
        return "your own loader fixes the batch size: train_data must be a dataset"
    return ""


def _batch_factors(context: KnobContext) -> tuple[Value, ...]:
    """Those that give a whole number of samples."""
    batch_size = (context.training and context.training.batch_size) or 2
    return tuple(factor for factor in (1.0, 2.0, 4.0, 0.5) if (batch_size * factor).is_integer())


def _why_no_parts(context: KnobContext) -> str:
    if context.training is not None and not context.training.batches_divisible:
        return "batches cannot be divided: train_data must be a dataset, or loaders with batches of its samples"
    return ""


KNOBS = (
    Knob(
        name="optimizer.batch_factor",
        group="optimizer",
        effect_stage="data",
        risk="changes_training",
        help="samples per step, as a multiple of the training's own batch size; the number of epochs is kept, so "
        "there are fewer steps",
        helps_when="small batches leave the processor idle between operators",
        effect="autoaccel.runtime.knobs.batches:BatchFactor",
        values=_batch_factors,
        usual=always(1.0),
        off=1.0,
        why_unavailable=_why_no_batch,
        value_range=lambda context: (0.0625, 64.0),
    ),
    Knob(
        name="optimizer.lr_rule",
        group="optimizer",
        effect_stage="optimizer",
        risk="changes_training",
        help="how the learning rate scales with the batch size: not at all, linearly (Goyal et al., 2017), or with "
        "its square root (Krizhevsky, 2014)",
        helps_when="linear for SGD, the square root for Adam",
        effect="autoaccel.runtime.knobs.batches:LearningRateRule",
        values=choices("none", "linear", "sqrt"),
        usual=always("none"),
        off="none",
        why_unavailable=_why_no_batch,
        needs=(Need("optimizer.batch_factor", ON, "not 1"),),
    ),
    Knob(
        name="optimizer.accumulation",
        group="optimizer",
        effect_stage="step",
        risk="rounding",  # except of batch normalisation, which sees smaller batches; the metric decides
        divides_batches=True,
        help="the number of parts into which a step's batch is split, whose gradients are accumulated",
        helps_when="never by itself: it computes the same batch in less memory",
        effect="autoaccel.runtime.knobs.batches:Accumulation",
        values=choices(1, 2, 4),
        usual=always(1),
        off=1,
        why_unavailable=_why_no_parts,
        value_range=lambda context: (1, 256),
    ),
    Knob(
        name="optimizer.fused",
        group="optimizer",
        effect_stage="optimizer",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the optimizer updates all parameters in one fused kernel",
        helps_when="the optimizer's share of the step is large: many parameters, small batches",
        effect="autoaccel.runtime.knobs.optimizers:Fused",
        by_hand=lambda value, device: ByHand("optimizer", f"fused={value}"),
        values=switch,
        usual=always(False),
        off=False,
        usual_effect=0.17,
        why_unavailable=_why_no_fused,
    ),
    Knob(
        name="optimizer.foreach",
        group="optimizer",
        effect_stage="optimizer",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the optimizer updates all parameters with one operator after another (on), one parameter after another "
        "(off), or as PyTorch decides",
        helps_when="many small parameters on a GPU; on a CPU, PyTorch chooses off",
        effect="autoaccel.runtime.knobs.optimizers:Foreach",
        by_hand=lambda value, device: ByHand("optimizer", f"foreach={ {'on': True, 'off': False}.get(str(value)) }"),
        values=choices("auto", "on", "off"),
        usual=always("auto"),
        off="auto",
        why_unavailable=_why_no_foreach,
        clashes=(Clash(ON, "optimizer.fused", ON, "an update has only one form"),),
    ),
)
"""Those of the optimizer."""
