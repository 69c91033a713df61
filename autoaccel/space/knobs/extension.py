"""Knobs of extensions to PyTorch."""

from __future__ import annotations

from autoaccel.space.knobs.knob import ON, Clash, Knob, KnobContext, always, choices, equals

IPEX = "intel-extension-for-pytorch"


def _why_no_ipex(context: KnobContext) -> str:
    """Decided from the versions: under another torch than its own, importing it ends the process."""
    if context.device != "cpu":
        return "the training does not run on a CPU"
    version = context.machine.packages.get(IPEX)
    if version is None:
        return f"{IPEX} is not installed: pip install 'autoaccel[ipex]' (its last release needs torch 2.8)"
    torch = context.machine.torch.version if context.machine.torch else "unknown"
    if torch.split(".")[:2] != version.split(".")[:2]:
        return f"{IPEX} {version} needs torch {'.'.join(version.split('.')[:2])}, but this is {torch}"
    return ""


KNOBS = (
    Knob(
        name="ipex.optimize",
        group="extension",
        effect_stage="optimizer",
        risk="rounding",
        help="Intel's extension rearranges weights and replaces operators and the update with its own, in either type",
        helps_when="Intel processors with AVX-512 or AMX; the last version of the extension is 2.8",
        effect="autoaccel.runtime.knobs.extension:IpexOptimize",
        values=choices("off", "float32", "bfloat16"),
        usual=always("off"),
        off="off",
        why_unavailable=_why_no_ipex,
        clashes=(
            Clash(equals("bfloat16"), "precision.autocast", lambda value: value != "bfloat16",
                  "its bfloat16 weights need bfloat16 activations"),
            Clash(equals("float32"), "precision.autocast", ON, "its float32 weights need float32 activations"),
            Clash(ON, "optimizer.fused", ON, "it replaces the update with its own"),
            Clash(ON, "layout.channels_last", ON, "it chooses the layout of weights itself"),
        ),
        start_seconds=1.0,  # weights are stored anew
    ),
)  # fmt: skip
"""Those of extensions."""
