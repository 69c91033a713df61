"""A script and what build() returns answer the same questions, each in its own way."""

from __future__ import annotations

import inspect
import math
from typing import Any

import msgspec
import pytest

from autoaccel.bench.rounding import UPDATE_STEPS, may_compare_updates
from autoaccel.errors import BadRequestError
from autoaccel.records.progress import ScriptSeen
from autoaccel.records.script import ScriptArgument, SeenModel
from autoaccel.records.script_metric import PrintedMetric
from autoaccel.records.seen import PartsAtHand, SaidOfScript, ScriptFacts, seen_of
from autoaccel.records.space import SearchSpace
from autoaccel.records.workload import BuildFunction, CalledFunction, PickledFunction, Script, TrainingFacts
from tests.samples import FACTS

MODEL = SeenModel("Linear", 12, 12, "train.py:3")
SEEN = ScriptFacts((MODEL,), (), (), (0,), "cpu", 0.5, 10, steps_per_epoch=16, planned_steps=None, has_loss=True)
BUILT = msgspec.structs.replace(FACTS, epochs=10, steps_per_epoch=UPDATE_STEPS // 10 + 1)
SAID = SaidOfScript(
    (ScriptArgument("lr", ("1", "2")),), True, PrintedMetric("acc: (.*)"), "maximize", steps=320, steps_from="--steps"
)


def of_script(**changes: Any) -> TrainingFacts:
    return msgspec.structs.replace(BUILT, script=msgspec.structs.replace(SEEN, **changes))


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("one", "other"), [(PartsAtHand, ScriptFacts), (CalledFunction, Script), (CalledFunction, BuildFunction)]
)
def test_both_kinds_answer_the_same_questions(one: type, other: type) -> None:
    answers = public(other)
    for name, answer in public(one).items():
        assert name in answers
        if inspect.isfunction(answer):
            assert inspect.signature(answer).parameters.keys() == inspect.signature(answers[name]).parameters.keys()


def test_a_training_is_a_script_if_something_was_seen_of_it() -> None:
    assert seen_of(SEEN) is SEEN and of_script().seen == SEEN
    assert isinstance(BUILT.seen, PartsAtHand) and seen_of(None) is BUILT.seen


def test_what_a_person_says_changes_a_script_alone() -> None:
    seen = of_script(parsed={"token": "x"})
    changed = msgspec.structs.replace(seen, **seen.seen.changed_by(SAID))
    assert (changed.planned_steps, changed.steps_per_epoch, changed.metric, changed.direction) == (
        320,
        16,
        "acc",
        "maximize",
    )
    script = changed.script
    assert (
        script is not None and script.in_place and script.metric == SAID.metric and script.arguments == SAID.arguments
    )
    assert (script.planned_steps, script.planned_from, script.parsed) == (320, "--steps", {})
    assert msgspec.structs.replace(BUILT, **BUILT.seen.changed_by(SAID)) == BUILT


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"has_loss": False}, False),
        ({"ranks": 2}, False),
        ({"updates_itself": True}, True),
        ({"updates_itself": True, "models": ()}, False),  # nothing tells when it has made one
    ],
)
def test_updates_of_a_script_are_compared_where_they_can_be_seen(changes: dict[str, Any], may: bool) -> None:
    assert may_compare_updates(of_script(**changes)) == may


def test_a_script_makes_the_steps_that_it_plans_and_our_loop_as_many_as_are_asked_for() -> None:
    assert of_script().most_steps == of_script().planned_steps and BUILT.most_steps == math.inf
    short = msgspec.structs.replace(BUILT, epochs=1, steps_per_epoch=UPDATE_STEPS - 1)
    assert may_compare_updates(short) and not may_compare_updates(msgspec.structs.replace(short, script=SEEN))
    enough = msgspec.structs.replace(short, steps_per_epoch=UPDATE_STEPS, script=SEEN)
    assert may_compare_updates(enough)


def test_only_the_look_at_a_script_is_told() -> None:
    space = SearchSpace("", {"loader.workers": (0, 1)}, {}, {"compile.mode": "no compiler"})
    look = SEEN.first_look(of_script(), space)
    assert look == ScriptSeen(SEEN, BUILT.planned_steps, ("loader.workers",), space.closed, "accuracy", "maximize")
    assert BUILT.seen.first_look(BUILT, space) is None


def test_what_is_for_one_kind_is_refused_for_the_other() -> None:
    script = Script("/train.py", "train.py", "/", "0" * 64)
    assert script.must_be_script("") is script and SEEN.must_be_script("") is SEEN
    with pytest.raises(BadRequestError, match="only for functions"):
        script.must_be_function("only for functions")
    for function in (BuildFunction("/model.py", "build", "0" * 64), PickledFunction("/model.pkl", "0" * 64)):
        function.must_be_function("")
        with pytest.raises(BadRequestError, match="only for scripts"):
            function.must_be_script("only for scripts")
    with pytest.raises(BadRequestError, match="only for scripts"):
        BUILT.seen.must_be_script("only for scripts")
