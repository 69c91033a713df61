"""Which rounds of its loops a script makes updates in: not every round makes a step, nor does the first one always."""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import FrameType

from autoaccel.runtime.script.planned import EnclosingLoop, loops_of, unwrapped, words_of
from autoaccel.runtime.script.reading import Unreadable, unless_unreadable, value_of

RoundNumbers = Mapping[str, int]
"""Words of a loop around an update -> the number of its round that the update is made in, the first being 0."""


def round_numbers(frames: Sequence[FrameType]) -> RoundNumbers:
    """Return it of each loop that numbers its rounds itself, over range() or enumerate().

    Args:
        frames: Of the user's own code, the innermost first.
    """
    found: dict[str, int] = {}
    for frame in frames:
        for loop in loops_of(frame):
            if isinstance(loop, ast.For):
                number = unless_unreadable(functools.partial(_number, loop.target), loop.iter, frame)
                if number is not None:
                    found[words_of(loop, frame)] = number
    return found


def _number(target: ast.expr, expression: ast.expr, frame: FrameType) -> int:
    """Return the number of the round that a loop is in.

    Raises:
        Unreadable: If it does not number its rounds.
    """
    call = unwrapped(expression)
    if not isinstance(call, ast.Call):
        raise Unreadable
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "enumerate" and isinstance(target, ast.Tuple):
        starts = [*call.args[1:], *(each.value for each in call.keywords)]
        return _whole(target.elts[0], frame) - (_whole(starts[0], frame) if starts else 0)
    if name not in ("range", "trange"):
        raise Unreadable
    return range(*(int(value_of(each, frame)) for each in call.args)).index(_whole(target, frame))


def _whole(expression: ast.expr, frame: FrameType) -> int:
    """Return a whole number; the loop's variable may hold something else by now, such as a tensor in `_`."""
    value = value_of(expression, frame)
    if type(value) is not int:
        raise Unreadable
    return value


def steps_in(
    rounds: int, loops: Sequence[EnclosingLoop], seen: Sequence[RoundNumbers], start: int, updates: int
) -> tuple[int | None, str]:
    """Return how many steps are made in that many rounds of all loops, None if not as many in each; what that rests on.

    Args:
        rounds: Of the innermost loop, in all rounds of those around it.
        loops: Around all updates of a step, the outermost first.
        seen: Of each update that was seen.
        start: The first of them that belongs to a step.
        updates: That make a step.
    """
    names = [loop.words for loop in loops]
    ends = [each for each in seen[start + updates - 1 :: updates] if names[-1] in each]
    every = _rounds_a_step([tuple(each.get(name) for name in names) for each in ends])
    if every is None:
        return None, ""
    first = next((each[names[0]] for each in seen if names[0] in each), 0)
    if len(names) > 1:
        outermost = loops[0].rounds or 1
        left = rounds // outermost * (outermost - first)
    else:
        first = max(0, first + 1 - math.ceil(every))  # a step that takes several is made in the last of them
        left = rounds - first
    said = [f"from round {first + 1:,} on"] if first else []
    if every != 1:
        said.append(f"one in {every} rounds" if every > 1 else f"{1 / every} in a round")
    return max(1, int(left / every)), f" ({', '.join(said)})" if said else ""


def _rounds_a_step(steps: Sequence[tuple[int | None, ...]]) -> Fraction | None:
    """Return how many rounds of the innermost loop a step takes, which may be a part of one; None if that varies.

    Args:
        steps: Of each that was seen, in which round of each loop it was made, the outermost first; None where a loop
            does not number them.
    """
    in_rounds = [len(list(same)) for _, same in itertools.groupby(steps)]
    if len(in_rounds) < len(steps) and None not in steps[0]:
        whole = set(in_rounds[:-1])  # nobody has seen the last round end
        return Fraction(1, in_rounds[0]) if len(whole) == 1 and in_rounds[-1] <= in_rounds[0] else None
    # Where a loop around has gone on, the rounds between two steps cannot be told. One without numbers may have gone on
    # as well, and begun this one anew.
    gone = {_gone(early[-1], late[-1]) for early, late in itertools.pairwise(steps) if early[:-1] == late[:-1]} - {0}
    return Fraction(gone.pop()) if len(gone) == 1 else None if gone else Fraction(1)


def _gone(early: int | None, late: int | None) -> int:
    return 0 if early is None or late is None else max(0, late - early)
