"""Python imports this at the start of whatever a script, or its launcher, starts, as its folder is first on the path.

It lets autoaccel hear the script, then gives way to the sitecustomize that Python would have imported, if there is one.
"""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_HOME = str(_HERE.parents[3])


def _hear() -> None:
    sys.path.append(_HOME)
    try:
        from autoaccel.runtime.script.launched import join_training
        from autoaccel.runtime.vision import watch_for_torchvision
    finally:
        sys.path.remove(_HOME)
    watch_for_torchvision()
    # The launcher itself has its variables for those that it starts.
    if os.environ["AUTOACCEL_LAUNCHER"] != str(os.getpid()):
        join_training()


def _give_way() -> None:
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != _HERE]
    own = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # whose there is, if any
    except ModuleNotFoundError as error:
        sys.modules["sitecustomize"] = own
        if error.name != "sitecustomize":
            raise


def _count() -> None:
    sys.path.append(_HOME)
    try:
        from autoaccel.runtime.script.launched import join_script
    finally:
        sys.path.remove(_HOME)
    join_script()


if "AUTOACCEL_LAUNCHER" in os.environ:
    _hear()
elif "AUTOACCEL_COUNTED" in os.environ:
    _count()
_give_way()
