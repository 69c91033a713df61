"""What can go wrong, one class for each different reaction. Only cli prints them."""

from __future__ import annotations


class AutoaccelError(Exception):
    """Base of every error that autoaccel raises on purpose; the message tells what to do next."""

    exit_code = 2


class BadRequestError(AutoaccelError):
    """The request cannot be met as it stands: a file, an option, a recipe or a return value is wrong."""


class WorkloadFailedError(AutoaccelError):
    """The user's own code failed under the user's own settings; there is nothing to tune."""

    exit_code = 3


class BudgetSpentError(AutoaccelError):
    """Time ran out before the stage that needed it had an answer, or cannot suffice for the stages to come."""
