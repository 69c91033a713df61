"""Text that may be printed, and words that may be pasted into a shell, whoever wrote them.

Recipes, run folders, studies and names of files are data from strangers: an escape sequence in them could rewrite the
reader's terminal, and a line end in them could begin a command.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable


def printable(text: str) -> str:
    """Return the text with a question mark for each character that cannot be seen, but for line ends and tabs.

    These are control characters, marks that reverse the direction of writing, and halves of characters.
    """
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else "?" for char in text)


def one_line(text: str) -> str:
    """Return the text as one printable line."""
    return printable(" ".join(text.split()))


def say(text: str, to_stderr: bool = False) -> None:
    """Print lines for people to stdout or stderr, at once; what cannot be seen in them is a question mark."""
    print(printable(text), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def visible_json(text: str) -> str:
    """Return JSON in which characters that cannot be seen are escaped; it says the same."""
    # Outside of strings JSON has only visible characters and line ends.
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)


def shell_word(text: str) -> str:
    r"""Return the text as one word for bash or zsh, in visible characters only.

    What cannot be seen is written in bytes: `$'a\x0ab'` (bash(1), QUOTING).
    """
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_in_dollar_quotes, text))}'"


def shell_command(words: Iterable[str]) -> str:
    """Return words as a command for bash or zsh."""
    return " ".join(map(shell_word, words))


def _in_dollar_quotes(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    # A byte of a file's name that is no UTF-8 is one of these halves (PEP 383).
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", errors))
