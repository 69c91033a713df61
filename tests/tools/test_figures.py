"""The figures of the code: which names of classes mean two things."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LABEL = "class names defined in more than one module"


def shared_names(root: Path) -> list[str]:
    """Return what the tool prints of the names that a checkout defines more than once: how many, then each."""
    told = list(runpy.run_path(str(ROOT / "tools" / "figures.py"))["figures"](root))
    start = [label for label, _ in told].index(LABEL)
    rest = [label for label, _ in told[start + 1 :]]
    end = next((number for number, label in enumerate(rest) if label), len(rest))
    return [value for _, value in told[start : start + 1 + end]]


def test_each_class_name_means_one_thing() -> None:
    assert shared_names(ROOT) == ["0"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("class Limits: ...\n", ["1", "Limits: first.py, inner/second.py"]),
        ("class Outer:\n    class Limits: ...\n", ["1", "Limits: first.py, inner/second.py"]),
        ("class Other: ...\n", ["0"]),
        ("from first import Limits\n", ["0"]),
    ],
)
def test_a_name_of_two_modules_is_told_with_its_modules(tmp_path: Path, second: str, told: list[str]) -> None:
    package = tmp_path / "autoaccel"
    (package / "inner").mkdir(parents=True)
    (package / "first.py").write_text("def ask(limit):\n    return limit\n\n\nclass Limits: ...\n")
    (package / "inner" / "second.py").write_text(second)
    assert shared_names(tmp_path) == told
