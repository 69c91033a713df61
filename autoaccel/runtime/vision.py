"""Make `import torchvision` work beside a build of torch that its compiled part was not linked for.

On a machine without a GPU the torchvision of a registry may be linked against CUDA while torch is a CPU build; then
importing it fails, because it registers fake kernels for operators that nobody has declared. With the two declared,
models, transforms and datasets work; the operators themselves, and decoding of images, still do not.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

import torch

_MISSING = "operator torchvision::nms does not exist"
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # what is declared lasts only as long as its library


def watch_for_torchvision() -> None:
    """From now on, the first import of torchvision is repaired if it needs to be."""
    if "torchvision" not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds torchvision where it is, and has it loaded with care."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torchvision":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads it; where the operators are missing, declares them and loads it again."""

    def __init__(self, usual: importlib.abc.Loader) -> None:
        self._usual = usual

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._usual.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._usual
        try:
            self._usual.exec_module(module)
        except RuntimeError as error:
            if _MISSING not in str(error):
                raise
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch leaves it untyped
            for schema in _SCHEMAS:
                library.define(schema)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            _declared.append(library)
            self._usual.exec_module(module)
