"""How long a script plans to train, read from the loops around its updates. Source is read, never changed."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

from torch.utils.data import DataLoader

from autoaccel.runtime.script.counts import Loop, counts_of
from autoaccel.runtime.script.limits import Limit, is_assigned, limits_of, mentions, rounds_while
from autoaccel.runtime.script.numbering import length_of
from autoaccel.runtime.script.places import is_users, place_of
from autoaccel.runtime.script.reading import (
    Names,
    NamesGiven,
    Unreadable,
    loops_at,
    tree_of,
    unless_unreadable,
    value_of,
)

_ASSUMED_EPOCHS = 10  # where the planned length cannot be read,
_ASSUMED_STEPS = 1000  # nor how long an epoch is
_MAX_ASSUMED_SECONDS = 24 * 3600.0  # samplers that are not meant to end say that an epoch has 10**10 samples

_MAX_ELEMENTS = 100  # of what a loop goes through, for each of which one inside of it is read

_COMPREHENSIONS = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"})  # lists' until Python 3.11
_SAME_LENGTH = frozenset({"enumerate", "tqdm", "track", "progress_bar", "iter", "reversed", "list"})
"""Functions that give as many elements as their first argument has."""


class EnclosingLoop(NamedTuple):
    """A loop around an update, or the limit of several of them."""

    words: str  # "range(epochs) in train.py:48"
    rounds: int | None  # None: that cannot be read
    makes_loader: bool = False  # it is over a DataLoader that is made in the same line
    length: int | None = None  # of what it is over, which a limit may not let it reach
    counts_updates: bool = False  # it is limited by a count of updates, not of rounds
    updates_at_end: bool = False  # the update is made under one of several conditions, such as that an epoch ends


def loops_around(frames: Sequence[FrameType]) -> list[EnclosingLoop]:
    """Return the loops that the program is in, the innermost first.

    Args:
        frames: Of the user's own code and of packages, the innermost first.
    """
    found: list[EnclosingLoop] = []
    has_own = False  # whether a loop of the user's own is among them
    is_given_out = False  # whether the last function with loops was a generator
    for frame in frames:
        inside = loops_of(frame)
        if has_own and not is_users(frame):
            # A command line's `while True:` that calls a user's main() does so once.
            inside = [
                loop for loop in inside if not (isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant))
            ]
        has_own = has_own or bool(inside and is_users(frame))
        loops, is_program = _read_all(inside, frame)
        if found and loops and is_given_out:
            # What trains is a generator: a loop goes through it, which may end before the generator does.
            loops = [*loops[:-1], loops[-1]._replace(rounds=None)]
        is_given_out = bool(frame.f_code.co_flags & inspect.CO_GENERATOR) or (is_given_out and not loops)
        found += reversed(loops)
        if is_program:
            break  # whatever is around them is left as well
    return found


def planned_rounds(loops: Sequence[EnclosingLoop]) -> int | None:
    """Return how many times the inside of all these loops is run; None if that cannot be read, or there are none."""
    rounds = [loop.rounds for loop in loops]
    known = [each for each in rounds if each is not None]
    return math.prod(known) if rounds and len(known) == len(rounds) else None


def assumed_steps(steps_per_epoch: int | None, step_seconds: float) -> int:
    """Return how many steps a training is taken to plan that does not say it: ten epochs, a day at most.

    Args:
        steps_per_epoch: None: that is not known either.
        step_seconds: Of a step, as it was seen; above zero.
    """
    steps = _ASSUMED_STEPS if steps_per_epoch is None else steps_per_epoch * _ASSUMED_EPOCHS
    return max(1, min(steps, int(_MAX_ASSUMED_SECONDS / step_seconds)))


def loops_of(frame: FrameType) -> list[Loop]:
    """Return the loops of a frame's own function around its line, the outermost first."""
    if frame.f_code.co_name in _COMPREHENSIONS:
        return []  # the loops around its line are those of the function that it is in
    tree = tree_of(frame.f_code.co_filename)
    return loops_at(tree, frame) if tree is not None else []


def words_of(loop: Loop, frame: FrameType) -> str:
    """Return what a loop is called, such as "range(epochs) in train.py:48"."""
    expression = loop.iter if isinstance(loop, ast.For) else loop.test
    return f"{ast.unparse(expression)} in {place_of(frame).partition(':')[0]}:{loop.lineno}"


def unwrapped(expression: ast.expr) -> ast.expr:
    """Return what a progress bar or the like is shown of; enumerate() stays."""
    while isinstance(expression, ast.Call) and expression.args:
        name = ast.unparse(expression.func).rpartition(".")[2]
        if name not in _SAME_LENGTH - {"enumerate", "reversed"}:
            break
        expression = expression.args[0]
    return expression


def _read_all(loops: Sequence[Loop], frame: FrameType) -> tuple[list[EnclosingLoop], bool]:
    """Return the loops of one function as they are read, the outermost first, and whether their end is the program's.

    Args:
        loops: The outermost first.
        frame: That they are in.
    """
    read = [_read(loop, frame) for loop in loops]
    for place, loop in enumerate(loops):
        if _differs_from_round_to_round(loop, loops[:place], read[:place], frame):
            read[place] = read[place]._replace(rounds=None, makes_loader=False)
    for place in reversed(range(len(loops))):
        loop, around, inside = loops[place], loops[:place], read[place + 1 :]
        try:
            limits = limits_of(loop, around, frame)
        except (Unreadable, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError):
            read[place] = read[place]._replace(rounds=None, makes_loader=False)
            continue
        for limit in limits:
            own = read[place].rounds
            file = place_of(frame).partition(":")[0]
            limited = read[place]._replace(
                words=f"{limit.words} in {file}:{limit.line}",
                rounds=limit.rounds,
                makes_loader=False,
                counts_updates=limit.counts_updates,
            )
            begins_anew = limit.counted not in counts_of(loop, frame.f_lineno).growing or is_assigned(
                limit.counted, around
            )
            if begins_anew and own is not None and limit.rounds > own:
                continue  # it never comes to that
            if limit.leaves == "loop" and (begins_anew or not around):
                if own is None or limit.rounds < own:
                    read[place] = limited
                continue
            if limit.leaves == "loop" and not any(mentions(limit.counted, outer) for outer in around):
                limited = limited._replace(rounds=_with_rests(limit, own, read[:place]))
            whole = planned_rounds(read[: place + 1])
            if limited.rounds is None or whole is None or limited.rounds < whole:
                return [limited, *inside], limit.leaves == "program"
    return _that_count(loops, read, frame), False


def _with_rests(limit: Limit, own: int | None, around: Sequence[EnclosingLoop]) -> int | None:
    """Return the rounds of a loop that is left at a limit of all epochs, and begun again all the same in later ones."""
    epochs = planned_rounds(around)
    if epochs is None or own is None:
        return None
    later = max(0, epochs - math.ceil(limit.rounds / own))
    return limit.rounds + later * limit.is_made_first


def _that_count(loops: Sequence[Loop], read: list[EnclosingLoop], frame: FrameType) -> list[EnclosingLoop]:
    """Return the loops, those within one left out that limits the number of their rounds: `while step < max_steps`."""
    for place, loop in enumerate(loops):
        inside = loops[place + 1 :]
        if not isinstance(loop, ast.While) or not isinstance(loop.test, ast.Compare):
            continue
        count = ast.unparse(loop.test.left)
        counts = [counts_of(inner, frame.f_lineno) for inner in inside]
        if not any(count in each.growing for each in counts):
            continue
        limit, epoch = read[place], planned_rounds(read[place + 1 :])
        if limit.rounds is not None and not any(mentions(count, inner) for inner in inside):
            # It is compared once an epoch.
            limit = limit._replace(rounds=None if epoch is None else math.ceil(limit.rounds / epoch) * epoch)
        beside = any(count in each.beside_update for each in counts)
        return [*read[:place], limit._replace(length=read[-1].length, counts_updates=beside)]
    return read


def _differs_from_round_to_round(
    loop: Loop, around: Sequence[Loop], read: Sequence[EnclosingLoop], frame: FrameType
) -> bool:
    """Whether a loop makes more rounds in some rounds of a loop around it than in others: `for batch in of[domain]`.

    Args:
        loop: The inner one.
        around: The loops around it.
        read: What is known of these.
        frame: That they are in.
    """
    if not isinstance(loop, ast.For):
        return False
    names = {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}
    for outer, known in zip(around, read, strict=True):
        is_named = isinstance(outer, ast.For) and isinstance(outer.target, ast.Name) and outer.target.id in names
        if not is_named or known.rounds == 1:
            continue
        assert isinstance(outer, ast.For) and isinstance(outer.target, ast.Name)  # it is named
        elements = unless_unreadable(_elements, outer.iter, frame)
        if elements is None:
            return True
        each = [NamesGiven({**frame.f_locals, outer.target.id: element}, frame.f_globals) for element in elements]
        if len({unless_unreadable(_rounds, loop.iter, bound) for bound in each}) > 1:
            return True
    return False


def _elements(expression: ast.expr, frame: Names) -> list[Any] | None:
    """Return the elements of a list, or the numbers of a range, that a loop goes through; None for anything else."""
    if isinstance(expression, (ast.List, ast.Tuple)):
        return [value_of(one, frame) for one in expression.elts]
    if isinstance(expression, ast.Call) and ast.unparse(expression.func) == "range":
        return list(range(*(int(value_of(each, frame)) for each in expression.args))[:_MAX_ELEMENTS])
    found = value_of(expression, frame)
    return list(found)[:_MAX_ELEMENTS] if type(found) in (list, tuple, dict) else None


def _read(loop: Loop, frame: FrameType) -> EnclosingLoop:
    expression = loop.iter if isinstance(loop, ast.For) else loop.test
    words = words_of(loop, frame)
    if _is_for_onevalue_of(loop, frame.f_lineno):
        rounds: int | None = 1
    elif isinstance(loop, ast.For):
        rounds = unless_unreadable(_rounds, loop.iter, frame)
    else:
        rounds = unless_unreadable(rounds_while, loop, frame)
    makes_loader = rounds is None and _makes_loader(expression, frame)
    return EnclosingLoop(words, rounds, makes_loader, rounds, updates_at_end=_updates_at_end(loop, frame.f_lineno))


def _is_for_onevalue_of(loop: Loop, line: int) -> bool:
    """Whether a line within a loop is run for one of its values: `if phase == "train"` in `for phase in phases`."""
    return isinstance(loop, ast.For) and any(
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.ops[0], ast.Eq)
        and ast.unparse(node.test.left) == ast.unparse(loop.target)
        and isinstance(node.test.comparators[0], ast.Constant)
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or line)
        for node in ast.walk(loop)
    )


def _updates_at_end(loop: Loop, line: int) -> bool:
    """Whether a line is run under either of two conditions: `if (i + 1) % 8 == 0 or i + 1 == len(loader)`."""
    return any(
        isinstance(node, ast.If)
        and isinstance(node.test, ast.BoolOp)
        and isinstance(node.test.op, ast.Or)
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or line)
        for node in ast.walk(loop)
    )


def _makes_loader(expression: ast.expr, frame: FrameType) -> bool:
    while isinstance(expression, ast.Call):
        kind = unless_unreadable(value_of, expression.func, frame)
        if isinstance(kind, type) and issubclass(kind, DataLoader):
            return True
        expression = expression.args[0] if expression.args else expression.func
    return False


def _rounds(expression: ast.expr, frame: Names) -> int | None:
    """Return how many elements an expression has that is iterated over, be it wrapped in enumerate() or a progress bar.

    Raises:
        Unreadable: If that takes more than names and numbers.
    """
    if isinstance(expression, (ast.List, ast.Tuple)) and not any(
        isinstance(one, ast.Starred) for one in expression.elts
    ):
        return len(expression.elts)
    if not isinstance(expression, ast.Call):
        return length_of(value_of(expression, frame))
    name = ast.unparse(expression.func).rpartition(".")[2]
    if name in ("range", "trange"):
        return len(range(*(int(value_of(each, frame)) for each in expression.args)))
    if name == "zip":
        found = [unless_unreadable(_rounds, each, frame) for each in expression.args]
        return min((each for each in found if each is not None), default=None)
    if name == "islice" and len(expression.args) == 2:
        there_are = unless_unreadable(_rounds, expression.args[0], frame)
        most = int(value_of(expression.args[1], frame))
        return most if there_are is None else min(most, there_are)
    if name not in _SAME_LENGTH or not expression.args:
        raise Unreadable
    return _rounds(expression.args[0], frame)
