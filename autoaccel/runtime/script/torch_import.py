"""Be called when a script has imported torch, whenever that is. Imports nothing but the standard library."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_torch_is_imported(then: Callable[[], None]) -> None:
    """Call the function once torch is imported, before whoever imports it goes on; now, if it is there already."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchFinder(then))


class _TorchFinder(MetaPathFinder):
    """Finds torch as it would be found anyway, until it is loaded: libraries may ask first whether it is there."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._is_asking = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch" or self._is_asking:
            return None
        self._is_asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader, self._loaded)
        return spec

    def _loaded(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._then()


class _TorchLoader(Loader):
    """Loads torch, leaves no trace in it, and tells."""

    def __init__(self, own: Loader, then: Callable[[], None]) -> None:
        self._own = own
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        self._then()
