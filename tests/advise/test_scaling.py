"""How a data-parallel training grows with ranks: by hand, on made-up truths and on published times."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from autoaccel.advise.all_reduce import LINKS, all_reduce_seconds, find_link, ring_seconds, tree_seconds
from autoaccel.advise.overlap import BACKWARD_SHARE, buckets_of, reduced_seconds
from autoaccel.advise.run_times import scale_runs
from autoaccel.errors import BadRequestError
from autoaccel.records.scaling import Cluster, Exchange, LinkFigures, RunPoint, RunScaling
from benchmarks.harness.rows import latest, read_rows
from benchmarks.studies.scaling.cluster import ScalingPlan, StepCost, simulate
from benchmarks.studies.scaling.measure import MEASURED, ONE_MACHINE, fitted_on, leave_one_out, two_machines

FAST = LinkFigures("fast", 10e9, 10e-6, "made up")
SLOW = LinkFigures("slow", 1e9, 50e-6, "made up")
ONE_BY_ONE = Cluster(1000, FAST, SLOW)
MACHINES_OF_8 = Cluster(8, FAST, SLOW)


def test_a_ring_moves_each_byte_twice_less_its_own_share_in_twice_as_many_steps_as_neighbours() -> None:
    # 4 ranks, 100 MB over 10 GB/s: 6 steps of 25 MB in 2.5 ms each, and 6 times 10 us.
    assert ring_seconds(100_000_000, 4, FAST) == pytest.approx(0.015 + 0.00006)
    assert ring_seconds(100_000_000, 2, FAST) == pytest.approx(0.010 + 0.00002)
    assert ring_seconds(100_000_000, 1, FAST) == 0


def test_a_tree_wins_where_latency_counts_and_a_ring_where_bytes_do() -> None:
    # 64 ranks: up and down six levels.
    assert tree_seconds(1000, 64, FAST) == pytest.approx(2 * 1000 / 10e9 + 12 * 10e-6)
    assert tree_seconds(1000, 65, FAST) == pytest.approx(2 * 1000 / 10e9 + 14 * 10e-6)
    assert all_reduce_seconds(1000, 64, ONE_BY_ONE) == tree_seconds(1000, 64, FAST)
    assert all_reduce_seconds(10**9, 64, ONE_BY_ONE) == ring_seconds(10**9, 64, FAST)
    assert tree_seconds(10**9, 1, FAST) == 0


def test_between_machines_the_sums_of_each_machine_travel_once_over_the_network() -> None:
    # Two machines of 8, 80 MB: within, 14 steps of 10 MB over 10 GB/s; between, 2 steps of 40 MB over 1 GB/s.
    assert all_reduce_seconds(80_000_000, 16, MACHINES_OF_8) == pytest.approx(14 * (0.001 + 10e-6) + 2 * (0.04 + 50e-6))
    assert all_reduce_seconds(80_000_000, 8, MACHINES_OF_8) == pytest.approx(14 * (0.001 + 10e-6))
    # A ninth rank needs a second machine.
    assert all_reduce_seconds(80_000_000, 9, MACHINES_OF_8) == all_reduce_seconds(80_000_000, 16, MACHINES_OF_8)


def test_published_figures_have_names_of_their_own_and_sources() -> None:
    assert len({link.name for link in LINKS}) == len(LINKS)
    assert all(link.source and 1e9 < link.bytes_per_second < 1e12 and 0 < link.latency_seconds < 1e-3 for link in LINKS)
    assert find_link("100gbe", "--between").bytes_per_second == 100e9 / 8
    with pytest.raises(BadRequestError, match=r"--between must be one of nvlink3, .*, got 'myrinet'"):
        find_link("myrinet", "--between")


def test_the_first_bucket_is_small_and_the_last_is_ready_when_the_backward_pass_ends() -> None:
    found = list(buckets_of(60 << 20))
    assert [size >> 20 for size, _ in found] == [1, 25, 25, 9]
    assert [share for _, share in found] == pytest.approx([1 / 60, 26 / 60, 51 / 60, 1])
    assert list(buckets_of(1000)) == [(1000, 1.0)]


def test_only_the_last_bucket_shows_over_a_fast_link_and_all_of_them_over_a_slow_one() -> None:
    step, count = np.array([0.3]), 60 << 20
    last = all_reduce_seconds(9 << 20, 4, ONE_BY_ONE)
    assert reduced_seconds(step, 4, ONE_BY_ONE, buckets_of(count))[0] == pytest.approx(0.3 + last)
    crawling = Cluster(1000, LinkFigures("crawling", 1e7, 0.0, "made up"), SLOW)
    # The first starts when a sixtieth of the backward pass is done; from then on one follows the other.
    all_of_them = sum(all_reduce_seconds(size << 20, 4, crawling) for size in (1, 25, 25, 9))
    first = 0.3 * (1 - BACKWARD_SHARE * 59 / 60)
    assert reduced_seconds(step, 4, crawling, buckets_of(count))[0] == pytest.approx(first + all_of_them)
    assert reduced_seconds(step, 1, crawling, buckets_of(count))[0] == pytest.approx(0.3)


def plan(**changes: object) -> ScalingPlan:
    """Return a training of 64 samples a rank in 100 ms, 16 MB of gradients."""
    usual = ScalingPlan(StepCost(0.036, 0.001), 64, 16_000_000, MACHINES_OF_8, (1, 2, 4, 8, 16, 64, 256), 1_000_000)
    return msgspec.structs.replace(usual, **changes)


def test_without_noise_a_step_is_its_compute_and_what_is_left_of_the_all_reduce() -> None:
    for step in simulate(plan()):
        left = reduced_seconds(np.array([0.1]), step.ranks, MACHINES_OF_8, buckets_of(16_000_000))[0] - 0.1
        assert step.step_seconds == pytest.approx(0.1 + left)
        assert (step.slowest_rank_seconds, step.loader_seconds) == pytest.approx((0, 0))
        assert step.efficiency == pytest.approx(0.1 / step.step_seconds)
        assert step.run_seconds == pytest.approx(-(-1_000_000 // (64 * step.ranks)) * step.step_seconds)


def test_everybody_waits_for_the_slowest_rank() -> None:
    free = Cluster(8, LinkFigures("free", 1e18, 0.0, ""), LinkFigures("free", 1e18, 0.0, ""))
    steps = simulate(plan(step_deviation=0.05, cluster=free))
    # The larger of two standard normal values is 1 / sqrt(pi) in the mean, the largest of 256 is 2.82.
    assert steps[1].slowest_rank_seconds / 0.1 == pytest.approx(0.05 / np.sqrt(np.pi), rel=0.15)
    assert steps[-1].slowest_rank_seconds / 0.1 == pytest.approx(np.exp(0.05 * 2.82) - 1, rel=0.05)
    waits = [step.slowest_rank_seconds for step in steps]
    assert waits == sorted(waits)
    assert simulate(plan(step_deviation=0.05), seed=1) == simulate(plan(step_deviation=0.05), seed=1)


def test_a_split_batch_gains_less_than_a_kept_one() -> None:
    kept, split = simulate(plan(batch_size=512)), simulate(plan(batch_size=512, batch="split"))
    assert [step.efficiency for step in split] == sorted((step.efficiency for step in split), reverse=True)
    assert all(few.samples_per_second < many.samples_per_second for few, many in zip(split[1:], kept[1:], strict=True))
    # The part per step stays: with 256 ranks two samples each take 38 ms.
    assert split[-1].compute_seconds == pytest.approx(0.038)
    with pytest.raises(ValueError, match="1 <= ranks <= 128"):
        simulate(plan(batch_size=128, batch="split"))


def test_the_largest_part_of_a_step_is_what_limits_it() -> None:
    assert {step.bottleneck for step in simulate(plan())} == {"compute"}
    assert simulate(plan(gradient_bytes=10**9))[-1].bottleneck == "all-reduce"
    assert simulate(plan(step_deviation=0.5))[-1].bottleneck == "slowest rank"
    # 8 ranks of a machine want 512 samples in each step, its loader has 1,000 in a second.
    waiting = simulate(plan(loader_samples_per_second=1000.0))
    assert [step.bottleneck for step in waiting[:4]] == ["compute", "compute", "loader", "loader"]
    assert waiting[3].step_seconds == pytest.approx(0.512)
    assert waiting[-1].step_seconds == pytest.approx(0.512)  # each machine has a loader of its own
    for step in simulate(plan(step_deviation=0.2, loader_samples_per_second=2000.0)):
        parts = step.compute_seconds, step.slowest_rank_seconds, step.all_reduce_seconds, step.loader_seconds
        assert sum(parts) == pytest.approx(step.step_seconds)
        assert min(parts) > -1e-9


def run_seconds(ranks: int, work: float, fixed: float, all_reduce: float, steps: float) -> float:
    """Return the time of a run as docs/scaling.md has it, within one machine."""
    return fixed + work / ranks + steps * 2 * (ranks - 1) / ranks * all_reduce


def predictions(scaling: RunScaling) -> dict[int, RunPoint]:
    return {point.ranks: point for point in scaling.points if point.predicted}


@pytest.mark.parametrize("batch", ["keep", "split"])
def test_intervals_cover_what_was_not_measured(batch: str) -> None:
    generator = np.random.default_rng(2)
    covered, asked, errors = 0, 0, []
    for _ in range(150):
        truth = 1000.0, abs(generator.normal(0, 60)), abs(generator.normal(0, 60))
        times = {
            ranks: run_seconds(ranks, *truth, 1 / ranks if batch == "keep" else 1.0)
            * float(np.exp(generator.normal(0, 0.015)))
            for ranks in (1, 2, 4, 6, 8, 16)
        }
        measured = {ranks: times[ranks] for ranks in (1, 2, 4)}
        for ranks, point in predictions(scale_runs(measured, (6, 8, 16), batch=batch)).items():
            covered += point.low <= times[ranks] <= point.high
            errors.append(abs(point.seconds / times[ranks] - 1))
            asked += 1
    assert covered >= 0.92 * asked
    assert np.median(errors) < 0.08


def test_many_noisy_times_give_the_parts_of_a_run_back() -> None:
    generator = np.random.default_rng(3)
    times = {
        ranks: run_seconds(ranks, 1000, 40, 80, 1 / ranks) * float(np.exp(generator.normal(0, 0.005)))
        for ranks in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    }
    point = predictions(scale_runs(times, (64,)))[64]
    assert point.compute_seconds == pytest.approx(1000 / 64, rel=0.02)
    assert point.fixed_seconds == pytest.approx(40, rel=0.05)
    assert point.all_reduce_seconds == pytest.approx(2 * 80 / 64, rel=0.25)
    assert point.bottleneck == "fixed cost"
    # Ten runs outweigh the 2 % that are expected of two or three.
    assert scale_runs(times, (64,)).deviation < 0.015


def test_a_simulated_cluster_is_predicted_from_a_few_of_its_ranks() -> None:
    simulated = {
        step.ranks: step.run_seconds for step in simulate(plan(fixed_seconds=20.0, gradient_bytes=10**8, samples=10**7))
    }
    exchange = Exchange(10**8, 10**7 // 64, FAST, SLOW)
    found = predictions(scale_runs({n: simulated[n] for n in (1, 2, 4)}, (8, 16, 64), machines_of=8, exchange=exchange))
    for ranks, point in found.items():
        assert point.seconds == pytest.approx(simulated[ranks], rel=0.06)
        assert point.low < simulated[ranks] < point.high
    # Where the links are known, next to nothing is left to be fitted.
    known = scale_runs({n: simulated[n] for n in (1, 2, 4)}, (8,), exchange=exchange)
    assert known.effective_bytes_per_second is None or known.effective_bytes_per_second > 10e9


def test_a_split_batch_exchanges_as_much_with_many_ranks_as_with_few() -> None:
    split = plan(batch_size=512, batch="split", gradient_bytes=10**8, samples=10**7)
    simulated = {step.ranks: step.run_seconds for step in simulate(split)}
    exchange = Exchange(10**8, 10**7 // 512, FAST, SLOW)
    found = scale_runs({n: simulated[n] for n in (1, 2, 4)}, (8, 64), batch="split", machines_of=8, exchange=exchange)
    for ranks, point in predictions(found).items():
        # The fit cannot know that a fixed cost of each step hides some of the all-reduce, so it expects a little more.
        assert point.seconds == pytest.approx(simulated[ranks], rel=0.1)
    assert predictions(found)[64].bottleneck == "all-reduce"


def test_a_network_that_was_measured_needs_no_figures() -> None:
    def truth(ranks: int) -> float:
        machines = -(-ranks // 4)
        return (
            run_seconds(min(ranks, 4), 0, 0, 50, 1 / ranks) + 5 + 1000 / ranks + 120 * (machines - 1) / machines / ranks
        )

    measured = {ranks: truth(ranks) for ranks in (1, 2, 4, 8, 16)}
    found = predictions(scale_runs(measured, (32,), machines_of=4))[32]
    assert found.machines == 8
    assert found.seconds == pytest.approx(truth(32), rel=0.03)
    with pytest.raises(BadRequestError, match="8 ranks need several machines of 4 ranks, but only one was measured"):
        scale_runs({1: 100.0, 2: 55.0}, (8,), machines_of=4)


def test_more_ranks_take_less_time_and_are_used_less_well() -> None:
    generator = np.random.default_rng(4)
    for _ in range(20):
        truth = 1000.0, abs(generator.normal(0, 60)), abs(generator.normal(0, 60))
        measured = {ranks: run_seconds(ranks, *truth, 1 / ranks) for ranks in (1, 2, 4)}
        found = list(predictions(scale_runs(measured, range(5, 65))).values())
        for fewer, more in itertools.pairwise(found):
            assert more.seconds < fewer.seconds
            assert more.efficiency <= fewer.efficiency + 1e-9


def test_intervals_widen_the_further_they_are_from_what_was_measured() -> None:
    found = predictions(scale_runs({1: 707.0, 2: 393.0, 4: 208.0}, (5, 8, 16, 64)))
    widths = [(point.high - point.low) / point.seconds for point in found.values()]
    assert widths == sorted(widths)
    more = predictions(scale_runs({n: MEASURED[n] for n in range(1, 8)}, (8,)))[8]
    assert more.high - more.low < 0.5 * (found[8].high - found[8].low)


@pytest.mark.parametrize(
    ("parts", "bottleneck"), [((1000, 5, 5), "compute"), ((1000, 500, 5), "fixed cost"), ((100, 1, 300), "all-reduce")]
)
def test_the_largest_part_of_a_run_is_what_limits_it(parts: tuple[float, float, float], bottleneck: str) -> None:
    times = {ranks: run_seconds(ranks, *parts, 1 / ranks) for ranks in (1, 2, 3, 4, 6, 8, 12)}
    point = predictions(scale_runs(times, (16,)))[16]
    assert point.bottleneck == bottleneck
    assert point.fitted_seconds == pytest.approx(point.compute_seconds + point.all_reduce_seconds + point.fixed_seconds)


def test_times_that_no_model_explains_are_told_by_their_deviation() -> None:
    found = scale_runs({1: 100.0, 2: 40.0, 4: 15.0}, (8,))  # twice the ranks in less than half of the time, twice
    assert found.deviation > 0.1
    assert predictions(found)[8].high > 1.5 * predictions(found)[8].seconds


@pytest.mark.parametrize(
    ("measured", "predict", "machines_of", "message"),
    [
        ({1: 100.0}, (2,), None, "at least two numbers of ranks must be measured, got 1"),
        ({1: 100.0, 2: 0.0}, (4,), None, "with 2 ranks must be above zero seconds, got 0.0"),
        ({1: 100.0, 2: float("nan")}, (4,), None, "above zero seconds, got nan"),
        ({0: 100.0, 2: 50.0}, (4,), None, "must be at least 1, got 0"),
        ({1: 100.0, 2: 50.0}, (-4,), None, "must be at least 1, got -4"),
        ({1: 100.0, 2: 50.0}, (4,), 0, "--machines-of must be at least 1, got 0"),
    ],
)
def test_times_that_say_nothing_are_refused(
    measured: Mapping[int, float], predict: tuple[int, ...], machines_of: int | None, message: str
) -> None:
    with pytest.raises(BadRequestError, match=message):
        scale_runs(measured, predict, machines_of=machines_of)


def test_published_times_are_predicted_from_three_of_them() -> None:
    found = fitted_on((1, 2, 4))
    assert [row["ranks"] for row in found] == [3, 5, 6, 7, 8]
    assert max(abs(row["error"]) for row in found) < 0.025
    assert all(row["covered"] for row in found)


def test_a_published_time_that_is_left_out_is_predicted_from_the_others() -> None:
    found = leave_one_out(tuple(MEASURED))
    assert len(found) == 8
    assert max(abs(row["error"]) for row in found) < 0.025
    assert all(row["covered"] for row in found)


def test_published_figures_of_links_predict_two_machines_within_a_seventh() -> None:
    for measured in ((1, 2, 4), ONE_MACHINE):
        found = two_machines(measured)
        assert len(found) == 9
        assert max(abs(row["error"]) for row in found) < 1 / 7


def test_the_first_added_gpu_costs_what_only_several_ranks_have_to_pay() -> None:
    points = {point.ranks: point for point in scale_runs({n: MEASURED[n] for n in ONE_MACHINE}, (16,)).points}
    assert points[2].fitted_seconds == pytest.approx(393, rel=0.015)
    assert points[1].all_reduce_seconds == 0
    assert points[2].all_reduce_seconds > 30


def test_the_kept_results_are_those_of_this_model() -> None:
    kept = latest(read_rows("scaling"))["all"].found
    assert kept["fits"][0]["fitted_on"] == [1, 2, 4]
    now = {row["ranks"]: row["predicted"] for row in fitted_on((1, 2, 4))}
    assert {row["ranks"]: row["predicted"] for row in kept["fits"][0]["predictions"]} == pytest.approx(now, abs=0.2)
