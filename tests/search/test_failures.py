"""What failed trials have in common is found, whatever else they had, and nothing else is blamed."""

from __future__ import annotations

import itertools
import random

import pytest

from autoaccel.records.conclusion import Part, part_words
from autoaccel.records.messages import Failure
from autoaccel.records.settings import Settings
from autoaccel.search.failures import Cause, Failed, contains, find_causes

CRASH = Failure("raised", "RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly")
TYPES = Failure("raised", "RuntimeError: expected scalar type Float but found BFloat16")


def failed(*changes: Settings, failure: Failure = CRASH) -> list[Failed]:
    return [Failed(change, failure) for change in changes]


def closed(causes: list[Cause]) -> list[str]:
    return [part_words(cause.closed) for cause in causes if cause.closed]


def test_of_two_failures_only_what_both_share_is_to_blame() -> None:
    """The guesses of an expert had all three: each was blamed, and with them everything that was left to try."""
    both = failed({"workers": 2, "autocast": "bfloat16", "fused": True}, {"workers": 2, "threads": 1})
    assert closed(find_causes(both, [])) == ["workers=2"]


def test_while_several_may_be_to_blame_none_is_closed_but_each_is_doubted() -> None:
    alike = failed({"workers": 2, "autocast": "bfloat16", "fused": True}, {"workers": 2, "autocast": "bfloat16"})
    (cause,) = find_causes(alike, [])
    assert cause.closed is None and cause.failures == 2
    assert cause.doubt({"autocast": "bfloat16"}) == 0.5
    assert cause.doubt({"autocast": "bfloat16", "workers": 2, "threads": 1}) == 1.0  # whichever it is
    assert cause.doubt({"fused": True, "threads": 1}) == 0.0
    # One of them works: it was the other.
    (cause,) = find_causes(alike, [{"autocast": "bfloat16", "threads": 1}])
    assert closed([cause]) == ["workers=2"]
    assert cause.common is not None
    assert (
        "2 failed trials contain it, and no trial that worked does: RuntimeError: DataLoader worker"
        in cause.common.words
    )


def test_a_single_failure_may_be_chance() -> None:
    (cause,) = find_causes(failed({"workers": 2}), [])
    assert cause.closed is None
    assert cause.doubt({"workers": 2, "fused": True}) == 0.5


def test_values_of_one_knob_that_all_fail_close_it() -> None:
    every = failed({"workers": 1, "fused": True}, {"workers": 2}, {"workers": 2, "threads": 1})
    (cause,) = find_causes(every, [{"fused": True}])
    assert closed([cause]) == ["any other workers"]
    assert cause.doubt({"workers": 8}) == 1.0
    assert closed(find_causes(every, [{"fused": True}, {"workers": 4}])) == ["workers=2"]


def test_what_fails_only_together_leaves_each_alone() -> None:
    pair: Settings = {"compile": "default", "autocast": "float16"}
    (cause,) = find_causes(failed(pair, {**pair, "fused": True}), [{"compile": "default"}, {"autocast": "float16"}])
    assert closed([cause]) == ["compile=default with autocast=float16"]
    assert cause.doubt({"compile": "default", "fused": True}) == 0.0


def test_failures_of_other_kinds_have_other_causes() -> None:
    types = failed({"compile": "default", "autocast": "bfloat16"}, {"compile": "default"}, failure=TYPES)
    crashes = failed({"workers": 2, "autocast": "bfloat16"}, {"workers": 2, "fused": True})
    assert sorted(closed(find_causes([*types, *crashes], []))) == ["compile=default", "workers=2"]
    # Even where they say the same: what explains most of them comes first, then the rest.
    alike = failed(*(one.change for one in [*types, *crashes]))
    assert sorted(closed(find_causes(alike, [{"autocast": "bfloat16"}]))) == ["compile=default", "workers=2"]


def test_failures_are_alike_by_their_signature_whatever_they_say() -> None:
    said = [Failure("ineffective", words, signature="fused") for words in ("it has no such form", "it is changed")]
    both = [*failed({"fused": True, "workers": 2}, failure=said[0]), *failed({"fused": True}, failure=said[1])]
    (cause,) = find_causes(both, [{"workers": 2}])
    assert cause.failures == 2 and closed([cause]) == ["fused=on"]
    assert Failure("ineffective", said[0].message, signature="threads").likeness != said[0].likeness


def test_alike_failures_of_earlier_versions_differ_in_numbers() -> None:
    other = Failure("raised", "RuntimeError: DataLoader worker (pid(s) 99) exited unexpectedly")
    both = [*failed({"workers": 2, "fused": True}), *failed({"workers": 2}, failure=other)]
    assert closed(find_causes(both, [{"fused": True}])) == ["workers=2"]


def test_what_works_elsewhere_failed_by_chance() -> None:
    assert find_causes(failed({"workers": 2}), [{"workers": 2, "fused": True}]) == []
    assert find_causes([], [{"workers": 2}]) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_cause_is_found_and_nothing_that_works_is_closed(seed: int) -> None:
    """Over random settings of five knobs, of which one value, or two together, always fail."""
    values = {"a": (0, 1, 2), "b": (0, 1), "c": (0, 1), "d": (0, 1), "e": (0, 1, 2)}
    generator = random.Random(seed)
    names = generator.sample(sorted(values), 1 + seed % 2)
    planted: Part = tuple((name, 1) for name in sorted(names))
    everything: list[Settings] = [
        {name: value for name, value in zip(values, chosen, strict=True) if value}
        for chosen in itertools.product(*values.values())
    ]
    tried = generator.sample(everything[1:], 40)
    bad = [change for change in tried if contains(change, planted)]
    works = [change for change in tried if not contains(change, planted)]
    causes = find_causes(failed(*bad), works)
    assert all(any(cause.doubt(change) == 1.0 for cause in causes) for change in bad)
    assert all(cause.doubt(change) == 0.0 for cause in causes for change in works)
    assert closed(causes) == [part_words(planted)]
