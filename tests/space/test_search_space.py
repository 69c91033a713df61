"""Search spaces: what a file may say, and what is left of it on a machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoaccel.advise.candidates import first_candidates
from autoaccel.errors import BadRequestError
from autoaccel.records.machine import Machine, ProcessLimits
from autoaccel.records.profile import Demand, Finding
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import KNOBS, KnobContext, baseline_settings
from autoaccel.space.narrow import narrow
from autoaccel.space.search_space import ALTERS, load_space, space_names, spaces_folder
from autoaccel.space.wishes import check_values


def load(context: KnobContext, name: str = "default", **wishes: Any) -> SearchSpace:
    return load_space(name, context, **wishes)


@pytest.mark.parametrize("name", space_names())
def test_every_space_that_comes_along_loads_and_accounts_for_every_knob(context: KnobContext, name: str) -> None:
    space = load(context, name)
    assert space.open
    assert space.open.keys() | space.fixed.keys() == KNOBS.keys()
    assert not space.open.keys() & space.fixed.keys()
    assert space.closed.keys() <= space.fixed.keys()
    # Of knobs that the file does not name nothing needs to be said.
    text = (spaces_folder() / f"{name}.toml").read_text()
    assert all(f'"{knob}" =' in text for knob in (*space.open, *space.closed))


def test_the_baseline_is_in_the_space_and_comes_first(context: KnobContext, vary: Callable[..., KnobContext]) -> None:
    baseline = vary(context, settings={"loader.workers": 3})
    assert load(baseline).open["loader.workers"] == (3, 0, 1, 2, 4)


def test_unavailable_knobs_are_closed_with_their_reason(context: KnobContext) -> None:
    assert load(context).closed["loader.pin_memory"] == "there is no accelerator to copy to"


def test_a_wish_fixes_and_an_exclusion_keeps(context: KnobContext) -> None:
    space = load(context, fixed=["precision.autocast=bfloat16"], excluded=["compile.mode"])
    assert space.fixed["precision.autocast"] == "bfloat16"
    assert space.fixed["compile.mode"] == "off"
    assert not {"precision.autocast", "compile.mode"} & space.open.keys()


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"fixed": ["precision.autocast"]}, "must be knob=value"),
        ({"fixed": ["precision.autocst=off"]}, "Did you mean precision.autocast?"),
        ({"excluded": ["compile"]}, "Did you mean compile.mode?"),
        ({"fixed": ["compile.mode=off"], "excluded": ["compile.mode"]}, "both set and excluded"),
    ],
)
def test_a_wrong_wish_is_one_clear_error(context: KnobContext, wishes: dict[str, list[str]], message: str) -> None:
    with pytest.raises(BadRequestError) as error:
        load(context, **wishes)
    assert message in str(error.value)


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_file_of_ones_own_lists_values_and_forbids_pairs(context: KnobContext, tmp_path: Path) -> None:
    space = load(
        context,
        write(
            tmp_path,
            """
            title = "mine"
            [knobs]
            "threads.intra_op" = [1, 3, 64]
            "precision.autocast" = ["bfloat16", "float16"]
            [[forbidden]]
            settings = { "precision.autocast" = "float16", "threads.intra_op" = 1 }
            reason = "slow"
            """,
        ),
    )
    assert space.open == {"threads.intra_op": (4, 1, 3), "precision.autocast": ("off", "bfloat16", "float16")}
    assert space.size == 9
    assert not space.allows({"precision.autocast": "float16", "threads.intra_op": 1})
    assert space.allows({"precision.autocast": "float16", "threads.intra_op": 3})
    assert space.fixed["loader.workers"] == 0
    assert space.closed == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "not a search space"),
        ("[knobs]", "missing required field `title`"),
        ('title = "x"\ncolour = 1\n[knobs]', "unknown field `colour`"),
        ('title = "x"\n[knobs]\n"threads.intra" = "all"', "Did you mean threads.intra_op?"),
        ('title = "x"\n[knobs]\n"threads.intra_op" = "some"', 'must be "all" or a list'),
        ('title = "x"\n[knobs]\n"threads.intra_op" = ["two"]', "must be of type int, got 'two'"),
        ('title = "x"\n[knobs]\n[[forbidden]]\nsettings = { "compile" = "off" }\nreason = ""', "Did you mean"),
    ],
)
def test_a_wrong_file_is_one_clear_error(context: KnobContext, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadRequestError) as error:
        load(context, write(tmp_path, text))
    assert message in str(error.value)


def test_a_missing_file_names_the_spaces_there_are(context: KnobContext) -> None:
    with pytest.raises(BadRequestError, match=r"one of default, everything, exact-only, quick or a \.toml file"):
        load(context, "gpus.toml")


def test_a_knob_rests_where_what_it_needs_is_missing(context: KnobContext) -> None:
    space = load(context, "everything")
    baseline = baseline_settings(context)
    settled = space.settle({**baseline, "loader.workers": 0, "loader.prefetch": 8, "compile.dynamic": "on"})
    assert (settled["loader.prefetch"], settled["compile.dynamic"]) == (2, "auto")
    busy = {**baseline, "loader.workers": 2, "loader.prefetch": 8}
    assert space.settle(busy) == busy


def test_where_batches_change_their_shapes_what_is_compiled_is_compiled_for_any(
    context: KnobContext, vary: Callable[..., KnobContext]
) -> None:
    padded = vary(context, shapes_change=True)
    baseline = baseline_settings(padded)
    assert baseline["compile.dynamic"] == "on"
    compiled = [one for one in first_candidates(load(padded), padded, baseline, []) if one["compile.mode"] != "off"]
    assert compiled and all(one["compile.dynamic"] == "on" for one in compiled)
    everything = load(padded, "everything")
    each_anew = {**baseline, "compile.mode": "default", "compile.dynamic": "off"}
    assert everything.allows({**each_anew, "compile.dynamic": "auto"}) and not everything.allows(each_anew)
    assert load(context, "everything").allows({**each_anew, "compile.dynamic": "off"})
    with pytest.raises(BadRequestError, match="each shape would be compiled separately"):
        load(padded, fixed=["compile.mode=default", "compile.dynamic=off"])


def test_what_needs_a_closed_knob_is_closed_too(context: KnobContext) -> None:
    space = load(context, "everything", excluded=["loader.workers"])
    assert space.closed["loader.prefetch"] == "it requires loader.workers above 0"
    opened = load(context, "everything", fixed=["loader.workers=2"])
    assert "loader.prefetch" in opened.open
    assert "loader.prefetch" not in opened.conditions
    narrowed = narrow(load(context, "everything"), baseline_settings(context), [finding("compile.mode", 1.001)], 1.02)
    assert narrowed.closed["compile.dynamic"] == "it requires compile.mode not off"


def test_knobs_that_clash_are_never_combined(context: KnobContext) -> None:
    space = load(context, "everything")
    baseline = baseline_settings(context)
    assert not space.allows({**baseline, "optimizer.fused": True, "optimizer.foreach": "on"})
    assert space.allows({**baseline, "optimizer.fused": True})
    assert space.allows(baseline)
    with pytest.raises(BadRequestError, match="cannot be combined: an update has only one form"):
        load(context, fixed=["optimizer.fused=on", "optimizer.foreach=on"])


def test_everything_is_everything(context: KnobContext) -> None:
    text = (spaces_folder() / "everything.toml").read_text()
    assert all(f'"{name}" = "all"' in text for name in KNOBS)
    for name in space_names():
        text = (spaces_folder() / f"{name}.toml").read_text()
        knobs = [line for line in text.splitlines() if line.startswith('"')]
        assert all("  # " in line for line in knobs), name


def test_exact_only_is_exact(context: KnobContext) -> None:
    space = load(context, "exact-only")
    assert {KNOBS[name].risk for name in space.open} == {"exact"}
    assert "loader.workers" in space.open and space.inexact == {}


def test_exact_only_leaves_out_what_is_not_exact_on_the_training(
    context: KnobContext, vary: Callable[..., KnobContext], tmp_path: Path
) -> None:
    """It promised the same numbers, and searched loader workers that draw others."""
    random = vary(context, loading_matters="loading a sample draws random numbers")
    space = load(random, "exact-only")
    assert not {"loader.workers", "loader.persistent", "loader.context"} & space.open.keys()
    assert space.closed["loader.workers"] == "it is not exact here: loading a sample draws random numbers"
    assert "loader.workers" in load(random).inexact
    listed = tmp_path / "own.toml"
    listed.write_text('title = "mine"\nexact = true\n[knobs]\n"precision.autocast" = "all"\n')
    assert load(context, str(listed)).closed["precision.autocast"] == "it is not exact here: it may change the numbers"


def finding(knob: str, bound: float) -> Finding:
    return Finding(
        code="x", title="the step waits 0.5% of its time for data", share=0.0, bound_speedup=bound, knobs=(knob,)
    )


def test_a_knob_that_cannot_win_is_closed_and_says_why(context: KnobContext) -> None:
    space = load(context)
    baseline = baseline_settings(context)
    narrowed = narrow(space, baseline, [finding("loader.workers", 1.005), finding("optimizer.fused", 1.3)], 1.02)
    assert "loader.workers" not in narrowed.open
    assert narrowed.fixed["loader.workers"] == 0
    assert narrowed.closed["loader.workers"].startswith("the step waits 0.5% of its time for data: at most 1.005x")
    assert narrowed.open.keys() == space.open.keys() - {"loader.workers"}


def test_the_best_of_several_findings_decides(context: KnobContext) -> None:
    findings = [finding("loader.workers", 1.0), finding("loader.workers", 1.5)]
    assert "loader.workers" in narrow(load(context), baseline_settings(context), findings, 1.02).open


PROMISED = {
    "compile.mode", "compile.backend", "precision.autocast", "threads.intra_op", "threads.affinity", "loader.workers",
    "loader.pin_memory", "layout.channels_last", "optimizer.fused", "memory.allocator", "threads.openmp",
    "model.sparsity", "parallel.world_size", "precision.float32_matmul", "precision.cudnn_benchmark", "model.attention",
}  # fmt: skip


def test_the_default_accounts_for_every_axis_that_users_were_promised(context: KnobContext) -> None:
    space = load(context)
    assert space.open.keys() | space.closed.keys() >= PROMISED


def test_a_model_is_altered_only_where_a_person_has_said_how_much_worse_it_may_get(
    context: KnobContext, vary: Callable[..., KnobContext], tmp_path: Path
) -> None:
    prunes = vary(context, packages={"torch-pruning": "1.6.1"})
    assert load(prunes).closed["model.sparsity"] == ALTERS
    assert "--max-drop" in ALTERS
    assert load(prunes, may_alter=True).open["model.sparsity"] == (0.0, 0.3, 0.5, 0.7)
    assert load(prunes, fixed=["model.sparsity=0.5"]).fixed["model.sparsity"] == 0.5
    assert "pip install" in load(context, may_alter=True).closed["model.sparsity"]
    baseline = write(tmp_path, 'title = "mine"\n[knobs]\n"optimizer.fused" = "all"\n[altering]\n"model.biases" = "all"')
    assert load(prunes, baseline).closed["model.biases"] == ALTERS
    assert load(prunes, baseline, may_alter=True).open.keys() == {"optimizer.fused", "model.biases"}


@pytest.mark.parametrize(("features", "device", "is_open"), [
    (("avx2",), "cpu", False),
    (("avx2", "avx512f", "avx512_bf16"), "cpu", True),
    (("avx2",), "cuda", True),
    ((), "cpu", True),  # nobody could tell
])  # fmt: skip
def test_short_types_are_searched_where_the_processor_has_them(
    features: tuple[str, ...],
    device: str,
    is_open: bool,
    context: KnobContext,
    vary: Callable[..., KnobContext],
    tmp_path: Path,
) -> None:
    """A U-Net's third and last trial was in bfloat16, which takes many times as long on a processor without it."""
    here = vary(context, cpu=msgspec.structs.replace(context.machine.cpu, features=features), device=device)
    for name in ("default", "quick"):
        space = load(here, name)
        assert ("precision.autocast" in space.open) == is_open
        assert is_open or "emulate" in space.closed["precision.autocast"]
    # Whoever names it or does so already has a reason.
    assert "precision.autocast" in load(here, "everything").open
    mine = write(tmp_path, 'title = "mine"\n[knobs]\n"precision.autocast" = ["off", "bfloat16"]')
    assert load(here, mine).open["precision.autocast"] == ("off", "bfloat16")
    assert load(here, fixed=["precision.autocast=bfloat16"]).fixed["precision.autocast"] == "bfloat16"
    casting = vary(here, settings={"precision.autocast": "bfloat16"})
    assert "off" in load(casting).open["precision.autocast"]


@pytest.mark.parametrize(("speedups", "opened", "first"), [
    ({"bfloat16": 0.85, "float16": 0.02}, None, "off"),  # a Xeon with AVX512_BF16, but without AMX
    ({"bfloat16": 1.1, "float16": 0.02}, ("off", "bfloat16"), "off"),  # converting takes that back
    ({"bfloat16": 1.9, "float16": 0.02}, ("off", "bfloat16"), "bfloat16"),
    ({"bfloat16": 0.85, "float16": 1.9}, ("off", "float16"), "float16"),
    ({}, ("off", "bfloat16", "float16"), "bfloat16"),  # nobody measured
])  # fmt: skip
def test_short_types_that_are_slower_here_are_not_searched(
    speedups: dict[str, float],
    opened: tuple[str, ...] | None,
    first: str,
    context: KnobContext,
    vary: Callable[..., KnobContext],
) -> None:
    """The processor has the instructions, and half of the trials of a minute went into what made steps longer."""
    assert context.machine.torch is not None
    here = vary(context, torch=msgspec.structs.replace(context.machine.torch, product_speedups=speedups))
    space, baseline = load(here), baseline_settings(here)
    assert space.open.get("precision.autocast") == opened
    assert opened or "0.85x as fast in bfloat16" in space.closed["precision.autocast"]
    assert first_candidates(space, here, baseline, [])[0]["precision.autocast"] == first
    assert load(here, fixed=["precision.autocast=bfloat16"]).fixed["precision.autocast"] == "bfloat16"
    assert "bfloat16" in load(here, "everything").open["precision.autocast"]


def test_values_that_a_wish_rules_out_are_not_offered(context: KnobContext) -> None:
    """They were in the space, and no trial could have them."""
    space = load(context, fixed=["threads.affinity=0-1"])
    assert space.open["threads.intra_op"] == (2, 1)  # the user's own four threads do not fit on two cores
    space = load(context, fixed=["threads.affinity=0"])
    assert space.fixed["threads.intra_op"] == 1
    assert "threads that share a core" in space.closed["threads.intra_op"]


def test_the_profile_says_which_counts_are_worth_trying(context: KnobContext) -> None:
    """Loading takes one and a half steps: two workers keep up, a third is one more, and there are four cores."""
    measured = KnobContext(context.machine, context.training, Demand(0.1, 1 << 30, 0.15, 0.15))
    assert load(context).open["loader.workers"] == (0, 1, 2, 4)
    assert load(measured).open["loader.workers"] == (0, 2, 3, 4)
    assert load(measured).open["threads.intra_op"] == (4, 2, 1)  # two of four cores are left


def test_a_list_of_ones_own_is_searched_whatever_the_profile_says(context: KnobContext, tmp_path: Path) -> None:
    baseline = write(tmp_path, 'title = "mine"\n[knobs]\n"loader.workers" = [0, 1, 4]')
    measured = KnobContext(context.machine, context.training, Demand(0.1, 1 << 30, 0.15, 0.15))
    assert load(measured, baseline).open["loader.workers"] == (0, 1, 4)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ("precision.autocast=bf16", "must be one of off, bfloat16"),
        ("loader.workers=two", "whole number from 0 to 16, got two"),
        ("threads.intra_op=64", "whole number from 1 to 4, got 64"),
        ("threads.affinity=0,9", "a list of CPUs among 0-3"),
        ("memory.allocator=jemalloc", "this machine has no other allocator"),
        ("layout.channels_last=yes", "must be one of off, on"),
    ],
)
def test_a_value_that_no_training_could_have_here_is_refused_before_torch_is_asked(
    machine: Machine, wish: str, message: str
) -> None:
    unknown = msgspec.structs.replace(machine, torch=None, c_compiler="/usr/bin/gcc")
    with pytest.raises(BadRequestError, match=re.escape(message)):
        check_values([wish], unknown)


def test_what_torch_or_the_training_may_yet_allow_is_not_refused(machine: Machine) -> None:
    unknown = msgspec.structs.replace(machine, torch=None, c_compiler="/usr/bin/gcc")
    check_values(
        [
            "precision.autocast=float16",
            "precision.cudnn_benchmark=on",
            "model.attention=cudnn",
            "compile.backend=ipex",
            "compile.mode=reduce-overhead",
            "layout.channels_last=on",
            "optimizer.batch_factor=2",
            "threads.affinity=compact",
        ],
        unknown,
    )
    quota = msgspec.structs.replace(unknown, limits=ProcessLimits((0, 1, 2, 3), 4, cpu_quota=1.0))
    check_values(["threads.intra_op=3"], quota)  # torch takes four of its own accord
