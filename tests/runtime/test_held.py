"""How what loading a sample can reach is called."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from autoaccel.runtime.held import handle_in, walk


class Rows:
    """Makes batches of what it holds."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def collate(self, rows: list[Any]) -> str:
        """Return a batch, as a loader asks for it."""
        return f"{self.file.readline()} {rows}"


def joined(rows: list[Any], between: tuple[str, ...] = ("-",)) -> str:
    """Return a batch."""
    return between[0].join(rows)


def test_what_a_method_reaches_is_called_after_its_object_and_a_default_after_its_function(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.txt"
    path.touch()
    with path.open() as file:
        assert handle_in([Rows(file).collate]) == "Rows.file"
    assert [held.name for held in walk([joined]) if held.thing == "-"] == ["joined[0]"]
