"""The HTML report: well-formed, self-contained, complete, and deaf to what strangers put into a recipe."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.recipe import Interaction
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.workload import PickledFunction
from autoaccel.report.chart import HEIGHT, WIDTH, search_history
from autoaccel.report.html import render_report
from autoaccel.report.pareto import speed_and_accuracy
from autoaccel.report.roofline import plot_roofline
from autoaccel.report.wording import worth_showing

from . import samples

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and fails on tags that do not nest."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text = [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["script"], ["style"]):
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def report(recipe=samples.RECIPE, diagnosis=samples.DIAGNOSIS, trials=samples.TRIALS):
    return render_report(recipe, diagnosis, trials, samples.SPACE, samples.REQUEST)


@pytest.fixture(scope="module")
def source():
    return report()


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def test_says_what_a_manager_reads(page):
    assert samples.RECIPE.summary in page.words
    assert "1.50x 1.45 to 1.56 (95 % interval)" in page.words
    assert "11 min 26 s → 7 min 39 s projected, saves 3 min 47 s" in page.words
    assert "0.9741 → 0.9736" in page.words
    assert "precision.autocast off bfloat16" in page.words
    assert "5 pairs of fresh processes" in page.words


def test_asks_nothing_of_the_network(source, page):
    assert "http://" not in source and "https://" not in source and "@import" not in source
    for tag, attributes in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed"}
        assert not {"src", "srcset", "data", "action", "poster"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(", source)
    policies = [attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes]
    assert len(policies) == 1 and policies[0].startswith("default-src 'none'")


def test_what_strangers_wrote_is_only_text(source, page):
    assert "<script>alert" not in source and "<b>boom" not in source
    assert "<script>alert('x')</script>" in page.words and "<b>boom</b>" in page.words
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert "\x1b" not in source


def test_hostile_names_cannot_leave_their_attribute():
    hostile = '"><img src=x onerror=alert(1)>'
    profile = msgspec.structs.replace(samples.PROFILE, phases={hostile: 1.0})
    workload = msgspec.structs.replace(samples.RECIPE.workload, path=f"/tmp/{hostile}.py")
    recipe = msgspec.structs.replace(
        samples.RECIPE, workload=workload, summary=hostile, versions={hostile: hostile}, settings={hostile: hostile}
    )
    page = Page(report(recipe, msgspec.structs.replace(samples.DIAGNOSIS, profile=profile)))
    assert not any(tag == "img" for tag, _ in page.tags)
    assert not any("onerror" in attributes for _, attributes in page.tags)


def test_every_trial_is_in_the_table(source):
    table = source[source.index('<table id="trials"') :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    rows = [Page(row + "</tr>").words for row in body.split("</tr>")[:-1] for row in [row.replace("<tbody>", "")]]
    assert len(rows) == len(samples.TRIALS)
    for trial, row in zip(samples.TRIALS, rows, strict=True):
        assert row.startswith(f"{trial.number} ")
        if trial.comparison:
            assert f"{trial.comparison.speedup:.2f}x" in row
    assert "proven" in rows[2] and "proven" not in rows[0]
    assert "failed: raised" in rows[3]
    assert "infeasible" in rows[5]


def test_failures_carry_traceback_and_log(page):
    assert "line 31, in build" in page.words and "epoch 1 loss 2.30" in page.words
    assert any(tag == "details" and attributes.get("id") == "failure-4" for tag, attributes in page.tags)


def test_tells_where_the_time_went_and_what_was_left_out(page):
    for name in (*samples.PROFILE.phases, *samples.PROFILE.groups, "aten::convolution_backward"):
        assert name in page.words
    assert samples.FINDINGS[0].title in page.words and "at most 1.05x" in page.words
    assert samples.NOT_SEARCHED["loader.pin_memory"] in page.words
    assert "stage planned spent hardware 6.9 s 6.9 s baseline 4.0 s 4.4 s search 4 min 00 s 1 min 11 s" in page.words


def test_says_on_what_it_ran_and_how_to_use_it(page):
    assert samples.MACHINE.cpu.model in page.words and "optuna 5.0.0" in page.words
    assert "autoaccel run recipe.json /home/ada/digits.py -- ..." in page.words
    assert "/data/my digits" not in page.words  # arguments may be secret
    assert "autoaccel verify recipe.json" in page.words


def test_tells_what_each_setting_contributes_and_what_is_only_estimated(page):
    assert "precision.autocast=bfloat16 1.33x (1.27 to 1.39)" in page.words
    assert "layout.channels_last=on 1.14x (1.05 to 1.24, estimated)" in page.words
    assert "Product 1.52x, whole recipe 1.50x, equal within their intervals." in page.words


def test_names_the_settings_that_depend_on_each_other():
    interaction = Interaction(("layout.channels_last", "precision.autocast"), 1.2, 1.1, 1.3)
    page = Page(report(msgspec.structs.replace(samples.RECIPE, interaction=interaction)))
    assert "whole recipe 1.50x, which differ" in page.words
    assert "layout.channels_last and precision.autocast reinforce each other: together they give 1.20x" in page.words
    opposed = msgspec.structs.replace(interaction, factor=0.8, low=0.7, high=0.9)
    page = Page(report(msgspec.structs.replace(samples.RECIPE, interaction=opposed)))
    assert "partly do the same work: together they give 0.80x" in page.words
    unclear = msgspec.structs.replace(interaction, low=0.9, high=1.6)
    page = Page(report(msgspec.structs.replace(samples.RECIPE, interaction=unclear)))
    assert "seem to reinforce each other: together they give 1.20x" in page.words


def test_contributions_share_one_scale(source):
    ones = re.findall(r'<div class="share">.*?<span class="one" style="left:([\d.]+)%', source)
    assert len(ones) == 2 and len(set(ones)) == 1
    points = re.findall(r'<div class="share">.*?<span class="point" style="left:([\d.]+)%', source)
    assert float(ones[0]) < float(points[1]) < float(points[0]) < 100


def test_says_which_knobs_decided_and_why_each_value_lost(page):
    assert "Which knobs decided precision.autocast 58.0 % compile.mode 31.0 %" in page.words
    assert "precision.autocast=float16 2 1.55x the metric may drop more than allowed" in page.words
    assert "loader.workers=4 none out of budget: <i>the time</i> was needed for the proof" in page.words
    assert not any(tag == "i" for tag, _ in page.tags)


def test_the_command_that_tunes_again_asks_for_the_same(page):
    command = (
        "autoaccel tune /home/ada/digits.py --budget 600s --max-drop 0.005 --space default "
        "--set optimizer.fused=off --exclude compile.mode --seed 3 -- ..."
    )
    assert command in page.words
    pickled = msgspec.structs.replace(samples.REQUEST, workload=PickledFunction("/home/ada/build.pkl", "9f" * 32))
    assert "autoaccel tune" not in Page(render_report(samples.RECIPE, None, (), request=pickled)).words


def test_an_older_recipe_has_a_report_without_what_it_does_not_know():
    search = msgspec.structs.replace(samples.RECIPE.search, importance={}, values=())
    recipe = msgspec.structs.replace(samples.RECIPE, contributions=(), interaction=None, search=search)
    words = Page(render_report(recipe, samples.DIAGNOSIS, samples.TRIALS)).words
    for heading in ("What each contributes", "Which knobs decided", "What is not in the recipe", "run it again:"):
        assert heading not in words


def test_run_bars_have_the_lengths_of_the_runs(source):
    tracks = re.findall(r'<div class="track">((?:<span class="part-.*?</span>)+)</div>', source)
    baseline, new = (sum(float(width) for width in re.findall(r"width:([\d.]+)%", track)) for track in tracks)
    assert baseline == pytest.approx(100.0, abs=0.1)
    projection = samples.RECIPE.projection
    assert new == pytest.approx(100 * projection.total_seconds / projection.baseline_total_seconds, abs=0.1)


def test_nothing_faster_says_so():
    baseline = samples.measured(10, samples.BASELINE, 1.0, 0.97, 1.03, "within noise")
    page = Page(render_report(samples.NOTHING_FASTER, None, (*samples.TRIALS, baseline)))
    assert samples.NOTHING_FASTER.summary in page.words
    assert "keep your own settings" in page.words
    assert "Confidence in the speed-up" not in page.words and "autoaccel run" not in page.words
    assert "proven" not in page.words.partition("All trials")[2]


def test_a_run_without_trials_still_has_a_report():
    page = Page(render_report(samples.NOTHING_FASTER, None, ()))
    assert "No trials were made" in page.words
    assert not any(tag == "svg" for tag, _ in page.tags)


def test_settings_unknown_to_the_baseline_are_no_stumbling_block():
    recipe = msgspec.structs.replace(samples.RECIPE, settings={**samples.WINNER, "new.knob": 3})
    assert "new.knob" in Page(report(recipe)).words


def test_history_has_a_mark_per_trial_inside_the_picture():
    chart = search_history(samples.TRIALS, samples.RECIPE.projection.baseline_total_seconds)
    assert [mark.number for mark in chart.marks] == [trial.number for trial in samples.TRIALS]
    for mark in chart.marks:
        assert 0 < mark.x < WIDTH
        assert 0 < mark.high_y <= mark.y <= mark.low_y < HEIGHT
    kinds = {mark.number: mark.kind for mark in chart.marks}
    assert kinds == {
        number: {3: "best", 4: "failed", 6: "infeasible"}.get(number, "feasible") for number in range(1, 10)
    }
    faster, slower = chart.marks[2], chart.marks[1]
    assert faster.y < chart.baseline_y < slower.y
    assert "1x" in {tick.label for tick in chart.speedups}


def test_history_calls_nothing_best_that_makes_the_whole_run_longer():
    # Fast steps after a compilation that the run is too short to repay.
    trial = msgspec.structs.replace(samples.TRIALS[0], total_seconds=1000.0)
    chart = search_history([trial], 900.0)
    assert chart.marks[0].kind == "feasible"


def test_history_survives_hundreds_of_trials_and_absurd_intervals():
    wild = msgspec.structs.replace(samples.TRIALS[0], comparison=samples.comparison(1.3, 0.01, 90.0))
    chart = search_history([*samples.TRIALS, wild] * 40, 700.0)
    assert len(chart.numbers) <= 20
    fastest, slowest = min(mark.y for mark in chart.marks), max(mark.y for mark in chart.marks if mark.kind != "failed")
    # The trials still use most of the height.
    assert slowest - fastest > HEIGHT / 3


def test_speed_is_shown_against_accuracy_where_both_are_known():
    dropped = msgspec.structs.replace(
        samples.TRIALS[5], accuracy=msgspec.structs.replace(samples.ACCURACY, recipe=0.95), feasible=False
    )
    exact = samples.measured(10, {**samples.BASELINE, "loader.workers": 2}, 1.2, 1.1, 1.3)
    found = speed_and_accuracy(samples.RECIPE, [samples.TRIALS[0], dropped, exact])
    # Trial 1 is neither proven nor exact: its metric is not known.
    assert sorted(point.kind for point in found.points) == ["best", "feasible", "infeasible", "own"]
    at = {point.kind: point for point in found.points}
    assert at["own"].x < at["feasible"].x < at["best"].x < at["infeasible"].x
    assert at["own"].y == at["feasible"].y < at["best"].y < found.limit_y < at["infeasible"].y
    assert all(found.left < point.x < found.right and found.top < point.y < found.bottom for point in found.points)
    # Your own settings are beaten by what is faster and as good.
    ends = [at[kind] for kind in ("feasible", "best", "infeasible")]
    assert found.front == "M" + "L".join(f"{point.x} {point.y}" for point in ends)


def test_of_a_metric_to_be_minimised_less_is_better():
    accuracy = msgspec.structs.replace(
        samples.ACCURACY, direction="minimize", metric="loss", baseline=0.3, recipe=0.4, drop=0.1
    )
    recipe = msgspec.structs.replace(samples.RECIPE, accuracy=accuracy)
    exact = samples.measured(10, {**samples.BASELINE, "loader.workers": 2}, 1.2, 1.1, 1.3)
    found = speed_and_accuracy(recipe, [exact])
    at = {point.kind: point for point in found.points}
    assert at["best"].y < found.limit_y < at["own"].y  # a larger loss is drawn higher
    assert found.front == f"M{at['feasible'].x} {at['feasible'].y}L{at['best'].x} {at['best'].y}"


def test_the_metric_of_workers_that_draw_other_numbers_is_not_known():
    """They were drawn at the baseline's own metric, as if it had been measured."""
    workers = samples.measured(10, {**samples.BASELINE, "loader.workers": 2}, 1.2, 1.1, 1.3)
    kinds = [{point.kind for point in speed_and_accuracy(samples.RECIPE, [workers], inexact).points}
             for inexact in ((), ("loader.workers",))]  # fmt: skip
    assert kinds == [{"own", "feasible", "best"}, {"own", "best"}]


def test_a_metric_that_updates_have_judged_is_said_to_be():
    rounding = RoundingEvidence("holds", "", 64, 3, 8, error_share=0.0002)
    accuracy = Accuracy("f1", "maximize", None, None, None, None, 0, 0.0, (), (), "rounding", rounding=rounding)
    page = Page(report(msgspec.structs.replace(samples.RECIPE, accuracy=accuracy)))
    assert "Accuracy judged by rounding its updates differ from yours by 1 %" in page.words
    assert "f1 is expected to be kept" in page.words and "during 64 steps" in page.words
    assert "Speed against accuracy" not in page.words


def test_without_a_metric_there_is_no_picture_of_it():
    recipe = msgspec.structs.replace(samples.RECIPE, accuracy=None)
    assert speed_and_accuracy(recipe, samples.TRIALS) is None
    assert "Speed against accuracy" not in Page(report(recipe)).words


def test_ticks_are_round_numbers():
    assert speed_and_accuracy(samples.RECIPE, ()).speedups[0].label == "1x"
    labels = [tick.label for tick in speed_and_accuracy(samples.RECIPE, ()).metrics]
    assert 3 <= len(labels) <= 6 and all(len(label) <= 6 for label in labels)


def test_no_speedups_no_history():
    assert search_history([samples.TRIALS[3]], 700.0) is None


def test_the_roofline_shows_the_step_below_what_memory_and_each_dtype_allow(source, page):
    plot = plot_roofline(samples.CEILINGS)
    # 4 operations per byte at 10 GB/s: 40 GFLOP/s are attainable, on the slope; 30 are attained.
    (start_x, start_y), (end_x, end_y) = (
        tuple(map(float, place.split(" "))) for place in plot.slope.removeprefix("M").split("L")
    )
    on_slope = start_y + (end_y - start_y) * (plot.x - start_x) / (end_x - start_x)
    assert plot.attainable_y == pytest.approx(on_slope, abs=0.5)
    assert plot.achieved_y > plot.attainable_y
    assert [roof.name for roof in plot.roofs] == ["bfloat16", "float32"]
    assert all(start_x < roof.start_x <= end_x + 0.1 and roof.y >= end_y - 0.1 for roof in plot.roofs)
    for x, y in ((plot.x, plot.achieved_y), (end_x, end_y), (start_x, start_y)):
        assert plot.left <= x <= plot.right and plot.top <= y <= plot.bottom
    assert "at most 12.00x faster on this machine" in page.words
    assert plot.slope in source


def test_roofs_beside_each_other_share_a_name():
    matmul = {"float32": 1.1e11, "float16": 1e11, "float64": 3e10}
    rates = msgspec.structs.replace(samples.CEILINGS.rates, matmul=matmul)
    plot = plot_roofline(msgspec.structs.replace(samples.CEILINGS, rates=rates))
    assert [roof.name for roof in plot.roofs] == ["float32, float16", "", "float64"]


def test_what_nobody_would_notice_is_no_finding_to_show():
    hopeless = msgspec.structs.replace(samples.FINDINGS[0], expected_speedup=1.004)
    assert worth_showing([hopeless, samples.FINDINGS[0]]) == [samples.FINDINGS[0]]


def test_the_profile_names_modules_functions_and_memory(page):
    assert "Conv2d 4.2 ms 4.2 ms 1" in page.words
    assert "Digits.__getitem__ (digits.py:31)" in page.words
    assert "build.<locals>.loss" not in page.words  # its own lines cost nothing
    assert "peaks in backward, 41 MiB above its level between steps" in page.words
    assert "Recording operators made a step 25% slower" in page.words
