"""Input that is made up: any value for any knob, any bytes for any reader, and what is in order, changed anywhere.

It takes some 15 s of processor time; AUTOACCEL_EXAMPLES=90 makes that twenty minutes.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoaccel.errors import BadRequestError
from autoaccel.records.settings import Value
from autoaccel.space.domains import contexts_on
from autoaccel.space.knobs import KNOBS, KnobContext, check_own_value, check_value, parse_value
from tests.hostile.readers import READERS, read
from tests.hostile.samples import as_json, recipe, this_machine
from tests.samples import FACTS

_TIMES = int(os.environ.get("AUTOACCEL_EXAMPLES", "1"))


def examples(count: int) -> settings:
    """Return how many examples are made up; how long one takes says more of what else the machine is doing."""
    checks = list(HealthCheck)
    return settings(max_examples=count * _TIMES, deadline=None, suppress_health_check=checks, database=None)


NUMBERS = st.one_of(
    st.integers(),
    st.integers(-2, 70),
    st.floats(),
    st.sampled_from([0, -1, 1 << 31, 1 << 53, 1 << 64, 10**400, 5e-324, 1e308, -0.0]),
)
LISTS_OF_CPUS = st.from_regex(r"\A\d{0,12}(-\d{0,14})?(,\d{0,3}(-\d{1,4})?){0,4}\Z")
ALONE = KnobContext(this_machine())
WORDS = st.sampled_from(sorted({str(value) for knob in KNOBS.values() for value in knob.values(ALONE)}))
TEXTS = st.one_of(st.text(max_size=40), LISTS_OF_CPUS, WORDS, st.builds(lambda text: text * 2000, st.text(max_size=3)))
OTHERS = st.one_of(st.none(), st.lists(st.integers(), max_size=2))
VALUES: st.SearchStrategy[Any] = st.one_of(st.booleans(), NUMBERS, TEXTS, OTHERS)
CONTEXTS = [ALONE, KnobContext(this_machine(), FACTS), *contexts_on(this_machine())]


def holds(name: str, value: Any, context: KnobContext) -> None:
    """Check that an accepted value is what its knob says it may be, from outside of what has accepted it."""
    knob = KNOBS[name]
    assert type(value) is type(knob.default(context))
    if type(value) in (int, float) and value not in knob.values(context):
        assert knob.value_range is not None
        low, high = knob.value_range(context)
        assert low <= value <= high
    environment = knob.environment(value, context)
    assert all(text.isprintable() and len(text) < 60_000 for text in environment.values())


@pytest.mark.parametrize("name", KNOBS)
@examples(20)
@given(value=VALUES, context=st.sampled_from(CONTEXTS))
def test_any_value_of_a_knob_is_within_its_domain_or_refused(name: str, value: Any, context: KnobContext) -> None:
    for check in (check_value, check_own_value):
        try:
            accepted = check(KNOBS[name], value, context, "here")
        except BadRequestError as error:
            assert str(error).startswith(f"here: {name} ")
            assert len(str(error)) < 1000
            assert str(error).isprintable()
        else:
            assert (type(accepted), accepted) == (type(value), value)
            if check is check_value:
                holds(name, accepted, context)


@pytest.mark.parametrize("name", KNOBS)
@examples(15)
@given(text=st.one_of(TEXTS, NUMBERS.map(lambda number: f"{number}"), st.sampled_from(["on", "off", "OFF"])))
def test_any_text_that_is_typed_for_a_knob_is_a_value_or_refused(name: str, text: str) -> None:
    context = CONTEXTS[1]
    try:
        value: Value = parse_value(KNOBS[name], text, context, "--set")
    except BadRequestError as error:
        assert str(error).isprintable()
    else:
        holds(name, value, context)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


def places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each part of some JSON."""
    parts = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [path, *(place for key, part in parts for place in places(part, (*path, key)))]


def changed_at(found: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return JSON in which a part is another; a copy."""
    if not place:
        return value
    found = copy.deepcopy(found)
    inside = found
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return found


RECIPE, SCRIPT_RECIPE = as_json(recipe()), as_json(recipe(of_script=True))


@examples(600)
@given(data=st.data(), whole=st.sampled_from([RECIPE, SCRIPT_RECIPE]))
def test_a_recipe_that_is_changed_anywhere_is_shown_or_refused(data: st.DataObject, whole: Any) -> None:
    place = data.draw(st.sampled_from(places(whole)))
    read("recipe", json.dumps(changed_at(whole, place, data.draw(JSON))).encode())


@pytest.mark.parametrize("name", READERS)
@examples(60)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    whole = READERS[name][1]
    made = st.one_of(
        st.binary(max_size=200),
        st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")),
        st.builds(
            lambda start, cut, middle: whole[:start] + middle + whole[start + cut :],
            st.integers(0, len(whole)),
            st.integers(0, 4),
            st.one_of(st.binary(max_size=6), st.sampled_from([b"9" * 5000, b"[" * 5000, b"\x00", b"\xff", b"-", b","])),
        ),
        JSON.map(lambda found: json.dumps(found).encode()),
    )
    read(name, data.draw(made))
