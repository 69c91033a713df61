"""Between settings that the trials cannot tell apart, the simpler is proven first."""

from __future__ import annotations

import pytest

from autoaccel.records.knob import Risk
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.search.ranking import Candidate, first_to_prove
from autoaccel.space.change import Change

SPACE = SearchSpace("test", {}, {}, {}, risks={"parallel.world_size": "rounding"})
RISKY: dict[Risk, Settings] = {
    "exact": {"memory.allocator": "tcmalloc"},
    "rounding": {"precision.autocast": "bfloat16"},
    "changes_training": {"optimizer.batch_factor": 2.0},
}
EXACT = ("loader.pin_memory", "loader.persistent", "loader.non_blocking", "memory.keep_freed", "memory.huge_pages")


def candidate(name: str, seconds: float, risk: Risk = "rounding", changes: int = 2, ranks: int = 1) -> Candidate:
    """Return a candidate of this name, with so many settings that are not the user's own."""
    own: Settings = {"name": name, **dict.fromkeys([*RISKY[risk], *EXACT], "own"), "parallel.world_size": 1}
    settings: Settings = {**own, **RISKY[risk], "parallel.world_size": ranks}
    settings |= dict.fromkeys(EXACT[: changes - 1 - (ranks > 1)], True)
    change = Change(settings, own, SPACE)
    assert (change.risk, len(change.names), change.processes) == (risk, changes, ranks)
    return Candidate(change, 0.0, seconds)


def first(*candidates: Candidate, doubt: float = 0.1, harmful: str = "") -> str:
    chosen = first_to_prove(
        candidates, lambda one, other: doubt, lambda one: int(str(one.settings["name"]) in harmful.split())
    )
    return str(chosen.settings["name"])


def test_what_is_clearly_faster_comes_first_whatever_its_risk() -> None:
    assert first(candidate("ranks", 50.0, "changes_training", 5), candidate("cast", 60.0, changes=1)) == "ranks"


def test_of_two_that_are_as_fast_the_one_with_less_risk_comes_first() -> None:
    """Two ranks were preferred at 1.96x over one process at 1.95x; their metric fell."""
    ranks, cast = candidate("ranks", 51.0, "changes_training"), candidate("cast", 51.3, "rounding")
    assert first(ranks, cast) == "cast"
    assert first(ranks, cast, candidate("workers", 52.0, "exact", 4)) == "workers"


def test_of_two_that_are_as_fast_and_as_sure_the_one_with_fewer_processes_comes_first() -> None:
    """Two ranks of a network that normalises each sample alone: their runs are dear, and updates cannot tell."""
    ranks, cast = candidate("ranks", 50.0, ranks=2), candidate("cast", 52.0, changes=4)
    assert first(ranks, cast) == "cast"
    assert first(ranks, cast, doubt=0.01) == "ranks"
    assert first(ranks, candidate("risky", 50.0, "changes_training")) == "ranks"


@pytest.mark.parametrize(("seconds", "doubt", "chosen"), [(52.0, 0.1, "workers"), (52.0, 0.01, "cast"),
                                                         (54.0, 0.5, "cast")])  # fmt: skip
def test_a_difference_that_is_known_or_larger_than_a_process_luck_is_no_noise(
    seconds: float, doubt: float, chosen: str
) -> None:
    assert first(candidate("cast", 50.0), candidate("workers", seconds, "exact"), doubt=doubt) == chosen


def test_of_the_same_risk_fewer_changes_must_not_cost_more_than_a_setting_is_worth() -> None:
    many, few = candidate("many", 50.0, changes=5), candidate("few", 50.9, changes=2)
    assert first(many, few) == "few"
    assert first(many, candidate("few", 51.5, changes=2)) == "many"
    assert first(many, candidate("fewer", 50.4, changes=1), few) == "fewer"
    assert first(candidate("slower", 50.2, changes=2), candidate("faster", 50.1, changes=2)) == "faster"


def test_settings_that_seem_to_harm_come_after_the_same_without() -> None:
    with_it, without = candidate("with", 50.0, changes=3), candidate("without", 51.5, changes=2)
    assert first(with_it, without) == "with"
    assert first(with_it, without, harmful="with") == "without"
    # Less risk counts for more: it decides whether anything can be proven.
    assert first(with_it, candidate("risky", 49.9, "changes_training"), harmful="with") == "with"
    assert first(with_it, harmful="with") == "with"
