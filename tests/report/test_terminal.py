"""What is printed at the end of a run and by the commands that show records."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from autoaccel.records.accuracy import exact_numbers, redrawn_numbers
from autoaccel.records.check import Verification
from autoaccel.records.machine import Gpu, GpuSet, Interconnect
from autoaccel.records.recipe import Interaction, OpenProof, RunSpeedup
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.report.advice import print_advice
from autoaccel.report.tables import print_gpu_sets, print_knobs, print_machine, print_trials
from autoaccel.report.terminal import print_recipe, print_verification

from . import samples

PATH = Path("autoaccel-runs/digits 1/recipe.json")


def printed(show, *arguments, width=100):
    console = Console(file=io.StringIO(), width=width)
    show(console, *arguments)
    return console.file.getvalue()


def rows_of(text):
    """Return the lines with runs of blanks made one."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_summary_comes_first():
    assert printed(print_recipe, samples.RECIPE, PATH).strip().startswith(samples.RECIPE.summary)


def test_only_what_changed_is_listed():
    rows = rows_of(printed(print_recipe, samples.RECIPE, PATH))
    assert "precision.autocast off bfloat16 1.33x (1.27 to 1.39)" in rows
    assert "layout.channels_last off on 1.14x (1.05 to 1.24, estimated)" in rows
    assert not any(row.startswith("optimizer.fused") for row in rows)


def test_contributions_are_told_beside_the_settings_and_as_a_product():
    text = " ".join(rows_of(printed(print_recipe, samples.RECIPE, PATH)))
    assert "product 1.52x, whole recipe 1.50x, equal within their intervals" in text
    interaction = Interaction(("layout.channels_last", "precision.autocast"), 1.2, 1.1, 1.3)
    recipe = msgspec.structs.replace(samples.RECIPE, interaction=interaction)
    assert "precision.autocast reinforce each other" in " ".join(rows_of(printed(print_recipe, recipe, PATH)))
    one = msgspec.structs.replace(samples.RECIPE, contributions=())
    text = printed(print_recipe, one, PATH)
    assert "contributes" not in text and "multiplied" not in text
    assert "precision.autocast off bfloat16" in rows_of(text)


def test_all_of_it_fits_on_one_screen():
    assert len(printed(print_recipe, samples.RECIPE, PATH, width=80).splitlines()) <= 30


def test_a_notebook_shows_the_recipe_itself():
    shown = samples.RECIPE._repr_html_()
    assert samples.RECIPE.summary in shown
    assert "<td>precision.autocast</td><td>off</td><td>bfloat16</td><td>1.33x (1.27 to 1.39)</td>" in shown
    hostile = msgspec.structs.replace(samples.RECIPE, summary="<script>", settings={"<b>": "</td><img src=x>"})
    assert "<script>" not in hostile._repr_html_() and "<img" not in hostile._repr_html_()
    assert "<table>" not in samples.NOTHING_FASTER._repr_html_()


def test_the_evidence_is_complete():
    text = " ".join(rows_of(printed(print_recipe, samples.RECIPE, PATH)))
    assert "1.50x (1.45 to 1.56) 5 pairs of fresh processes, 100 turns, 95 % interval" in text
    assert "test_accuracy 0.9741 -> 0.9736: 0.0005 worse on average, at most 0.0021 worse; 0.005 allowed" in text
    assert "judged on the first 25 % of the planned run, 3 pairs of runs from the same seeds" in text
    assert "Whole run 11 min 26 s -> 7 min 39 s, saves 3 min 47 s" in text
    assert "start-up 3.1 s -> 3.3 s compile 100 ms -> 400 ms 23,450 steps 11 min 22 s -> 7 min 35 s" in text
    assert "9 trials (1 failed, 1 infeasible) in 9 min 31 s of 10 min 00 s" in text


def test_when_the_recipe_was_written_is_told_and_whether_the_run_ended_after_that():
    def told(**changes):
        search = msgspec.structs.replace(samples.RECIPE.search, **changes)
        return " ".join(
            rows_of(printed(print_recipe, msgspec.structs.replace(samples.RECIPE, search=search), PATH, width=200))
        )

    assert "speed was proven 1 min 23 s after the start; the recipe was written after 2 min 00 s" in told(
        recipe_after_seconds=120.0
    )
    assert "recipe was written" not in told()  # of a version that did not record it
    assert "more time than it takes; written before the run ended" in told(unfinished=True)
    assert "before the run ended" not in told()


def test_what_the_first_run_compiles_is_told_beside_what_later_ones_take():
    def told(first, later, trainings=20):
        projection = msgspec.structs.replace(
            samples.RECIPE.projection, first_run_seconds=first, later_run_seconds=later
        )
        search = msgspec.structs.replace(samples.RECIPE.search, trainings=trainings)
        return msgspec.structs.replace(samples.RECIPE, projection=projection, search=search)

    text = " ".join(rows_of(printed(print_recipe, told(480.0, 455.0), PATH, width=120)))
    assert "an average of 20 trainings: the first compiles and takes 8 min 00 s, later ones 7 min 35 s" in text
    assert "1 training: the first compiles" in " ".join(
        rows_of(printed(print_recipe, told(480.0, 455.0, 1), PATH, width=120))
    )
    for recipe in (told(455.0, 455.0), told(None, None)):
        assert "compiles" not in printed(print_recipe, recipe, PATH)


def test_a_relative_constraint_is_told_in_percent():
    recipe = msgspec.structs.replace(
        samples.RECIPE, constraint=msgspec.structs.replace(samples.RECIPE.constraint, relative=True)
    )
    text = " ".join(rows_of(printed(print_recipe, recipe, PATH)))
    assert "0.05 % worse on average, at most 0.21 % worse; 0.5 % allowed" in text


def test_a_metric_that_got_better_is_not_called_worse():
    accuracy = msgspec.structs.replace(samples.ACCURACY, drop=-0.002, drop_high=-0.001)
    text = " ".join(rows_of(printed(print_recipe, msgspec.structs.replace(samples.RECIPE, accuracy=accuracy), PATH)))
    assert "0.002 better on average, at most 0 worse" in text


@pytest.mark.parametrize("accuracy", [exact_numbers("test_accuracy", "maximize"), None])  # None: of an old recipe
def test_exact_settings_need_no_training(accuracy):
    text = " ".join(rows_of(printed(print_recipe, msgspec.structs.replace(samples.RECIPE, accuracy=accuracy), PATH)))
    assert "is kept: none of the changed settings can alter a number" in text
    assert "known without training" in text


def test_what_only_redraws_samples_is_like_another_seed():
    accuracy = redrawn_numbers("test_accuracy", "maximize", ("loader.workers", "loader.persistent"))
    text = " ".join(rows_of(printed(print_recipe, msgspec.structs.replace(samples.RECIPE, accuracy=accuracy), PATH)))
    assert (
        "test_accuracy is expected to be kept: loader.workers, loader.persistent: other random numbers for your "
        "samples, as from another seed" in text
    )
    assert "known without training: samples are drawn as before, and each worker has a seed of its own" in text
    rounding = RoundingEvidence("holds", "", 64, 3, 8, error_share=0.0002)
    both = msgspec.structs.replace(accuracy, evidence="rounding", rounding=rounding)
    text = " ".join(rows_of(printed(print_recipe, msgspec.structs.replace(samples.RECIPE, accuracy=both), PATH)))
    assert "the planned run was not trained; loader.workers, loader.persistent: other random numbers" in text


def test_the_evidence_is_named_in_words_of_its_own():
    def told(**changes):
        accuracy = msgspec.structs.replace(samples.ACCURACY, **changes)
        recipe = msgspec.structs.replace(samples.RECIPE, accuracy=accuracy)
        return " ".join(rows_of(printed(print_recipe, recipe, PATH)))

    assert "judged on whole planned runs, 3 pairs" in told(share=1.0, evidence="whole")
    unmeasured = {"baseline": None, "recipe": None, "drop": None, "drop_high": None, "repeats": 0, "share": 0.0}
    rounding = RoundingEvidence("holds", "", 64, 3, 8, error_share=0.0002)
    updates = told(**unmeasured, evidence="rounding", rounding=rounding)
    assert (
        "test_accuracy is expected to be kept: its updates differ from yours by 1 % of the difference between two"
        in updates
    )
    assert "judged by rounding: 3 comparisons on 8 batches from the same weights, during 64 steps" in updates
    assert "the planned run was not trained" in updates
    both = told(evidence="rounding", rounding=rounding, share=0.28)
    assert "undecided on the first 28 % of the planned run, 3 pairs of runs from the same seeds" in both
    whole = told(evidence="rounding", rounding=rounding, share=1.0)
    assert "undecided on whole planned runs, 3 pairs" in whole and "not trained" not in both + whole
    assert "0.9741 -> 0.9736: its updates differ from yours by 1 %" in both
    assert "the runs alone do not decide it: 0.0005 worse on average, at most 0.0021 worse; 0.005 allowed" in both


def test_what_was_not_judged_on_whole_runs_can_be_checked_on_them_later():
    def commands(evidence, share):
        accuracy = msgspec.structs.replace(samples.ACCURACY, evidence=evidence, share=share)
        return printed(print_recipe, msgspec.structs.replace(samples.RECIPE, accuracy=accuracy), PATH)

    for evidence in ("redrawn", "share", "rounding"):
        assert "autoaccel verify --accuracy --budget 77m " in commands(evidence, 0.2)  # four pairs of planned runs
    assert "--accuracy" not in commands("whole", 1.0)


@pytest.mark.parametrize("width", [50, 100])
def test_commands_come_out_whole_and_quoted(width):
    lines = [line.strip() for line in printed(print_recipe, samples.RECIPE, PATH, width=width).splitlines()]
    assert "autoaccel run 'autoaccel-runs/digits 1/recipe.json' /home/ada/digits.py -- ..." in lines
    assert "Train with these settings, given its own arguments in place of ...:" in " ".join(lines)
    assert "/data/my digits" not in " ".join(lines)  # arguments may be secret
    assert any(line.startswith("autoaccel verify 'autoaccel-runs/digits 1/recipe.json' /home/ada") for line in lines)


def test_another_entry_is_named_in_the_commands():
    workload = msgspec.structs.replace(samples.RECIPE.workload, entry="other", arguments=())
    text = printed(print_recipe, msgspec.structs.replace(samples.RECIPE, workload=workload), PATH, width=100)
    assert "autoaccel verify 'autoaccel-runs/digits 1/recipe.json' /home/ada/digits.py:other\n" in text


def test_an_open_proof_is_gone_on_with_by_the_last_command():
    left = OpenProof({**samples.BASELINE, "precision.autocast": "float16"}, 200.0)
    for recipe in (samples.RECIPE, samples.NOTHING_FASTER):
        text = printed(print_recipe, msgspec.structs.replace(recipe, open_proof=left), PATH, width=60)
        assert text.rstrip().splitlines()[-1].strip() == (
            "autoaccel tune /home/ada/digits.py --budget +4m --output 'autoaccel-runs/digits 1' --resume"
        )
        assert "Resume the proof of precision.autocast=float16, which takes about 3 min 20 s more" in " ".join(
            rows_of(text)
        )
    assert "--resume" not in printed(print_recipe, samples.NOTHING_FASTER, PATH)


def test_nothing_faster_is_plain_and_positive():
    text = printed(print_recipe, samples.NOTHING_FASTER, PATH)
    assert text.strip().startswith(samples.NOTHING_FASTER.summary)
    assert "keep your own" in text
    # No claim of a speed-up, and no command that would use a recipe which changes nothing.
    assert "Speed-up" not in text and "1.00x" not in text and "autoaccel run" not in text
    # What took its time, and what was planned where that was another.
    assert "hardware 6.9 s, baseline 4.4 s, search 1 min 11 s of 4 min 00 s planned" in " ".join(text.split())


@pytest.mark.parametrize(
    ("low", "words"),
    [
        (1.2, "saves 3 min 47 s: 1.49x as fast (1.20 to 1.80)"),
        (0.98, "not claimed to be shorter: 0.98x to 1.80x as fast"),
    ],
)
def test_a_whole_run_is_claimed_to_be_faster_only_where_that_is_shown(low: float, words: str) -> None:
    """It was claimed with a steps' interval of 0.98 to 1.28."""
    projection = msgspec.structs.replace(samples.RECIPE.projection, run=RunSpeedup(1.49, low, 1.8))
    text = printed(print_recipe, msgspec.structs.replace(samples.RECIPE, projection=projection), PATH, width=140)
    assert words in text


def test_verification_sets_the_claim_beside_what_was_measured():
    measured = samples.comparison(1.02, 0.97, 1.06, "within noise", pairs=4, turns=80)
    text = printed(print_verification, Verification(samples.PROOF, measured, "does not hold"))
    rows = rows_of(text)
    assert "does not hold" in text
    assert "Claimed 1.50x (1.45 to 1.56), faster" in rows and "Measured 1.02x (0.97 to 1.06), within noise" in rows
    holds = printed(print_verification, Verification(samples.PROOF, samples.PROOF, "holds"))
    assert "The recipe holds" in holds and "not hold" not in holds and "Tune again" not in holds


def test_an_inconclusive_verification_neither_holds_nor_fails_and_says_what_to_type():
    measured = samples.comparison(1.3, 0.97, 1.7, "within noise", pairs=4, turns=80)
    text = printed(print_verification, Verification(samples.PROOF, measured, "inconclusive"), width=200)
    assert "not clear whether the recipe holds" in text and "Measure longer with --budget" in text
    assert "The recipe holds" not in text and "does not hold" not in text
    text = printed(print_verification, Verification(samples.PROOF, None, "inconclusive"), width=200)
    assert "too few pairs of processes" in text and "--budget" in text


def test_machine_says_what_this_process_may_use():
    text = " ".join(rows_of(printed(print_machine, samples.MACHINE)))
    assert "Usable cores 2 of 8 logical (4 physical), quota 2" in text
    assert "32 GiB, of which this process may use 8 GiB" in text
    assert "GPUs none" in text and "bfloat16, float16" in text
    assert samples.MACHINE.torch is not None
    probed = msgspec.structs.replace(samples.MACHINE.torch, product_speedups={"bfloat16": 0.53})
    text = " ".join(rows_of(printed(print_machine, msgspec.structs.replace(samples.MACHINE, torch=probed))))
    assert "bfloat16 (matrix products 0.53x as fast as in float32), float16" in text
    unprobed = msgspec.structs.replace(samples.MACHINE, torch=None, compiler=None)
    assert "torch not probed" in " ".join(rows_of(printed(print_machine, unprobed)))


def test_the_interconnect_of_several_gpus_is_a_matrix():
    gpus = (Gpu("NVIDIA A10", 24 << 30, "570.86.15"),) * 3
    links = (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    interconnect = Interconnect(links, ((0, 1, 8, 9), (0, 1, 8, 9), (2, 3)), (0, 0, 1))
    machine = msgspec.structs.replace(samples.MACHINE, gpus=gpus, interconnect=interconnect)
    rows = rows_of(printed(print_machine, machine))
    assert rows[-4:] == [
        "GPU 0 1 2 node CPUs near it",
        "0 - NV4 SYS 0 0-1,8-9",
        "1 NV4 - SYS 0 0-1,8-9",
        "2 SYS SYS - 1 2-3",
    ]
    one = Interconnect((("X",),), ((),), (None,))
    alone = msgspec.structs.replace(samples.MACHINE, gpus=gpus[:1], interconnect=one)
    assert "near it" not in printed(print_machine, alone)


def test_a_set_of_gpus_says_why():
    pair = GpuSet((0, 3), (0, 3), ("NV2",), "NV2", ((0, 1), ()))
    quad = GpuSet((0, 1, 2, 3), (0, 3, 2, 1), ("NV2", "NV2", "NV2", "NV1"), "NV1", ((),) * 4)
    ring = GpuSet((0, 1, 2), (0, 1, 2), ("PIX",) * 3, "PIX", ((),) * 3)
    text = " ".join(rows_of(printed(print_gpu_sets, [pair, quad, ring])))
    assert "2 GPUs: 0,3 NV2 between them GPU 0: CPUs 0-1 4 GPUs: 0,1,2,3 at least NV1 between neighbours" in text
    assert "of the ring 0-3-2-1 (3 x NV2, 1 x NV1)" in text
    assert "PIX between all neighbours of the ring 0-1-2" in text
    assert "CUDA_VISIBLE_DEVICES=0,3" in text
    assert "nothing to choose" in printed(print_gpu_sets, [])


def test_profile_bars_grow_with_the_share():
    lines = printed(print_advice, samples.ADVICE).splitlines()
    bars = {line.split()[0]: line.count("━") for line in lines if line.rstrip().endswith("%")}
    assert bars["backward"] > bars["forward"] > bars["optimizer"] > bars["data"] == 0
    assert bars["backward"] == round(0.588 * 24)
    text = " ".join(lines)
    assert "58.8 %" in text and "aten::convolution_backward" in text
    assert "2. the optimizer takes 5.1% of the step: at most 1.05x faster (optimizer.fused)" in text
    assert "This step can become at most 12.00x faster" in text
    assert "limited by memory" in text and "bfloat16 400 GFLOP/s" in text


def test_a_step_far_from_the_machines_limits_is_promised_nothing_by_them():
    """A step that waited for data was said to become at most 700.01x faster, beside findings of at most 2.29x."""
    line = msgspec.structs.replace(samples.CEILINGS.roofline, max_speedup=700.01)
    advice = msgspec.structs.replace(samples.ADVICE, ceilings=msgspec.structs.replace(samples.CEILINGS, roofline=line))
    text = printed(print_advice, advice)
    assert "Neither arithmetic nor memory limits this step" in text and "700" not in text


def test_what_was_left_out_for_want_of_steps_is_said():
    profile = msgspec.structs.replace(samples.ADVICE.profile, step_seconds=2.2, left_out=("evaluation", "modules"))
    text = " ".join(printed(print_advice, msgspec.structs.replace(samples.ADVICE, profile=profile)).split())
    assert "Left out to save time, because a step takes 2.2 s: evaluation, modules." in text


def test_what_could_not_be_measured_is_said_with_its_reason():
    failed = {"steps on larger batches": "AssertionError: a batch must have 8 samples"}
    profile = msgspec.structs.replace(samples.ADVICE.profile, failed=failed)
    text = " ".join(printed(print_advice, msgspec.structs.replace(samples.ADVICE, profile=profile)).split())
    said = "steps on larger batches (AssertionError: a batch must have 8 samples)."
    assert f"Could not be measured: {said}" in text and "Left out" not in text


def test_a_finding_that_is_worth_nothing_is_not_printed():
    worthless = msgspec.structs.replace(samples.FINDINGS[1], expected_speedup=1.001)
    advice = msgspec.structs.replace(samples.ADVICE, findings=(samples.FINDINGS[0], worthless))
    assert "the optimizer takes" not in printed(print_advice, advice)


def test_knobs_mark_the_default_and_explain_what_is_unavailable():
    text = printed(print_knobs, samples.KNOB_ROWS)
    assert "precision.autocast  off*  bfloat16  float16" in text
    assert "loader.pin_memory  not available: there is no accelerator to copy to" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_trials_are_all_listed_and_failures_explained(width):
    text = printed(print_trials, samples.TRIALS, samples.BASELINE, width=width)
    starts = [line.split()[0] for line in text.splitlines() if line.strip()]
    for trial in samples.TRIALS:
        assert str(trial.number) in starts
    assert "1.52x (1.44 to 1.59)  best" in text
    assert "1.55x (1.46 to 1.62)  infeasible" in text
    assert "trial 4 failed: RuntimeError" in text
    assert "\x1b" not in text


def test_no_trials_is_said():
    assert "No trials were made" in printed(print_trials, (), samples.BASELINE)


def test_a_file_of_this_folder_is_named_as_people_type_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workload = msgspec.structs.replace(samples.RECIPE.workload, path=str(tmp_path / "model.py"), arguments=())
    text = printed(print_recipe, msgspec.structs.replace(samples.RECIPE, workload=workload), Path("r.json"), width=100)
    assert "autoaccel run r.json model.py\n" in text


def test_a_proof_says_how_seldom_long_steps_may_come_that_it_could_have_missed():
    looked = msgspec.structs.replace(samples.RECIPE.comparison, steps=330)
    told = " ".join(rows_of(printed(print_recipe, msgspec.structs.replace(samples.RECIPE, comparison=looked), PATH)))
    assert "long steps that come less often than every 110 may have been missed" in told
    assert "may have been missed" not in printed(print_recipe, samples.RECIPE, PATH)
