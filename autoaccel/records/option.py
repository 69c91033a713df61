"""Option: what is declared of an option, which is an annotation of the field that holds its value.

No msgspec: `autoaccel --help` imports this, and is instant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def _as_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Option:
    """The declaration of one option. In an annotation without name, type and default: these are the field's own."""

    help: str
    name: str = ""
    type: Any = str
    default: Any = None
    unset: str = ""
    """What a default of None means, in words."""
    spelling: str = ""
    """On the command line, if it is not the name with dashes."""
    metavar: str | None = None
    min: int | None = None
    max: int | None = None
    reason: str = ""
    """Why less than `min` is refused, if that needs a word."""
    of_scripts: bool = False
    """Whether it is for a script alone; its help begins with that."""
    store: Callable[[Any], Any] = _as_is
    """Turns a value as given into the one that is kept."""

    @property
    def flag(self) -> str:
        """How the command line spells it, such as `--max-drop`."""
        return f"--{self.spelling or self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """Whether it has no value on the command line."""
        return self.type is bool

    @property
    def is_repeated(self) -> bool:
        """Whether it holds several values, each with a flag of its own on the command line."""
        return get_origin(self.type) is Sequence

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have; empty if these cannot be listed."""
        kind = self._kind
        return get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def parse(self) -> Callable[[str], Any]:
        """Turns one text of the command line into a value: the first of the types that it may have."""
        if self.is_repeated or self.choices:
            return str
        kind: Callable[[str], Any] = self._kind
        return kind

    @property
    def _kind(self) -> Any:
        """The type, or the first of several."""
        return get_args(self.type)[0] if get_origin(self.type) in (Union, UnionType) else self.type

    @property
    def help_with_default(self) -> str:
        """The help, and what holds where nothing is said."""
        help = f"of a script: {self.help}" if self.of_scripts else self.help
        if self.is_switch or self.is_repeated:
            return help
        return f"{help} (default: {self.unset if self.default is None else self.default})"


def options_of(record: type[Any]) -> tuple[Option, ...]:
    """Return the options that the fields of a record declare, in their order."""
    hints = get_type_hints(record, include_extras=True)
    return tuple(
        dataclasses.replace(declared, name=field.name, type=get_args(hints[field.name])[0], default=field.default)
        for field in dataclasses.fields(record)
        for declared in hints[field.name].__metadata__
    )
