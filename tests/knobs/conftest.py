"""What a test applies stays its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _restored(process_restored: None) -> None:
    """Leave the process as it was."""
