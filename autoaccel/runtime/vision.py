"""Make `import torchvision` work beside a build of torch that its compiled part was not linked for.

On a machine without a GPU the torchvision of a registry may be linked against CUDA while torch is a CPU build; then
importing it fails, because it registers fake kernels for operators that nobody has declared. With the two declared,
models, transforms and datasets work; the operators themselves, and decoding of images, still do not.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[object] = []  # what is declared lasts only as long as its library


def watch_for_torchvision() -> None:
    """From now on importing torchvision, whoever does it, is repaired if it needs to be."""
    if not any(isinstance(finder, _TorchvisionFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchvisionFinder())


class _TorchvisionFinder(importlib.abc.MetaPathFinder):
    """Finds torchvision where it is, and has it loaded with care.

    It stays: whoever only asks whether torchvision is there, as transformers does, must not use it up.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _TorchvisionLoader(spec.loader.name, spec.loader.path)
        return spec


class _TorchvisionLoader(SourceFileLoader):
    """Loads it; where the operators are missing, declares them and loads it again."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except RuntimeError as error:
            if _MISSING not in str(error):
                raise
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
            _declare_operators()
            super().exec_module(module)


def _declare_operators() -> None:
    import torch  # not before it is needed: the fork server watches before it has imported torch

    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    _declared.append(library)
