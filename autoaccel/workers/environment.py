"""The environment variables of a worker."""

from __future__ import annotations

from collections.abc import Mapping

WORKER_MARK = "AUTOACCEL_WORKER"
"""Set in every worker, so that a program that calls autotune() while it is being tuned can be told so."""


TEMPORARY_VARIABLE = "TMPDIR"
"""Names the folder for temporary files, to Python's `tempfile` and to C libraries."""


def worker_environment(own: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a worker: the user's own with these changes.

    Libraries that the user preloads stay, after those of the changes.
    """
    preloaded = ":".join(filter(None, (changes.get("LD_PRELOAD"), own.get("LD_PRELOAD"))))
    variables = {**own, **changes, WORKER_MARK: "1"}
    return {**variables, "LD_PRELOAD": preloaded} if preloaded else variables
