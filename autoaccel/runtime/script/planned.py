"""How long a script plans to train, read from the loops around its updates. Source is read, never changed."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

from torch.utils.data import DataLoader

from autoaccel.runtime.script.numbering import length_of
from autoaccel.runtime.script.places import is_users, place_of
from autoaccel.runtime.script.reading import Unreadable, loops_at, tree_of, unless_unreadable, value_of

_ASSUMED_EPOCHS = 10  # where the planned length cannot be read,
_ASSUMED_STEPS = 1000  # nor how long an epoch is
_MAX_ASSUMED_SECONDS = 24 * 3600.0  # samplers that are not meant to end say that an epoch has 10**10 samples

_COMPREHENSIONS = frozenset({"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"})  # lists' until Python 3.11
_SAME_LENGTH = frozenset({"enumerate", "tqdm", "track", "progress_bar", "iter", "reversed", "list"})
"""Functions that give as many elements as their first argument has."""


class EnclosingLoop(NamedTuple):
    """A loop around an update."""

    words: str  # "range(epochs) in train.py:48"
    rounds: int | None  # None: that cannot be read
    makes_loader: bool = False  # it is over a DataLoader that is made in the same line


def loops_around(frames: Sequence[FrameType]) -> list[EnclosingLoop]:
    """Return the loops that the program is in, the innermost first.

    Args:
        frames: Of the user's own code and of packages, the innermost first.
    """
    found: list[EnclosingLoop] = []
    has_own = False  # whether a loop of the user's own is among them
    for frame in frames:
        if frame.f_code.co_name in _COMPREHENSIONS:
            continue  # the loops around its line are those of the function that it is in
        tree = tree_of(frame.f_code.co_filename)
        inside = _that_count(loops_at(tree, frame)) if tree is not None else []
        if has_own and not is_users(frame):
            # A command line's `while True:` that calls a user's main() does so once.
            inside = [
                loop for loop in inside if not (isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant))
            ]
        has_own = has_own or bool(inside and is_users(frame))
        read = [_read(loop, frame) for loop in reversed(inside)]
        limit = _limit_of_all(inside, frame)
        without = planned_rounds([_read(loop, frame, breaks=False) for loop in inside])
        found += [limit] if limit is not None and (without is None or limit.rounds < without) else read  # type: ignore[operator]  # it has rounds
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


def _counts_up(loop: ast.While) -> bool:
    """Whether a loop itself counts by one what it compares: else something that it calls does, by steps of its own."""
    return isinstance(loop.test, ast.Compare) and any(
        isinstance(node, (ast.AugAssign, ast.Assign)) and _is_one_more(node, ast.unparse(loop.test.left))
        for node in ast.walk(loop)
    )


def _is_one_more(node: ast.AugAssign | ast.Assign, name: str) -> bool:
    """Whether a statement is `name += 1`, or `name = name + 1`."""
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node) == f"{name} += 1"
    return ast.unparse(node) == f"{name} = {name} + 1"


def _that_count(loops: list[ast.For | ast.While]) -> list[ast.For | ast.While]:
    """Return the loops without those within one that limits the number of their rounds: `while step < max_steps`."""
    for place, loop in enumerate(loops):
        if isinstance(loop, ast.While) and isinstance(loop.test, ast.Compare):
            count = ast.unparse(loop.test.left)
            if any(count in _counts(inner) for inner in loops[place + 1 :]):
                return loops[: place + 1]
    return loops


def _counts(loop: ast.For | ast.While) -> set[str]:
    """Return what each round of a loop counts."""
    return {ast.unparse(each.target) for each in loop.body if isinstance(each, ast.AugAssign)}


def _limit_of_all(loops: list[ast.For | ast.While], frame: FrameType) -> EnclosingLoop | None:
    """Return the limit at which an inner loop is left of a count that no loop around it begins anew; None without one.

    Args:
        loops: The outermost first.
        frame: That they are in.
    """
    for place, loop in enumerate(loops[1:], 1):
        for end in _conditions_of_breaks(loop):
            count = ast.unparse(end.left)
            is_reset = any(_assigns(node, count) for outer in loops[:place] for node in ast.walk(outer))
            limit = None if is_reset or count not in _counts(loop) else unless_unreadable(_limit, end, frame)
            if limit is not None:
                return EnclosingLoop(f"{ast.unparse(end)} in {place_of(frame).partition(':')[0]}:{end.lineno}", limit)
    return None


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets)


def _read(loop: ast.For | ast.While, frame: FrameType, breaks: bool = True) -> EnclosingLoop:
    expression = loop.iter if isinstance(loop, ast.For) else loop.test
    file = place_of(frame).partition(":")[0]
    words = f"{ast.unparse(expression)} in {file}:{loop.lineno}"
    if _is_for_onevalue_of(loop, frame.f_lineno):
        rounds: int | None = 1
    else:
        rounds = unless_unreadable(_rounds, expression, frame) if isinstance(loop, ast.For) else None
    if isinstance(loop, ast.While) and _counts_up(loop):
        rounds = unless_unreadable(_rounds_while, expression, frame)
    for end in _conditions_of_breaks(loop) if breaks else ():
        limit = unless_unreadable(_limit, end, frame)
        if limit is not None and (rounds is None or limit < rounds):
            words, rounds = f"{ast.unparse(end)} in {file}:{end.lineno}", limit
    return EnclosingLoop(words, rounds, rounds is None and _makes_loader(expression, frame))


def _is_for_onevalue_of(loop: ast.For | ast.While, line: int) -> bool:
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


def _makes_loader(expression: ast.expr, frame: FrameType) -> bool:
    while isinstance(expression, ast.Call):
        kind = unless_unreadable(value_of, expression.func, frame)
        if isinstance(kind, type) and issubclass(kind, DataLoader):
            return True
        expression = expression.args[0] if expression.args else expression.func
    return False


def _conditions_of_breaks(loop: ast.For | ast.While) -> list[ast.Compare]:
    """Return the conditions on the number of rounds under which a loop is left, as in `if step >= max_steps: break`."""
    counts = _counts(loop)
    if isinstance(loop, ast.For):
        targets = loop.target.elts[:1] if isinstance(loop.target, ast.Tuple) else [loop.target]
        counts |= {ast.unparse(each) for each in targets}
    return [
        test
        for node in loop.body
        if isinstance(node, ast.If) and any(isinstance(each, ast.Break) for each in node.body)
        # Not the epochs without progress after which a training is stopped early: not every round counts those.
        for test in _that_suffice(node.test)
        if ast.unparse(test.left) in counts
    ]


def _that_suffice(test: ast.expr) -> list[ast.Compare]:
    """Return the comparisons each of which alone makes a condition true.

    One beside `limit is not None`, or `limit > 0`, is among them, if it is compared with that limit: without one it
    cannot be read.
    """
    if isinstance(test, ast.Compare):
        return [test]
    if not isinstance(test, ast.BoolOp):
        return []
    parts = test.values
    if isinstance(test.op, ast.And):
        limits = {ast.unparse(part.comparators[-1]) for part in parts if isinstance(part, ast.Compare)}
        parts = [part for part in parts if not _is_given(part, limits)]
        if len(parts) > 1:
            return []
    return [found for part in parts for found in _that_suffice(part)]


def _is_given(test: ast.expr, limits: set[str]) -> bool:
    """Whether a condition is that one of these limits is given: it is not None, above 0, or true."""
    if isinstance(test, ast.Compare):
        return ast.unparse(test.left) in limits and all(isinstance(one, ast.Constant) for one in test.comparators)
    return ast.unparse(test) in limits


def _limit(test: ast.Compare, frame: FrameType) -> int | None:
    """Return the number at which a count ends a loop.

    Raises:
        Unreadable: If the condition is another one.
    """
    if len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
        raise Unreadable
    count, limit = value_of(test.left, frame), value_of(test.comparators[0], frame)
    is_count = type(count) is int and isinstance(limit, (int, float)) and count < limit
    return math.ceil(limit) if is_count else None


def _rounds(expression: ast.expr, frame: FrameType) -> int | None:
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
        return int(value_of(expression.args[1], frame))
    if name not in _SAME_LENGTH or not expression.args:
        raise Unreadable
    return _rounds(expression.args[0], frame)


def _rounds_while(test: ast.expr, frame: FrameType) -> int | None:
    """Return the limit of a count, as in `while step < max_steps`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Lt, ast.LtE)):
        count, limit = value_of(test.left, frame), value_of(test.comparators[0], frame)
        if isinstance(count, int) and isinstance(limit, (int, float)):
            return math.ceil(limit)
    return None
