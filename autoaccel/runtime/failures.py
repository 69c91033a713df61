"""What the user's code has raised, as the failure that it is."""

from __future__ import annotations

from autoaccel.errors import AutoaccelError
from autoaccel.records.trial import Failure
from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.library_errors import kind_of
from autoaccel.runtime.loading import user_traceback


def failure_from(error: BaseException) -> Failure:
    """Return the failure that an error is, whoever has raised it."""
    if isinstance(error, AutoaccelError):
        return Failure(kind="invalid", message=str(error))
    if isinstance(error, IneffectiveError):
        return Failure(kind="ineffective", message=str(error))
    if isinstance(error, SystemExit):
        message = f"the code ended its own process with exit({error.code!r})"
        return Failure(kind="exited", message=message, traceback=user_traceback(error))
    message = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
    return Failure(kind=kind_of(error), message=message, traceback=user_traceback(error))
