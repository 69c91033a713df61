"""Which cases of a test every commit runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def rest_is_long(cases: Iterable[Any], quick: int = 1) -> list[ParameterSet]:
    """Return the cases of a test; all but the first few are for `make check-long`, as they show nearly the same.

    Args:
        cases: Parameters, as `pytest.mark.parametrize` takes them.
        quick: How many of them every commit runs.
    """
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, (tuple, ParameterSet)) else (case,)
        made = values if isinstance(values, ParameterSet) else pytest.param(*values)
        found.append(made if number < quick else made._replace(marks=(*made.marks, pytest.mark.long)))
    return found
