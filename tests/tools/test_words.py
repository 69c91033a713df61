"""docs/words.md: what is written of the code's own words, and that it is what the code says today."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITTEN = runpy.run_path(str(ROOT / "tools" / "write_words.py"))


def test_the_page_of_words_is_what_the_code_says() -> None:
    assert (ROOT / "docs" / "words.md").read_text("utf-8") == WRITTEN["page"](), "run: python tools/write_words.py"


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Return\n    it.", "Return it."),
        ("The first. The second.", "The first."),
        ("As `1.5 h` says. More.\n\nArgs:\n    of: It.", "As `1.5 h` says."),
        ("Many, " + "x" * 150 + ", " + "y" * 20, "Many, " + "x" * 150 + " ..."),
    ],
)
def test_a_word_has_the_first_sentence_of_its_docstring_in_one_line(docstring: str, sentence: str) -> None:
    assert WRITTEN["first_sentence"](docstring) == sentence


IN_SPEECH = {"Run", "Stage", "Trial", "Pair", "Evidence", "Updates"}
"""Capitals of the table's first words that are no names of the code."""


def test_each_name_in_the_table_that_people_write_is_one_of_the_code() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("## Words\n")[2]
    told = set(re.findall(r"\b[A-Z]\w+", " ".join(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[2:])))
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "autoaccel").rglob("*.py"))
    assert "WorkerGroup" in told
    defined = set(re.findall(r"^(?:class )?([A-Z]\w+).*[:=]", source, re.MULTILINE))
    assert told - IN_SPEECH - defined == set()
