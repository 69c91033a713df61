"""Knobs: their values on a machine, and why they are unavailable."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch

from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Library, NumaNode, ProcessLimits
from autoaccel.records.script import SeenModel
from autoaccel.records.seen import ScriptFacts
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.runtime.knobs import effects_of
from autoaccel.space.change import Change
from autoaccel.space.knobs import (
    KNOBS,
    KnobContext,
    baseline_settings,
    check_value,
    default_settings,
    environment_of,
    find_knob,
    inexact_here,
    is_exact,
    knob_rows,
    parse_value,
    risks_here,
    risky_part,
)

Vary = Callable[..., KnobContext]


def test_every_knob_has_an_effect_and_every_effect_a_knob(context: KnobContext) -> None:
    assert effects_of(default_settings(context), torch.device("cpu"), found={}).keys() == KNOBS.keys()


def test_every_default_is_among_the_values(context: KnobContext) -> None:
    assert all(row.default in row.values for row in knob_rows(context))


def test_a_basic_value_is_offered_and_does_something(context: KnobContext) -> None:
    basics = {name: knob.basic for name, knob in KNOBS.items() if knob.basic is not None}
    assert basics
    for name, basic in basics.items():
        assert basic in KNOBS[name].values(context)
        assert not KNOBS[name].is_off(basic)


def test_thread_values_respect_what_this_process_may_use(context: KnobContext, vary: Vary) -> None:
    assert KNOBS["threads.intra_op"].values(context) == (4, 2, 1)
    torch = msgspec.structs.replace(context.machine.torch, intra_op_threads=2)
    quota = vary(context, limits=ProcessLimits((0, 1, 2, 3), 4, cpu_quota=1.5), torch=torch)
    assert KNOBS["threads.intra_op"].values(quota) == (2, 1)
    alone = vary(context, limits=ProcessLimits((3,), 1), torch=msgspec.structs.replace(torch, intra_op_threads=1))
    assert "one core" in KNOBS["threads.intra_op"].why_unavailable(alone)


@pytest.mark.parametrize(
    ("knob", "changes", "reason"),
    [
        ("compile.mode", {"compiler": None}, "no C++ compiler: apt install g++"),
        ("layout.channels_last", {"has_image_convolutions": False}, "no convolution over images"),
        ("optimizer.fused", {"optimizer_has_fused": False, "optimizer": "Rprop"}, "Rprop has no fused form"),
        ("loader.workers", {"loader_adjustable": False}, "do not come from a torch DataLoader"),
        ("loader.workers", {"loader_adjustable": False, "loader_fixed": "Endless is what it is"}, "Endless is"),
        ("parallel.world_size", {"batches_divisible": False, "loader_fixed": "Endless is what it is"}, "Endless is"),
        ("loader.pin_memory", {}, "no accelerator"),
    ],
)
def test_an_unavailable_knob_says_why(
    context: KnobContext, vary: Vary, knob: str, changes: dict[str, object], reason: str
) -> None:
    rows = {row.name: row for row in knob_rows(vary(context, **changes))}
    assert not rows[knob].available
    assert reason in rows[knob].reason


def test_dtypes_that_do_not_train_here_are_not_offered(context: KnobContext, vary: Vary) -> None:
    without = vary(context, torch=msgspec.structs.replace(context.machine.torch, autocast=("bfloat16",)))
    assert KNOBS["precision.autocast"].values(without) == ("off", "bfloat16")


@pytest.mark.parametrize(
    ("features", "has_convolutions", "offered"),
    [
        (("avx512f",), False, False),  # emulated
        (("avx512f", "avx512_fp16"), False, True),
        (("avx512f", "avx512_fp16"), True, False),  # a convolution's gradient is emulated
        (("avx512f", "avx512_fp16", "amx_fp16"), True, True),
    ],
)
def test_float16_is_offered_where_the_processor_trains_in_it(
    context: KnobContext, vary: Vary, features: tuple[str, ...], has_convolutions: bool, offered: bool
) -> None:
    cpu = msgspec.structs.replace(context.machine.cpu, features=features)
    values = KNOBS["precision.autocast"].values(vary(context, cpu=cpu, has_convolutions=has_convolutions))
    assert ("float16" in values) == offered


def test_the_baseline_is_what_the_user_declares_and_defaults_elsewhere(context: KnobContext, vary: Vary) -> None:
    settings = baseline_settings(vary(context, settings={"loader.workers": 3}, loader_pins_memory=True))
    assert settings["loader.workers"] == 3  # not among the values worth trying, but the user's own
    assert settings["loader.pin_memory"] is True  # what the user's own loader does already
    assert settings["threads.intra_op"] == 4


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"loader.worker": 2}, "Did you mean loader.workers?"),
        ({"threads.affinity": "0,9"}, "a list of CPUs among 0-3, such as 0-1, got 0,9"),
        ({"optimizer.batch_factor": 100.0}, "a number from 0.0625 to 64, got 100"),
        ({"loader.workers": "two"}, "whole number from 0 to 16, got two"),
        ({"loader.workers": True}, "whole number from 0 to 16, got on"),
        ({"loader.workers": 17}, "whole number from 0 to 16, got 17"),
        ({"precision.autocast": "bf16"}, "one of off, bfloat16, float16, got bf16"),
        ({"layout.channels_last": 1}, "one of off, on, got 1"),
    ],
)
def test_a_wrong_declaration_is_one_clear_error(
    context: KnobContext, vary: Vary, declared: dict[str, object], message: str
) -> None:
    with pytest.raises(BadRequestError, match="Training") as error:
        baseline_settings(vary(context, settings=declared))
    assert message in str(error.value)


def test_values_are_read_as_typed(context: KnobContext) -> None:
    assert parse_value(KNOBS["layout.channels_last"], "on", context, "--set") is True
    assert parse_value(KNOBS["layout.channels_last"], "False", context, "--set") is False
    assert parse_value(KNOBS["threads.intra_op"], "3", context, "--set") == 3
    with pytest.raises(BadRequestError, match="whole number from 1 to 4, got many"):
        parse_value(KNOBS["threads.intra_op"], "many", context, "--set")


def test_a_value_of_an_unavailable_knob_says_why(context: KnobContext, vary: Vary) -> None:
    with pytest.raises(BadRequestError, match=r"cannot be default here: no C\+\+ compiler"):
        check_value(find_knob("compile.mode", "x"), "default", vary(context, compiler=None), "--set")


def test_threads_hold_from_the_start_of_a_process(context: KnobContext) -> None:
    assert environment_of({**default_settings(context), "threads.intra_op": 3}, context) == {
        "OMP_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "3",
    }


def test_libraries_to_preload_are_joined_and_only_what_this_machine_has(context: KnobContext, vary: Vary) -> None:
    wanted: Settings = {"memory.allocator": "jemalloc", "threads.openmp": "intel"}
    assert "LD_PRELOAD" not in environment_of(wanted, context)
    rich = vary(context, allocators=(Library("jemalloc", "/j.so"),), openmp=(Library("libiomp5", "/i.so"),))
    found = environment_of(wanted, rich, at_start_only=True)
    assert found["LD_PRELOAD"] == "/j.so:/i.so"
    assert "background_thread:true" in found["MALLOC_CONF"]


def test_freed_memory_is_kept_where_glibc_hands_it_out(context: KnobContext, vary: Vary) -> None:
    on: Settings = {**default_settings(context), "memory.keep_freed": True}
    assert environment_of(on, context, at_start_only=True)["MALLOC_MMAP_MAX_"] == "0"
    knob = KNOBS["memory.keep_freed"]
    assert not knob.why_closed(vary(context, libc="glibc 2.28"))
    assert "not known to be glibc" in knob.why_closed(vary(context, libc="musl 1.2"))
    assert "not known to be glibc" in knob.why_closed(vary(context, libc=None))


CORES = ((0, 4), (1, 5), (2, 6), (3, 7))


@pytest.mark.parametrize(
    ("value", "cpus"),
    [
        ("cores", "0-3"),
        ("compact", "0-1"),
        ("spread", "0,2"),
        ("node", "0-1,4-5"),
        ("0-1,6", "0-1,6"),
    ],
)
def test_affinity_follows_the_machine(context: KnobContext, vary: Vary, value: str, cpus: str) -> None:
    nodes = (NumaNode(0, (0, 1, 4, 5)), NumaNode(1, (2, 3, 6, 7)))
    cpu = msgspec.structs.replace(context.machine.cpu, numa_nodes=nodes)
    hyper = vary(context, cpu=cpu, limits=ProcessLimits(tuple(range(8)), 4, CORES))
    assert environment_of({"threads.affinity": value}, hyper) == {"AUTOACCEL_CPUS": cpus}
    assert KNOBS["threads.affinity"].values(hyper) == ("none", "cores", "node")
    assert environment_of({"threads.loader_cores": 1}, hyper) == {"AUTOACCEL_LOADER_CPUS": "3,7"}


def test_each_choice_of_cpus_is_offered_once(context: KnobContext) -> None:
    """Four cores of one thread each, one memory node: all cores and the whole node are what there is."""
    knob = KNOBS["threads.affinity"]
    assert knob.values(context) == ("none",)
    assert "of one kind, on one memory node" in knob.why_untried(context)
    assert check_value(knob, "compact", context, "--set") == "compact"  # but may be asked for


def test_a_knob_none_of_whose_values_is_worth_a_trial_says_why(context: KnobContext) -> None:
    """Attention by the flash kernel, which PyTorch takes anyway, was a trial on every CPU."""
    rows = {row.name: row for row in knob_rows(context)}
    for name, reason in (("threads.affinity", "of one kind"), ("model.attention", "uses the flash kernel")):
        assert rows[name].values == (rows[name].default,)
        assert not rows[name].available and reason in rows[name].reason
    assert check_value(KNOBS["model.attention"], "math", context, "--set") == "math"
    with pytest.raises(BadRequestError, match="must be auto, or flash or math, got fast"):
        check_value(KNOBS["model.attention"], "fast", context, "--set")


def test_a_text_of_another_shape_is_parsed_by_the_default(context: KnobContext) -> None:
    assert parse_value(KNOBS["optimizer.batch_factor"], "1.5", context, "--set") == 1.5
    assert parse_value(KNOBS["compile.dynamic"], "on", context, "--set") == "on"
    assert parse_value(KNOBS["threads.affinity"], "1-2", context, "--set") == "1-2"


def test_ipex_is_decided_from_versions(context: KnobContext, vary: Vary) -> None:
    knob = KNOBS["ipex.optimize"]
    assert "not installed" in knob.why_unavailable(context)
    with_ipex = vary(context, packages={"intel-extension-for-pytorch": "2.8.0"})
    assert "needs torch 2.8, but this is" in knob.why_unavailable(with_ipex)
    fitting = vary(with_ipex, torch=msgspec.structs.replace(context.machine.torch, version="2.8.0+cpu"))
    assert knob.why_unavailable(fitting) == ""


def test_only_exact_knobs_leave_the_numbers_alone(context: KnobContext) -> None:
    baseline = default_settings(context)
    assert is_exact({**baseline, "loader.workers": 2}, baseline, ())
    changed = {**baseline, "loader.workers": 2, "precision.autocast": "bfloat16"}
    assert not is_exact(changed, baseline, ())
    assert risky_part(changed, baseline, ()) == {"precision.autocast": "bfloat16"}


def test_workers_are_exact_only_where_samples_draw_no_random_numbers(context: KnobContext, vary: Vary) -> None:
    """Workers draw others: a recipe with them was accepted without a look at the metric."""
    baseline = default_settings(context)
    assert inexact_here(context) == {}
    random = vary(context, loading_matters="loading a sample draws random numbers")
    inexact = inexact_here(random)
    assert inexact == dict.fromkeys(
        ["loader.workers", "loader.persistent", "loader.context", "loader.side_stream"],
        "loading a sample draws random numbers",
    )
    changed = {**baseline, "loader.workers": 2, "loader.prefetch": 4}
    assert risky_part(changed, baseline, inexact) == {"loader.workers": 2}
    assert not is_exact(changed, baseline, inexact)
    assert KNOBS["loader.workers"].risk_at(random) == "changes_training"
    assert {row.name: row.risk for row in knob_rows(random)}["loader.workers"] == "changes_training"
    assert KNOBS["loader.workers"].risk_at(context) == "exact"
    assert KNOBS["precision.autocast"].risk_at(random) == "rounding"


def change_in(context: KnobContext, settings: Settings) -> Change:
    own = default_settings(context)
    space = SearchSpace("t", {}, own, {}, inexact=inexact_here(context), risks=risks_here(context))
    return Change(settings, own, space)


def settings_of(change: Change | None) -> Settings | None:
    return change and change.settings


def test_workers_redraw_samples_where_each_has_a_seed_for_what_they_draw_from(context: KnobContext, vary: Vary) -> None:
    baseline = default_settings(context)
    random = vary(context, loading_matters="loading a sample draws random numbers", loading_redraws=True)
    changed = {**baseline, "loader.workers": 2, "loader.prefetch": 4}
    assert not is_exact(changed, baseline, inexact_here(random))
    assert change_in(random, changed).risk == "redraws"
    assert change_in(random, changed).redrawn == ("loader.workers",)
    assert change_in(context, changed).redrawn == ()
    cast = {**changed, "precision.autocast": "bfloat16"}
    assert change_in(random, cast).risk == "rounding"
    assert settings_of(change_in(random, cast).at_most("redraws")) == changed
    assert settings_of(change_in(random, cast).at_most("exact")) == baseline


@pytest.mark.parametrize(
    ("changes", "closed", "open_"),
    [
        ({}, {}, {"precision.autocast", "compile.mode", "optimizer.fused"}),
        (
            {"models": ()},
            {
                "precision.autocast": "the script calls no module that it trains",
                "compile.mode": "the script calls no module that it trains",
            },
            {"threads.intra_op", "optimizer.fused"},
        ),
        (
            {"calls_models": False},
            {
                "precision.autocast": "the script never calls its modules themselves, as model(inputs) does, but their "
                "forward() or what they hold: there is no call that could be changed",
            },
            {"threads.intra_op", "optimizer.fused"},
        ),
        (
            {"does": ("differentiates its gradients",)},
            {"compile.mode": "the script differentiates its gradients, which compiled models do not support"},
            {"threads.intra_op", "precision.autocast", "optimizer.fused"},
        ),
        (
            {"updates_itself": True},
            {"optimizer.fused": "the script makes its updates itself, without an optimizer of torch.optim"},
            {"threads.intra_op", "precision.autocast", "compile.mode"},
        ),
    ],
)
def test_a_script_has_the_knobs_of_the_parts_that_it_has(
    changes: dict[str, object], closed: dict[str, str], open_: set[str], context: KnobContext, vary: Vary
) -> None:
    model = SeenModel("Net", 100, 100, "train.py:3")
    seen = ScriptFacts((model,), (), (), (0,), "cpu", 0.5, 10, None, None, has_loss=True)
    script = msgspec.structs.replace(seen, **changes)
    there = vary(context, script=script, optimizer_has_fused=True)
    assert {name: KNOBS[name].why_closed(there) for name in closed} == closed
    assert {name for name in open_ if not KNOBS[name].why_closed(there)} == open_


def test_nobody_scales_the_loss_of_a_script_so_it_is_not_offered_float16(context: KnobContext, vary: Vary) -> None:
    assert "float16" in KNOBS["precision.autocast"].values(context)
    there = vary(context, script=ScriptFacts((), (), (), (0,), "cpu", 0.5, 10, None, None, has_loss=True))
    assert KNOBS["precision.autocast"].values(there) == ("off", "bfloat16")


def test_a_batch_in_parts_only_rounds_where_nothing_normalises_by_its_statistics(
    context: KnobContext, vary: Vary
) -> None:
    baseline, normalised = default_settings(context), vary(context, has_batch_statistics=True)
    for name in ("parallel.world_size", "optimizer.accumulation"):
        assert KNOBS[name].risk_at(context) == "rounding"
        assert KNOBS[name].risk_at(normalised) == "changes_training"
    ranks = {**baseline, "parallel.world_size": 2, "loader.workers": 1}
    assert change_in(context, ranks).risk == "rounding"
    assert change_in(normalised, ranks).risk == "changes_training"
    assert change_in(normalised, {**baseline, "loader.workers": 1}).risk == "exact"
    assert change_in(context, baseline).risk == "exact"
    random = vary(context, loading_matters="loading a sample draws random numbers")
    assert change_in(random, {**baseline, "loader.workers": 1}).risk == "changes_training"


def test_a_part_of_settings_has_nothing_riskier_and_nothing_that_would_do_nothing(context: KnobContext) -> None:
    baseline = default_settings(context)
    exact: Settings = {"loader.workers": 2, "loader.prefetch": 4}
    chosen: Settings = {**baseline, **exact, "precision.autocast": "bfloat16", "optimizer.batch_factor": 2.0}
    change = change_in(context, chosen)
    assert settings_of(change.at_most("exact")) == {**baseline, **exact}
    assert settings_of(change.at_most("rounding")) == {**baseline, **exact, "precision.autocast": "bfloat16"}
    assert change.at_most("changes_training") == change
    assert set(change.names) == {*exact, "precision.autocast", "optimizer.batch_factor"}
    assert change.without("loader.workers").settings["loader.prefetch"] == baseline["loader.prefetch"]
    # What a person has set stays, so that there is no part without it.
    wish = SearchSpace(name="t", open={}, fixed={**baseline, "precision.autocast": "bfloat16"}, closed={})
    assert Change(chosen, baseline, wish).at_most("exact") is None


def test_a_cache_counts_one_copy_for_each_process_that_loads(context: KnobContext, vary: Vary) -> None:
    """Workers hold all samples each: eight of them took eight times the memory that was looked at."""
    cache = KNOBS["loader.cache"]
    fits_once = vary(context, dataset_bytes=3 << 30)  # of 16 GiB, a quarter may be taken
    assert cache.why_unavailable(fits_once) == ""
    clashes = {clash.knob: clash for clash in cache.clashes}
    for knob in ("loader.workers", "parallel.world_size"):
        assert not clashes[knob].where(fits_once, True, 1)
        assert clashes[knob].where(fits_once, True, 2)
        assert not clashes[knob].where(context, True, 64)
    assert "only one epoch" in cache.why_unavailable(vary(context, epochs=1))


def test_batch_factors_give_whole_samples(context: KnobContext, vary: Vary) -> None:
    factors = KNOBS["optimizer.batch_factor"].values
    assert factors(context) == (1.0, 2.0, 4.0, 0.5)
    assert factors(vary(context, batch_size=25)) == (1.0, 2.0, 4.0)


def test_a_step_is_made_in_parts_wherever_batches_can_be_divided(context: KnobContext, vary: Vary) -> None:
    ready = vary(context, batch_adjustable=False)  # a ready loader with batches of a dataset's samples
    assert KNOBS["optimizer.accumulation"].why_unavailable(ready) == ""
    assert "cannot be divided" in KNOBS["optimizer.accumulation"].why_unavailable(vary(ready, batches_divisible=False))
