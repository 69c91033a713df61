"""Which sampler chooses the trials: autoaccel's, one of Optuna's, or a class of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from autoaccel.errors import BadRequestError
from autoaccel.records.options import OPTUNAS_SAMPLERS, OWN_SAMPLER

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

_NEEDS = {"gp": ("scipy", "torch"), "cmaes": ("cmaes",)}  # packages that Optuna does not bring


def check_sampler(name: str) -> None:
    """Refuse a sampler that cannot be had.

    Raises:
        BadRequestError: Saying what to type instead, or to install.
    """
    if name != OWN_SAMPLER:
        make_sampler(name, seed=0)


def make_sampler(name: str, seed: int) -> BaseSampler:
    """Return one of Optuna's samplers, or one of a class of the user's own.

    Args:
        name: A short one of `OPTUNAS_SAMPLERS`, or "module:Class" with a subclass of optuna.samplers.BaseSampler that
            is made without arguments, or with a seed.
        seed: Of what it draws by chance.

    Raises:
        BadRequestError: If there is no such sampler, or it needs a package that is not installed.
    """
    import optuna

    if ":" in name:
        found = _class_of(name)
    elif name in OPTUNAS_SAMPLERS:
        found = getattr(optuna.samplers, OPTUNAS_SAMPLERS[name])
        if missing := [package for package in _NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]:
            raise BadRequestError(f"--sampler {name}: needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    else:
        raise BadRequestError(
            f"--sampler must be {OWN_SAMPLER}, {', '.join(OPTUNAS_SAMPLERS)}, or module:Class with a class of your "
            f"own, got {name}."
        )
    return _made(name, found, seed)


def _class_of(name: str) -> Callable[..., object]:
    """Return the class that "module:Class" names; modules in the working folder are found."""
    module_name, _, class_name = name.partition(":")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise BadRequestError(
            f"--sampler {name}: there is no module {error.name}. Run autoaccel in the folder of {module_name}.py, or "
            "install its package."
        ) from error
    except Exception as error:
        raise BadRequestError(
            f"--sampler {name}: {module_name} cannot be imported ({type(error).__name__}: {error}). "
            f'Try it with: python -c "import {module_name}"'
        ) from error
    finally:
        sys.path.remove(folder)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise BadRequestError(f"--sampler {name}: {module_name} has no class {class_name}.")
    return found


def _made(name: str, sampler: Callable[..., object], seed: int) -> BaseSampler:
    """Return an instance."""
    from optuna.exceptions import ExperimentalWarning
    from optuna.samplers import BaseSampler

    try:
        taken = inspect.signature(sampler).parameters
        arguments: dict[str, object] = {"seed": seed}
        if name in _NEEDS:  # these would tell of each knob that they draw it by itself, because it is a choice
            arguments["warn_independent_sampling"] = False
        if name == "cmaes":  # and of each trial that it goes by the value alone
            warnings.filterwarnings("ignore", message="Constraints have been set", category=UserWarning)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # whoever names a sampler has asked for it
            made = sampler(**{name: value for name, value in arguments.items() if name in taken})
    except Exception as error:
        raise BadRequestError(
            f"--sampler {name}: it must accept no arguments, or a seed ({type(error).__name__}: {error})."
        ) from error
    if not isinstance(made, BaseSampler):
        raise BadRequestError(f"--sampler {name}: must be a subclass of optuna.samplers.BaseSampler.")
    return made
