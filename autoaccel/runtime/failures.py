"""What the user's code has raised, as the failure that it is."""

from __future__ import annotations

from autoaccel.errors import AutoaccelError
from autoaccel.records.messages import Failure
from autoaccel.runtime.knobs.effect import IneffectiveError
from autoaccel.runtime.library_errors import first_line, is_lost_connection, kind_of, signature_of
from autoaccel.runtime.loading import user_traceback


def failure_from(error: BaseException) -> Failure:
    """Return the failure that an error is, whoever has raised it."""
    if isinstance(error, AutoaccelError):
        return Failure(kind="invalid", message=str(error), signature=signature_of(error))
    if isinstance(error, IneffectiveError):
        return Failure(kind="ineffective", message=str(error), signature=signature_of(error))
    if isinstance(error, SystemExit):
        message = f"the code ended its own process with exit({error.code!r})"
        return Failure(kind="exited", message=message, traceback=user_traceback(error), signature="SystemExit")
    return Failure(
        kind=kind_of(error),
        message=first_line(error),
        traceback=user_traceback(error),
        signature=signature_of(error),
        lost_connection=is_lost_connection(error),
    )
