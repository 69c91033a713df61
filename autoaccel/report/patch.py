"""What to change in a script by hand: a command, a patch, and words for what neither can say."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from autoaccel.records.by_hand import ByHand, Explanation, Unplaced
from autoaccel.text import one_line, shell_word

_WHERE = {
    "start": "after the imports",
    "loader": "an argument of the DataLoader that feeds the training",
    "optimizer": "an argument of the optimizer",
    "model": "after the model is made",
    "compile": "where the model is made",
    "forward": "around each call of the model in training",
}


def patch_lines(explanation: Explanation) -> Iterator[str]:
    """Yield the lines to print; all but the patch are comments, each of one line, so that `patch` can read them."""
    if explanation.is_started_otherwise:
        yield f"# Start it with: {_shown(explanation.command)}"
    for file in explanation.files:
        # Not by splitlines(), which ends lines where `patch` does not, such as at a form feed.
        before, after = (text.removesuffix("\n").split("\n") for text in (file.before, file.after))
        name = one_line(file.name)
        yield from difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="", n=2)
    for line in explanation.also:
        yield one_line(f"# {line.setting} also needs: {line.by_hand.also}")
    for line in explanation.unplaced:
        yield one_line(f"# {line.setting}{_what(line)}")
    for setting in explanation.impossible:
        yield one_line(f"# {setting}: no line has the same effect; `autoaccel run` has")


def _shown(command: tuple[str, ...]) -> str:
    """Return a command for a shell; variables before it are none of its words."""
    words = []
    for word in command:
        name, equals, value = word.partition("=")
        is_variable = equals and name.isidentifier() and name.isupper()
        words.append(f"{name}={shell_word(value)}" if is_variable else shell_word(word))
    return " ".join(words)


def _what(line: Unplaced) -> str:
    return f": {line.switch}" if line.switch else f", {_WHERE[line.by_hand.place]}: {_code(line.by_hand)}"


def _code(by_hand: ByHand) -> str:
    also = f" (also {by_hand.also})" if by_hand.also else ""
    prefix = "with " if by_hand.place == "forward" else ""
    return f"{prefix}{by_hand.code.replace('{model}', 'model')}{also}"
