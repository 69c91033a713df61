"""Write docs/words.md from the code: `python tools/write_words.py`."""

from __future__ import annotations

import ast
import re
from itertools import groupby
from pathlib import Path

from figures import Word, words_below_tune

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "autoaccel"
PAGE = ROOT / "docs" / "words.md"
MAX_CHARACTERS = 160
HEAD = """# Words

The classes and functions of ours whose names a reader meets on the way from `tune()`, in
[session/tuning.py](../autoaccel/session/tuning.py), down to the bench: in `session/`, `proof/` and `runs/` each that is
named there, of the other rooms those that are named in these. Of each the first sentence of its docstring; classes
come first. The most important ones are in [The parts of the house](architecture.md#words), by what they mean. Written
by `tools/write_words.py`.
"""


def row(word: Word, node: ast.AST) -> str:
    """Return what the page says of one word.

    Raises:
        ValueError: If it has no docstring.
    """
    assert isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    text = ast.get_docstring(node)
    if text is None:
        raise ValueError(f"{word.module}: {word.name} must have a docstring, for docs/words.md")
    return f"- `{word.name}{'' if isinstance(node, ast.ClassDef) else '()'}`: {first_sentence(text)}"


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring in one line, cut between words if it is long."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.]) (?=[A-Z`])", paragraph, maxsplit=1)[0]
    if len(sentence) <= MAX_CHARACTERS:
        return sentence
    return f"{sentence[:MAX_CHARACTERS].rpartition(' ')[0].rstrip(',;:')} ..."


def page() -> str:
    """Return the whole page."""
    trees = {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    words = words_below_tune(trees)
    parts = [HEAD]
    for room, of_room in groupby(words, lambda word: word.module.partition("/")[0]):
        parts.append(f"\n## `{room}{'' if room.endswith('.py') else '/'}`\n")
        for module, of_module in groupby(of_room, lambda word: word.module):
            ordered = sorted(of_module, key=lambda word: not isinstance(words[word], ast.ClassDef))
            parts.append(f"\n[{module}](../autoaccel/{module})\n\n")
            parts.extend(f"{row(word, words[word])}\n" for word in ordered)
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
