"""What the trainers of well-known packages are told, where no line of a script makes the model or loader itself."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from autoaccel.records.settings import Settings, Value, format_value

_Switches = Mapping[str, "str | dict[str, str]"]

_TRANSFORMERS: _Switches = {
    "compile.mode": 'torch_compile=True, torch_compile_mode="{}"',
    "compile.backend": 'torch_compile_backend="{}"',
    "precision.autocast": {"bfloat16": "bf16=True", "float16": "fp16=True"},
    "loader.workers": "dataloader_num_workers={}",
    "loader.prefetch": "dataloader_prefetch_factor={}",
    "loader.persistent": "dataloader_persistent_workers={}",
    "loader.pin_memory": "dataloader_pin_memory={}",
    "optimizer.fused": {"True": 'optim="adamw_torch_fused"'},
}
_SKORCH: _Switches = {
    "compile.mode": 'compile=True, compile__mode="{}"',
    "compile.backend": 'compile__backend="{}"',
    "loader.workers": "iterator_train__num_workers={}",
    "loader.prefetch": "iterator_train__prefetch_factor={}",
    "loader.persistent": "iterator_train__persistent_workers={}",
    "loader.pin_memory": "iterator_train__pin_memory={}",
    "optimizer.fused": "optimizer__fused={}",
}
_LIGHTNING: _Switches = {
    "precision.autocast": {"bfloat16": 'precision="bf16-mixed"', "float16": 'precision="16-mixed"'}
}

_BY_CLASS: dict[str, _Switches] = {
    "TrainingArguments": _TRANSFORMERS,
    "Seq2SeqTrainingArguments": _TRANSFORMERS,
    "SentenceTransformerTrainingArguments": _TRANSFORMERS,
    "SFTConfig": _TRANSFORMERS,
    "NeuralNet": _SKORCH,
    "NeuralNetClassifier": _SKORCH,
    "NeuralNetBinaryClassifier": _SKORCH,
    "NeuralNetRegressor": _SKORCH,
}
_OF_PACKAGES: dict[tuple[str, str], _Switches] = {
    ("lightning", "Trainer"): _LIGHTNING,
    ("pytorch_lightning", "Trainer"): _LIGHTNING,
}
"""Classes whose name other packages have, too."""


def switches_of(tree: ast.AST, values: Settings) -> dict[str, str]:
    """Return how a script's call of a trainer is to be changed for each of these values that it has a switch for.

    Args:
        tree: Of the script.
        values: By knob.
    """
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            imported |= {name.partition(".")[0] for name in names}
    by_class = {**_BY_CLASS, **{name: of for (package, name), of in _OF_PACKAGES.items() if package in imported}}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        kind = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        for knob, switch in by_class.get(kind, {}).items():
            if knob in values and (words := _said(switch, values[knob])):
                found.setdefault(knob, f"{kind}(..., {words})")
    return found


def _said(switch: str | dict[str, str], value: Value) -> str:
    if isinstance(switch, str):
        return switch.format(value)
    return switch.get(format_value(value), switch.get(str(value), ""))
