"""autoaccel finds out by measuring which settings make a PyTorch training faster, and proves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Clip", "Recipe", "Training", "apply", "autotune", "live", "report"]

if TYPE_CHECKING:
    from autoaccel.api import apply, autotune
    from autoaccel.records.recipe import Recipe
    from autoaccel.runtime.clipping import Clip
    from autoaccel.runtime.training import Training

# Imported at first use: `import autoaccel` must stay instant, and torch takes seconds.
_HOMES = {
    "Clip": "autoaccel.runtime.clipping",
    "Recipe": "autoaccel.records.recipe",
    "Training": "autoaccel.runtime.training",
    "apply": "autoaccel.api",
    "autotune": "autoaccel.api",
}
_PACKAGES = {"live", "report"}  # that can be called


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in _PACKAGES:
        raise AttributeError(f"module 'autoaccel' has no attribute {name!r}")
    import importlib

    if name in _PACKAGES:
        return importlib.import_module(f"autoaccel.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
