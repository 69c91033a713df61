"""What a person would write to have the effect of settings without autoaccel."""

from __future__ import annotations

from typing import Literal, NamedTuple

Place = Literal["start", "loader", "optimizer", "model", "compile", "forward"]
"""Where code stands: after the imports, as an argument of the loader or of the optimizer, after the model was made (the
code calls it {model}), as an argument of torch.compile, or as what the model's call in training is within."""


class ByHand(NamedTuple):
    """Code that has the effect of a value."""

    place: Place
    code: str
    also: str = ""  # what else must be changed, where nobody can say


class ChangedFile(NamedTuple):
    """A file before and after."""

    name: str
    before: str
    after: str


class Unplaced(NamedTuple):
    """Code for which no place was found."""

    setting: str  # "loader.workers=2"
    by_hand: ByHand
    switch: str = ""  # what a trainer is told instead, such as "TrainingArguments(..., bf16=True)"


class Explanation(NamedTuple):
    """What has the effect of a recipe on a script."""

    command: tuple[str, ...]  # that starts it, with its variables
    is_started_otherwise: bool  # whether that is not how the person starts it
    files: tuple[ChangedFile, ...]
    also: tuple[Unplaced, ...]  # of what has its place: what else must be changed
    unplaced: tuple[Unplaced, ...]
    impossible: tuple[str, ...]  # settings for which no line has the same effect
