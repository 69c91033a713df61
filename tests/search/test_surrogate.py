"""What the surrogate expects, with and without evidence."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from autoaccel.advise.effects import Halving, effect_deviations
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.search.surrogate import Surrogate

BASELINE: Settings = {"threads": 4, "cast": "off", "fused": False}
SPACE = SearchSpace(
    name="test",
    open={"threads": (4, 3, 2, 1), "cast": ("off", "bfloat16", "float16"), "fused": (False, True)},
    fixed={},
    closed={},
)
DEVIATIONS = {"threads": 0.3, "cast": 0.3, "fused": 0.02}


def surrogate() -> Surrogate:
    return Surrogate(SPACE, BASELINE, DEVIATIONS)


def expected(model: Surrogate, **changes: object) -> tuple[float, float]:
    mean, deviation = model.predict([{**BASELINE, **changes}])  # type: ignore[dict-item]  # values of any type
    return float(mean[0]), float(deviation[0])


def test_without_evidence_only_the_baseline_is_certain() -> None:
    model = surrogate()
    assert expected(model) == (0.0, 0.0)
    assert expected(model, cast="bfloat16") == (0.0, pytest.approx(0.3))
    assert expected(model, fused=True) == (0.0, pytest.approx(0.02))
    assert expected(model, threads=1) == (0.0, pytest.approx(0.3))
    mean, deviation = expected(model, cast="bfloat16", threads=1)
    assert mean == 0.0
    assert deviation > math.hypot(0.3, 0.3)  # both effects and what they do together


def test_a_reading_moves_what_shares_its_values_and_nothing_else() -> None:
    model = surrogate()
    model.learn({**BASELINE, "cast": "bfloat16"}, 0.4, 0.05)
    same, same_deviation = expected(model, cast="bfloat16")
    assert 0.35 < same < 0.4
    assert same_deviation < 0.06
    assert expected(model, cast="bfloat16", fused=True)[0] == pytest.approx(same, abs=0.02)
    assert expected(model, cast="float16")[0] == 0.0
    assert expected(model, fused=True)[0] == 0.0
    assert expected(model)[0] == 0.0


def test_neighbouring_counts_are_alike() -> None:
    model = surrogate()
    model.learn({**BASELINE, "threads": 1}, -0.6, 0.05)
    two, three = expected(model, threads=2)[0], expected(model, threads=3)[0]
    assert -0.6 < two < three < 0.0


def test_a_vague_reading_moves_little() -> None:
    sure, vague = surrogate(), surrogate()
    sure.learn({**BASELINE, "cast": "bfloat16"}, 0.4, 0.05)
    vague.learn({**BASELINE, "cast": "bfloat16"}, 0.4, 0.4)
    assert expected(vague, cast="bfloat16")[0] < 0.5 * expected(sure, cast="bfloat16")[0]


def test_it_is_a_covariance_whatever_the_space() -> None:
    model = surrogate()
    everything = [dict(zip(SPACE.open, values, strict=True)) for values in itertools.product(*SPACE.open.values())]
    for settings in everything:
        model.learn(settings, 0.0, 0.01)  # fails unless the matrix is positive definite
    _, deviation = model.predict(everything)
    assert np.all(deviation <= 0.0101)


def test_a_contrast_knows_what_two_settings_share() -> None:
    model = surrogate()
    model.learn({**BASELINE, "cast": "bfloat16", "fused": True}, 0.4, 0.05)
    both, one = {**BASELINE, "cast": "bfloat16", "fused": True}, {**BASELINE, "cast": "bfloat16"}
    mean, deviation = model.contrast([both, one], [1, -1])
    assert mean == pytest.approx(expected(model, cast="bfloat16", fused=True)[0] - expected(model, cast="bfloat16")[0])
    # Fusing hardly matters, so the ratio of the two is better known than the speed-up of either.
    assert deviation < 0.03 < expected(model, cast="bfloat16")[1]
    assert model.contrast([both], [1]) == pytest.approx(expected(model, cast="bfloat16", fused=True))


def test_what_a_person_has_set_can_be_left_out() -> None:
    space = SearchSpace("test", {"threads": (4, 2)}, {"cast": "bfloat16", "fused": False}, {})
    model = Surrogate(space, BASELINE, DEVIATIONS)
    model.learn({**BASELINE, "cast": "bfloat16"}, 0.4, 0.05)
    mean, _ = model.contrast([{**BASELINE, "cast": "bfloat16"}, BASELINE], [1, -1])
    assert 0.35 < mean < 0.4


def test_counts_are_a_walk_away_from_ones_own() -> None:
    """Eight threads instead of sixty-four were better; sixty-two were tried next, and one."""
    space = SearchSpace("test", {"threads": (64, 62, 8, 4, 1)}, {}, {})
    model = Surrogate(space, {"threads": 64}, {"threads": 0.3})
    deviations = [expected_of(model, threads)[1] for threads in (64, 62, 8, 4, 1)]
    assert deviations == sorted(deviations)
    assert deviations[1] < 0.05 and deviations[4] == pytest.approx(0.3)
    model.learn({"threads": 8}, 0.5, 0.05)
    model.learn({"threads": 4}, 0.2, 0.05)
    assert expected_of(model, 1)[0] == pytest.approx(expected_of(model, 4)[0], abs=0.02)
    assert expected_of(model, 1)[0] < expected_of(model, 8)[0]
    # More than one's own say nothing of fewer.
    both = Surrogate(SearchSpace("test", {"workers": (2, 0, 4)}, {}, {}), {"workers": 2}, {"workers": 0.3})
    both.learn({"workers": 4}, 0.5, 0.05)
    assert float(both.predict([{"workers": 0}])[0][0]) == 0.0


MODES = ("off", "default", "reduce-overhead", "max-autotune")


def compiling(own: str, **readings: float) -> dict[str, tuple[float, float]]:
    """Return what is expected of each mode of the compiler after these readings, beside a user's own mode."""
    model = Surrogate(
        SearchSpace("test", {"compile.mode": MODES}, {}, {}), {"compile.mode": own}, {"compile.mode": 0.3}
    )
    for mode, log_speedup in readings.items():
        model.learn({"compile.mode": mode}, log_speedup, 0.05)
    mean, deviation = model.predict([{"compile.mode": mode} for mode in MODES])
    return dict(zip(MODES, zip(mean.tolist(), deviation.tolist(), strict=True), strict=True))


def test_what_compiling_wins_is_expected_of_all_its_modes() -> None:
    """It won 2.4-fold by default; as CUDA graphs were expected to lose all of that, they were never tried."""
    before, after = compiling("off"), compiling("off", default=0.9)
    assert before["default"] == (0.0, pytest.approx(0.3))
    assert after["off"] == (0.0, 0.0)
    for mode in ("reduce-overhead", "max-autotune"):
        assert before[mode][1] > 0.3
        assert after[mode][0] == pytest.approx(after["default"][0])
        assert 0.1 < after[mode][1] < before[mode][1]
    # What one mode adds is its own.
    one = compiling("off", default=0.4, **{"reduce-overhead": 0.9})
    assert one["reduce-overhead"][0] > 0.8 > 0.6 > one["max-autotune"][0]
    # Nothing is known of what is left out where the user compiles already.
    assert compiling("default", **{"reduce-overhead": 0.4})["max-autotune"][0] == 0.0


def test_fewer_may_be_expected_to_harm_and_what_is_measured_corrects_it() -> None:
    space = SearchSpace("test", {"threads": (64, 32, 8, 96)}, {}, {})
    model = Surrogate(space, {"threads": 64}, {"threads": 0.3}, {"threads": Halving(-0.25, 64)})
    means = [expected_of(model, threads)[0] for threads in (64, 32, 8, 96)]
    assert means == pytest.approx([0.0, -0.25, -0.75, 0.0])  # halved not at all, once, three times; more is no less
    assert model.contrast([{"threads": 32}, {"threads": 8}], [1, -1])[0] == pytest.approx(0.5)
    model.learn({"threads": 8}, 0.5, 0.05)
    assert expected_of(model, 8)[0] == pytest.approx(0.5, abs=0.1)
    assert -0.25 < expected_of(model, 32)[0] < expected_of(model, 8)[0]


def test_counts_are_halved_from_where_fewer_begin_to_harm() -> None:
    """Of threads from as many as there are cores on: of those that a quota stops, fewer may help."""
    space = SearchSpace("test", {"threads": (64, 16, 8, 4, 1)}, {}, {})
    model = Surrogate(space, {"threads": 64}, {"threads": 0.3}, {"threads": Halving(-0.25, 8)})
    means = [expected_of(model, threads)[0] for threads in (64, 16, 8, 4, 1)]
    assert means == pytest.approx([0.0, 0.0, 0.0, -0.25, -0.75])
    model.learn({"threads": 8}, 2.0, 0.05)
    assert expected_of(model, 1)[0] < expected_of(model, 8)[0] - 0.5


def expected_of(model: Surrogate, threads: int) -> tuple[float, float]:
    mean, deviation = model.predict([{"threads": threads}])
    return float(mean[0]), float(deviation[0])


def test_what_is_tried_is_compared_with_a_baseline_that_may_not_be() -> None:
    """A person who keeps the process to two cores rules out the four threads of their own code."""
    model = Surrogate(SearchSpace("test", {"threads": (2, 1)}, {}, {}), {"threads": 4}, {"threads": 0.3})
    model.learn({"threads": 2}, 0.4, 0.05)
    assert model.contrast([{"threads": 2}, {"threads": 4}], [1, -1])[0] == pytest.approx(expected_of(model, 2)[0])


def test_what_does_nothing_is_not_credited_with_what_a_profile_would_have_told() -> None:
    """Readings of a GPT in a script, of which there was no profile: compiling by blocks was proven, and won nothing."""
    space = SearchSpace(
        name="test",
        open={
            "precision.autocast": ("off", "bfloat16"),
            "optimizer.fused": (False, True),
            "compile.mode": ("off", "default"),
            "compile.region": ("model", "blocks"),
        },
        fixed={},
        closed={},
    )
    own: Settings = {name: values[0] for name, values in space.open.items()}
    model = Surrogate(space, own, effect_deviations(space.open, ()))
    cast: Settings = {**own, "precision.autocast": "bfloat16", "optimizer.fused": True}
    compiled: Settings = {**cast, "compile.mode": "default"}
    blocks: Settings = {**compiled, "compile.region": "blocks"}
    for settings, speedups in ((cast, (2.55, 2.41)), (compiled, (2.26, 2.37)), (blocks, (2.38, 2.40, 2.46))):
        for speedup in speedups:
            model.learn(settings, math.log(speedup), 0.067)
    assert model.contrast([blocks, cast], [1, -1])[0] < 0.0
    assert math.exp(model.predict([cast])[0][0]) > 2.4
