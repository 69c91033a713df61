"""Findings, their bounds, and where the search starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from autoaccel.advise.bounds import bound_of_share
from autoaccel.advise.candidates import first_candidates
from autoaccel.advise.findings import advise
from autoaccel.advise.observations import Observations
from autoaccel.records.machine import ProcessLimits
from autoaccel.records.profile import PHASES, Finding, Profile
from autoaccel.records.settings import Settings, changed
from autoaccel.space.knobs import KnobContext, baseline_settings
from autoaccel.space.search_space import load_space


def profile_with(**shares: float) -> Profile:
    """Return a profile with these shares of the step; the rest goes half to forward, half to backward."""
    phases = dict.fromkeys(PHASES, 0.0) | {name.replace("_", " "): share for name, share in shares.items()}
    rest = 1 - sum(phases.values())
    phases |= {"forward": rest / 2, "backward": rest / 2}
    return Profile(0.1, 640.0, phases, (), {"convolution": 0.8, "elementwise": 0.2}, 1 << 30, 1000, 20)


def test_bounds_are_amdahls() -> None:
    assert bound_of_share(0.5) == pytest.approx(2.0)
    assert bound_of_share(0.0) == 1.0
    assert bound_of_share(1.0) == pytest.approx(1000)


def test_findings_come_most_valuable_first(context: KnobContext) -> None:
    findings = advise(Observations(profile_with(data_wait=0.9), context.machine))
    assert findings[0].code == "data-wait"
    assert findings[0].bound_speedup == pytest.approx(10.0)
    assert findings[0].knobs[0] == "loader.workers"
    assert [finding.expected_speedup for finding in findings] == sorted(
        (finding.expected_speedup for finding in findings), reverse=True
    )


def test_nothing_is_said_of_a_gpu_that_is_not_there(context: KnobContext) -> None:
    assert "host-to-device" not in [finding.code for finding in advise(Observations(profile_with(), context.machine))]


def candidates(context: KnobContext, profile: Profile) -> list[Settings]:
    baseline = baseline_settings(context)
    return first_candidates(
        load_space("default", context), context, baseline, advise(Observations(profile, context.machine))
    )


def test_the_first_guess_for_images_is_bfloat16_with_channels_last_and_a_fused_optimizer(context: KnobContext) -> None:
    baseline = baseline_settings(context)
    assert candidates(context, profile_with(optimizer=0.2))[0] == {
        **baseline,
        "precision.autocast": "bfloat16",
        "layout.channels_last": True,
        "optimizer.fused": True,
    }


def test_workers_are_tried_with_the_threads_that_they_leave_and_not_at_all_where_data_is_late(
    context: KnobContext,
) -> None:
    """Two of four cores for workers: what they cost may be more than what they spare."""
    first, second, third = candidates(context, profile_with(data_wait=0.6))[:3]
    loads = [(one["loader.workers"], one["threads.intra_op"]) for one in (first, second, third)]
    assert loads == [(2, 4), (2, 2), (0, 4)]
    others = {"loader.workers": 2, "threads.intra_op": 4}
    assert {**second, **others} == {**third, **others} == first
    assert not any(settings["loader.workers"] for settings in candidates(context, profile_with()))


@pytest.mark.parametrize("findings", [(), (Finding("data-wait", "it waits", 0.5, 2.0, ("loader.workers",)),)])
def test_on_two_cores_the_likely_combination_and_its_parts_are_tried_and_nothing_odd(
    context: KnobContext, vary: Callable[..., KnobContext], findings: Sequence[Finding]
) -> None:
    """Two ranks were guessed with loader workers: four processes on two cores."""
    torch = msgspec.structs.replace(context.machine.torch, intra_op_threads=2)
    two = vary(context, limits=ProcessLimits((0, 1), 2), torch=torch)
    baseline = baseline_settings(two)
    found = [changed(one, baseline) for one in first_candidates(load_space("default", two), two, baseline, findings)]
    workers: Settings = {"loader.workers": 2} if findings else {}
    best: Settings = {"precision.autocast": "bfloat16", "layout.channels_last": True, "optimizer.fused": True}
    loads = [{**workers, "threads.intra_op": 1}, {}] if findings else []
    assert found[: 1 + len(loads)] == [{**best, **workers}, *({**best, **load} for load in loads)]
    without_type = {name: value for name, value in best.items() if name != "precision.autocast"}
    assert {**without_type, **workers} in found, "nothing else shows that a short type slows this model down"
    assert [one for one in found if "parallel.world_size" in one] == [{"parallel.world_size": 2}]
    for one in found[1 + len(loads) :]:
        parts = one.keys() - workers.keys()
        assert len(parts) <= 1 or parts <= best.keys() | {"compile.mode"}


def test_what_is_left_of_a_closed_guess_is_not_tried_before_its_turn(context: KnobContext) -> None:
    """Sparsity and ranks are closed by default for many trainings: what remained of them was the last guess, twice."""
    baseline = baseline_settings(context)
    excluded = ("model.sparsity", "parallel.world_size", "compile.mode")
    space = load_space("default", context, excluded=excluded)
    waits = Finding("data-wait", "it waits", 0.5, 2.0, ("loader.workers",))
    found = [changed(one, baseline) for one in first_candidates(space, context, baseline, [waits])]
    assert found[-1] == {"loader.workers": 2} and found[-2].keys() >= {"layout.channels_last", "optimizer.fused"}


def test_guesses_keep_to_what_a_person_has_set(context: KnobContext) -> None:
    """With half of the cores, the user's own four threads are not offered, and no guess was left."""
    baseline = baseline_settings(context)
    space = load_space("default", context, fixed=["threads.affinity=0-1"])
    found = first_candidates(space, context, baseline, ())
    assert found and all(settings["threads.intra_op"] == 2 for settings in found)


def test_candidates_are_new_allowed_and_compile_last(context: KnobContext, vary: Callable[..., KnobContext]) -> None:
    for where in (context, vary(context, has_image_convolutions=False), vary(context, compiler=None)):
        baseline = baseline_settings(where)
        space = load_space("default", where)
        found = first_candidates(
            space, where, baseline, advise(Observations(profile_with(data_wait=0.3), where.machine))
        )
        assert baseline not in found
        assert all(found.count(settings) == 1 for settings in found)
        assert all(settings[name] in values for settings in found for name, values in space.open.items())
        compiled = [settings["compile.mode"] != "off" for settings in found]
        assert compiled == sorted(compiled)
