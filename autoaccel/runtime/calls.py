"""What the user's own Python code costs, by function and by what it calls."""

from __future__ import annotations

import cProfile
import re
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from autoaccel.records.conditions import Part
from autoaccel.records.profile import PythonFunction

_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_HOME = str(Path(__file__).parents[1])
_WRAPPERS = ("torch/_tensor.py", "torch/functional.py")  # methods of tensors that are written in Python
_SHOWN_FUNCTIONS = 12
_SHOWN_BUILT_IN = 12
_SHOWN_PARTS = 5
_CALIBRATING_CALLS = 2000
_MAX_SHARE = 0.98  # of a step: the rest of it takes some time, too


class _Calls(NamedTuple):
    """One function as cProfile saw it. Seconds are totals."""

    code: CodeType | str  # a string for what is built in
    times: int
    own_seconds: float
    total_seconds: float
    calls: list[Any]  # what it called: of each the code, callcount, inlinetime and totaltime


def can_record_calls() -> bool:
    """Whether no other profiler is on."""
    if sys.getprofile() is not None:
        return False
    recorder = cProfile.Profile()
    try:
        recorder.enable()
    except ValueError:  # from Python 3.12 on, only one tool may watch
        return False
    recorder.disable()
    return True


def record_calls(work: Callable[[cProfile.Profile], object]) -> list[_Calls]:
    """Return the functions that were called while the work had the recorder on; none if another profiler is on."""
    if not can_record_calls():
        return []
    recorder = cProfile.Profile()
    try:
        work(recorder)
    finally:
        recorder.disable()
    return calls_in(recorder)


def calls_in(recorder: cProfile.Profile) -> list[_Calls]:
    """Return the functions that were called while the recorder was on."""
    return [
        _Calls(entry.code, entry.callcount, entry.inlinetime, entry.totaltime, entry.calls or [])
        for entry in recorder.getstats()
    ]


def is_users(code: CodeType | str) -> bool:
    """Whether this is the user's own code: neither installed, nor Python's, nor autoaccel's, nor built in."""
    if isinstance(code, str):
        return False
    file = code.co_filename
    return not file.startswith((*_INSTALLED, _HOME, "<frozen", "<string>"))


def short_name(code: CodeType | str) -> str:
    """Return what people call a function: `print`, `Tensor.item`, `rotate (Image.py:2301)`."""
    if not isinstance(code, str):
        wrapped = code.co_filename.endswith(_WRAPPERS)
        return f"Tensor.{code.co_name}" if wrapped else f"{_name(code)} ({where(code)})"
    # cProfile: "<built-in method builtins.print>", "<method 'item' of 'torch._C.TensorBase' objects>"
    words = code.strip("<>").replace("'", "").split()
    if words[0] == "method" and len(words) >= 4:
        return f"{words[3].rsplit('.', 1)[-1].replace('TensorBase', 'Tensor')}.{words[1]}"
    return words[2].removeprefix("builtins.") if words[:2] == ["built-in", "method"] and len(words) > 2 else code


def where(code: CodeType) -> str:
    """Return where a function begins: `model.py:31`."""
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def _name(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name)).replace("<locals>.", "")  # the former from Python 3.11 on


def _is_ours(code: CodeType | str) -> bool:
    """Whether this is what measures: autoaccel's own code, and the clocks that it reads."""
    return "method time." in code if isinstance(code, str) else code.co_filename.startswith(_HOME)


def _seconds_per_call() -> float:
    """Return what recording a call costs."""
    recorder = cProfile.Profile()
    start = time.perf_counter()
    for _ in range(_CALIBRATING_CALLS):
        abs(0)
    plain = time.perf_counter() - start
    recorder.enable()
    start = time.perf_counter()
    for _ in range(_CALIBRATING_CALLS):
        abs(0)
    recorded = time.perf_counter() - start
    recorder.disable()
    return max(0.0, recorded - plain) / _CALIBRATING_CALLS


def functions_of(stats: list[_Calls], steps: int, whole_seconds: float) -> tuple[PythonFunction, ...]:
    """Return the user's functions, those with the most expensive lines first.

    Comprehensions, generator expressions and lambdas count as lines of the function that calls them. What recording
    costs is taken off what is not a function's own lines, so that its share is rather too high than too low.

    Args:
        stats: What was recorded.
        steps: Over so many steps.
        whole_seconds: That these steps took, recorded.
    """
    overhead_seconds = sum(entry.times for entry in stats) * _seconds_per_call()
    found = [entry for entry in stats if is_users(entry.code) and not _is_line(entry.code)]
    functions = []
    for entry in found:
        seconds, built_in = _lines(entry, stats)
        own_overhead = overhead_seconds * (sum(built_in.values()) + entry.times) / sum(found.times for found in stats)
        whole = max(seconds, whole_seconds - overhead_seconds + own_overhead)
        code = entry.code
        assert not isinstance(code, str)
        most_called = sorted(built_in.items(), key=lambda item: -item[1])[:_SHOWN_BUILT_IN]
        functions.append(
            PythonFunction(
                name=_name(code),
                where=where(code),
                calls_per_step=entry.times / steps,
                total_share=min(1.0, entry.total_seconds / whole_seconds),
                line_share=min(_MAX_SHARE, seconds / whole),
                built_in_calls={name: count / steps for name, count in most_called},
            )
        )
    return tuple(sorted(functions, key=lambda function: -function.line_share)[:_SHOWN_FUNCTIONS])


def _is_line(code: CodeType | str) -> bool:
    """Whether this is a comprehension, a generator expression or a lambda: a line of another function."""
    return not isinstance(code, str) and code.co_name.startswith("<")


def _belongs_to(line: CodeType | str, code: CodeType) -> bool:
    """Whether a comprehension or its like stands in this function, even if something built in (sum, map) calls it."""
    if isinstance(line, str) or not _is_line(line) or line.co_filename != code.co_filename:
        return False
    if sys.version_info >= (3, 11):
        return line.co_qualname.startswith(f"{code.co_qualname}.<locals>.<")
    return line in code.co_consts


def _lines(entry: _Calls, stats: list[_Calls]) -> tuple[float, dict[str, float]]:
    """Return the seconds of a function's own lines with what is built in, and how often that is called by name."""
    assert not isinstance(entry.code, str)
    seconds, built_in = 0.0, dict[str, float]()
    for part in (entry, *(other for other in stats if _belongs_to(other.code, entry.code))):
        seconds += part.own_seconds
        for call in part.calls:
            if not isinstance(call.code, str) and not call.code.co_filename.endswith(_WRAPPERS):
                continue
            # What is built in may call the user's code back: that is counted where it belongs.
            seconds += call.inlinetime if isinstance(call.code, str) else call.totaltime
            name = short_name(call.code)
            built_in[name] = built_in.get(name, 0.0) + call.callcount
    return seconds, built_in


def parts_of(stats: list[_Calls]) -> tuple[Part, ...]:
    """Return the user's functions with what each calls of installed code, by share of all of it, slowest first.

    A call to an installed function counts with its whole time; the name says which call takes most of it. If no code is
    the user's, the functions are those that take the most time themselves.
    """
    functions: dict[str, dict[str, float]] = {}
    for entry in stats:
        if not is_users(entry.code):
            continue
        # Comprehensions and generator expressions are lines of the function around them.
        name = short_name(entry.code).replace("<locals>.", "")
        name = re.sub(r"\.<\w+> \((.*):\d+\)", r" (\1)", name)
        calls = functions.setdefault(re.sub(r":\d+\)", ")", name), {})
        calls[""] = calls.get("", 0.0) + entry.own_seconds
        for call in entry.calls:
            if not is_users(call.code):
                # What is built in may call the user's code back (sum, map): that is counted where it belongs.
                seconds = call.inlinetime if isinstance(call.code, str) else call.totaltime
                called = short_name(call.code)
                calls[called] = calls.get(called, 0.0) + seconds
    if not functions:
        functions = {short_name(entry.code): {"": entry.own_seconds} for entry in stats if not _is_ours(entry.code)}
    whole = sum(sum(calls.values()) for calls in functions.values()) or 1.0
    slowest = sorted(functions.items(), key=lambda item: -sum(item[1].values()))[:_SHOWN_PARTS]
    return tuple(Part(_with_most(name, calls), sum(calls.values()) / whole) for name, calls in slowest)


def _with_most(name: str, calls: dict[str, float]) -> str:
    """Return a function's name with the call on which it spends at least a third of its time."""
    called = max(calls, key=calls.__getitem__)
    return f"{called} in {name}" if called and calls[called] >= sum(calls.values()) / 3 else name
