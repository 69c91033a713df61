"""One contender after the other, on pairs whose truth is known: what is proven in the end, and what is left out."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from autoaccel.records.contender import ContenderResult, ProofReason
from autoaccel.records.evidence import MetricPlan
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.progress import ignore
from autoaccel.records.proof import TrainedPair
from autoaccel.records.recipe import Constraint, Contribution, StopReason
from autoaccel.records.rounding import RoundingEvidence
from autoaccel.records.settings import Settings, changed, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.economy import Economy
from autoaccel.search.gradient import FREE, Proofs
from autoaccel.search.loop import Reserve, Search
from autoaccel.search.ranking import Contender
from autoaccel.search.task import Prior, SearchTask
from autoaccel.search.trial_source import Instruments, Reading
from autoaccel.session.bench import PairReading
from autoaccel.session.contest import Contest
from autoaccel.session.contributions import Breakdown
from autoaccel.session.lost_values import lost_values
from autoaccel.session.metric import MetricProof
from autoaccel.session.proof import Prover
from autoaccel.session.proving import Attempt, Open
from autoaccel.session.resuming import Earlier
from autoaccel.session.rounding import why_not_by_rounding
from autoaccel.space.knobs import is_exact
from autoaccel.statistics.deciding import provable_log, rule_for, share_of_error
from autoaccel.statistics.turn_plan import Enough

BASELINE: Settings = {"precision.autocast": "off", "loader.workers": 0, "parallel.world_size": 1}
CAST: Settings = {"precision.autocast": "bfloat16"}
WORKERS: Settings = {"loader.workers": 2}
RANKS: Settings = {"parallel.world_size": 2}
SPACE = SearchSpace(
    name="test",
    open={"precision.autocast": ("off", "bfloat16"), "loader.workers": (0, 2), "parallel.world_size": (1, 2)},
    fixed={},
    closed={},
)
STEP_SECONDS, TRIAL_SECONDS, PAIR_SECONDS, TRAINING_SECONDS = 0.04, 3.0, 4.0, 20.0


class Truth:
    """What settings do, and a machine on which measuring it moves the clock."""

    def __init__(self, logs: dict[str, float], budget_seconds: float = 600.0) -> None:
        """Begin.

        Args:
            logs: By `knob=value`: the log speed-up of each; together they add up.
            budget_seconds: What there is.
        """
        self.logs = logs
        self.drops: Settings = {}
        """What drops the metric by a tenth."""
        self.scatter = 0.001
        """Of the metric from seed to seed; a hundredth is allowed."""
        self.updates: RoundingEvidence | None = None
        """What updates say of settings that only round; None if nobody asks."""
        self.diverges: Settings = {}
        """What makes the loss no number, but only after its trial."""
        self.not_faster: tuple[Settings, ...] = ()
        """What was fast in its trials by luck."""
        self.flattered: dict[str, float] = {}
        """By `knob=value`: what its trials show beyond its log speed-up, each of them."""
        self.space = SPACE
        self.trainings = 20
        self.tells_contributions = True
        """Whether there is time to measure what the settings contribute."""
        self.search_seconds = math.inf
        """What the search may spend until something is proven."""
        self.random = random.Random(0)
        self.budget_seconds = budget_seconds
        self.spent = 0.0
        self.proven_in_vain: list[Settings] = []
        self.continued: list[Settings] = []  # with which the search went on after a refusal
        self.searched_further = False  # although something was proven
        self.others_fit = True
        """Whether anything else than what is proven may be tried."""
        self.kept: list[Settings] = []  # in a recipe, before the run has ended

    @property
    def left(self) -> float:
        return self.budget_seconds - self.spent

    def log_of(self, settings: Settings, in_trial: bool = False) -> float:
        names = [f"{name}={value}" for name, value in changed(settings, BASELINE).items()]
        flattery = sum(self.flattered.get(name, 0.0) for name in names) if in_trial else 0.0
        return sum(self.logs.get(name, 0.0) for name in names) + flattery

    def reading(self, settings: Settings, count: int, in_trial: bool = False) -> list[tuple[float, float]]:
        luck = self.log_of(settings, in_trial) + self.random.gauss(0, 0.01)
        return [(STEP_SECONDS, STEP_SECONDS * math.exp(-luck - self.random.gauss(0, 0.02))) for _ in range(count)]


class FakeSource:
    """Measures trials."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def measure(self, settings: Settings, name: str, enough: Enough, timeout_seconds: float) -> Reading | Failure:
        self.truth.spent += TRIAL_SECONDS
        pairs = self.truth.reading(settings, 8, in_trial=True)
        turns = tuple(Turn((other,)) for _, other in pairs)
        return Reading(Measurement(3.0, (STEP_SECONDS,), turns), turns, pairs, trusted=True)


class Pairs:
    """Measures pairs."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def measure(self, settings: Settings, seed: int, steps: int | None) -> PairReading | Failure:
        truth = self.truth
        if truth.left <= 0:
            return Failure("hung", "no answer")
        truth.spent += PAIR_SECONDS + (TRAINING_SECONDS if steps else 0.0)
        if truth.diverges and truth.diverges.items() <= settings.items():
            return Failure("diverged", "its loss is no longer a finite number")
        drop = 0.1 if truth.drops and truth.drops.items() <= settings.items() else 0.0
        seed_of = random.Random(f"{seed} {sorted(changed(settings, BASELINE))}")  # the same settings, the same metric
        metrics = (0.9, 0.9 - drop - seed_of.gauss(0, truth.scatter))
        trained = TrainedPair(metrics) if steps else None
        lucky = changed(settings, BASELINE) in truth.not_faster
        return PairReading(truth.reading(BASELINE if lucky else settings, 8), True, trained)


class FakeProving:
    """Proves with pairs whose truth is known."""

    def __init__(self, truth: Truth, facts: TrainingFacts, search: Search) -> None:
        self.truth = truth
        self.facts = facts
        self.search = search
        self.prover = Prover(Pairs(truth), facts, truth, ignore)

    def needed(self, settings: Settings, speedup: float | None) -> float:
        return 4 * PAIR_SECONDS + (0.0 if is_exact(settings, BASELINE, ()) else 3 * TRAINING_SECONDS)

    def reserve(self, settings: Settings, speedup: float | None) -> float:
        truth = self.truth
        beyond_share = truth.budget_seconds - truth.search_seconds if self.search.trials else 0.0
        return max(min(0.6 * truth.budget_seconds, self.needed(settings, speedup)), beyond_share)

    def likely_seconds(self, settings: Settings, speedup: float | None = None) -> float:
        return self.needed(settings, speedup)

    @property
    def drift(self) -> float:
        return 0.0

    def extend_search(self) -> None:
        self.truth.search_seconds = math.inf

    def prove(self, contender: Contender, number: int, why: ProofReason) -> Attempt:
        truth, settings = self.truth, contender.settings
        plan = MetricPlan("whole", 200, pairs=3, max_pairs=6)
        rounds = truth.updates is not None and not why_not_by_rounding(contender.change)
        updates = (lambda: truth.updates) if rounds else None
        error = 0.05 * share_of_error(number)
        exact = is_exact(settings, BASELINE, ())
        metric = None if exact else MetricProof(self.facts, Constraint(0.01, False), plan, error, updates)
        rule = rule_for(number, self.search.knowledge.min_speedup(settings))
        before = truth.spent
        proof = self.prover.prove(settings, rule, metric)
        beyond = ("parallel.world_size",) if truth.updates is not None and not rounds and not exact else ()
        return Attempt(contender, proof, truth.spent - before, beyond_updates=beyond)

    def continue_search(self, settings: Settings) -> None:
        self.truth.continued.append(changed(settings, BASELINE))

    def spare_seconds(self, attempt: Attempt) -> float:
        return self.truth.left

    def begin_further_search(self, attempt: Attempt, settings: Settings) -> None:
        self.truth.searched_further = True

    def reserve_beside(self, attempt: Attempt) -> Reserve:
        held = attempt.contender.settings
        if not self.truth.others_fit:
            return lambda settings, speedup: 0.0 if settings == held else math.inf
        return lambda settings, speedup: 0.0 if settings == held else self.needed(settings, speedup)

    def keep(self, attempt: Attempt) -> None:
        self.truth.kept.append(changed(attempt.contender.settings, BASELINE))

    def break_down(self, attempt: Attempt) -> Breakdown:
        settings, truth = attempt.contender.settings, self.truth

        def contribution(name: str) -> Contribution:
            log = truth.log_of(settings) - truth.log_of({**settings, name: BASELINE[name]})
            low, high = math.exp(log - 0.1), math.exp(log + 0.1)
            return Contribution(name, settings[name], math.exp(log), low, high, truth.tells_contributions)

        return Breakdown(tuple(contribution(name) for name in changed(settings, BASELINE)))

    def missing(self, contender: Contender) -> Open:
        return Open(contender, "incomplete", 30.0)

    def refused(self, attempt: Attempt, search_continues: bool) -> None:
        self.truth.proven_in_vain.append(changed(attempt.contender.settings, BASELINE))


Play = Callable[[Truth], tuple[Settings | None, Search, Contest]]


@pytest.fixture
def play(facts: TrainingFacts) -> Play:
    """Return what searches and proves until something is proven, and returns what differs from the user's own then."""

    def played(truth: Truth) -> tuple[Settings | None, Search, Contest]:
        economy = Economy(truth.trainings, 20_000, STEP_SECONDS, 3.0, 0.0, TRIAL_SECONDS)
        candidates = [{**BASELINE, **CAST, **WORKERS, **RANKS}, {**BASELINE, **CAST, **WORKERS}, {**BASELINE, **CAST}]
        task = SearchTask(truth.space, BASELINE, economy, Prior(candidates, dict.fromkeys(SPACE.open, 0.3)))
        search = Search(task, Instruments(FakeSource(truth), truth, ignore, ignore))

        proving = FakeProving(truth, facts, search)
        contest = Contest(search, proving, truth)
        won = contest.run()
        assert won is not None
        return changed(won.attempt.contender.settings, BASELINE) if won.attempt else None, search, contest

    return played


def test_the_fastest_is_proven_where_nothing_speaks_against_it(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.2})
    found, _, contest = play(truth)
    assert found == {**CAST, **WORKERS, **RANKS}
    assert contest.number_of({}) == 1 and truth.proven_in_vain == []


SLOWED: dict[str, float] = {"precision.autocast=bfloat16": 0.5, "parallel.world_size=2": -0.25}
"""With ranks that all trials flatter: they look 1.5x as fast, and are 0.78x."""


def slowed() -> Truth:
    truth = Truth(SLOWED)
    truth.flattered = {"parallel.world_size=2": 0.65}
    return truth


def test_a_proven_recipe_without_a_setting_that_slows_it_down_is_proven_and_takes_its_place(play: Play) -> None:
    found, _, contest = play(slowed())
    assert found == CAST
    assert not contest.open


def seemingly_slowed() -> Truth:
    """Return one with ranks that trials flatter, and whose contribution of 0.97 may be 1.07."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": -0.3, "parallel.world_size=2": -0.03})
    truth.flattered = {"parallel.world_size=2": 0.65}
    return truth


def seemingly_slowed_by_workers() -> Truth:
    """Return one with loader workers, no riskier than the rest, that trials flatter; they contribute 0.88 to 1.07."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": -0.03, "parallel.world_size=2": -1.0})
    truth.flattered = {"loader.workers=2": 0.3}
    return truth


def test_a_setting_that_only_seems_to_slow_the_recipe_down_goes_if_that_saves_more_than_a_proof_takes(
    play: Play,
) -> None:
    """Each of 20 runs is 14 s shorter; the proof takes 76 s."""
    assert play(seemingly_slowed_by_workers())[0] == CAST


def test_otherwise_it_stays_and_nothing_is_left_open(play: Play) -> None:
    """Each of 2 runs is 14 s shorter; the proof takes 76 s."""
    truth = seemingly_slowed_by_workers()
    truth.trainings = 2
    found, _, contest = play(truth)
    assert found == {**CAST, **WORKERS}
    assert truth.kept == [found] and not contest.open


def test_what_slows_the_recipe_down_beyond_doubt_stays_as_well_where_a_proof_costs_more_than_it_saves(
    play: Play,
) -> None:
    truth = seemingly_slowed_by_workers()
    truth.trainings = 1
    truth.logs["loader.workers=2"] = -0.11
    assert play(truth)[0] == {**CAST, **WORKERS}


def test_without_time_for_that_nothing_is_left_open(play: Play) -> None:
    truth = seemingly_slowed()
    truth.budget_seconds = 160.0
    found, _, contest = play(truth)
    assert found == {**CAST, **RANKS}
    assert not contest.open


def test_a_setting_that_slows_the_recipe_down_stays_where_what_is_left_is_not_proven(play: Play) -> None:
    truth = slowed()
    truth.not_faster = (CAST,)
    found, _, _ = play(truth)
    assert found == {**CAST, **RANKS}
    assert truth.proven_in_vain == [CAST]


def test_without_time_to_prove_it_the_recipe_without_what_slows_it_down_is_left_open(play: Play) -> None:
    truth = slowed()
    truth.budget_seconds = 160.0
    found, _, contest = play(truth)
    assert found == {**CAST, **RANKS}
    assert [changed(one.contender.settings, BASELINE) for one in contest.open] == [CAST]


def cut_short() -> Truth:
    """Return one whose search has time for its first candidate only, which is not the best."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": -0.2})
    truth.search_seconds = TRIAL_SECONDS + 1
    truth.tells_contributions = False
    return truth


def test_a_search_that_has_found_nothing_goes_on_after_its_share(play: Play) -> None:
    """Half of a budget was left, and the one setting that all three trials had made them slow."""
    truth = cut_short()
    truth.logs["parallel.world_size=2"] = -1.0
    found, search, _ = play(truth)
    assert changed(search.trials[0].settings, BASELINE) == {**CAST, **WORKERS, **RANKS}
    assert found == {**CAST, **WORKERS}


def test_time_that_is_left_finds_and_proves_what_is_better(play: Play) -> None:
    """A U-Net's three trials and its proof took half of its budget, and all else remained untried."""
    truth = cut_short()
    found, search, _ = play(truth)
    assert found == {**CAST, **WORKERS}
    assert changed(search.trials[0].settings, BASELINE) == {**CAST, **WORKERS, **RANKS}
    assert truth.searched_further and truth.proven_in_vain == []


def test_what_a_proof_has_shown_of_settings_counts_in_the_search_after_it(play: Play) -> None:
    """Nothing seemed better than their lucky trial; elsewhere three trials measured again what was proven."""
    truth = cut_short()
    truth.flattered = {"parallel.world_size=2": 0.5}
    _, search, _ = play(truth)
    first, *further = [changed(trial.settings, BASELINE) for trial in search.trials]
    assert first == {**CAST, **WORKERS, **RANKS} and first not in further
    [known] = [one for one in search.ranking.contenders() if changed(one.settings, BASELINE) == first]
    assert known.log_speedup == pytest.approx(0.6, abs=0.2)  # its trial alone said 1.1


def test_for_another_trial_of_what_is_proven_there_is_no_time(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPT-2's recipe waited 43 seconds for one, as there was no time for anything else."""
    run, held, reserved = Search.run, {**BASELINE, **CAST, **WORKERS, **RANKS}, list[float]()

    def told(
        search: Search, reserve: Reserve, begin: Callable[[], None] | None = None, proofs: Proofs = FREE
    ) -> StopReason:
        reserved.append(reserve(held, None))
        return run(search, reserve, begin, proofs)

    monkeypatch.setattr(Search, "run", told)
    truth = cut_short()
    play(truth)
    before, after = reserved
    assert before < truth.budget_seconds and after == math.inf


def test_a_further_search_in_which_nothing_is_tried_is_not_told(play: Play) -> None:
    truth = cut_short()
    truth.others_fit = False
    found, search, _ = play(truth)
    assert found == {**CAST, **WORKERS, **RANKS}
    assert len(search.trials) == 1 and not truth.searched_further


def test_what_is_proven_is_kept_before_anything_better_is_looked_for(play: Play) -> None:
    truth = cut_short()
    play(truth)
    assert truth.kept == [{**CAST, **WORKERS, **RANKS}, {**CAST, **WORKERS}]


def test_what_is_refused_is_not_kept(play: Play) -> None:
    truth = slowed()
    truth.not_faster = ({**CAST, **RANKS},)
    found, _, _ = play(truth)
    assert {**CAST, **RANKS} in truth.proven_in_vain
    assert truth.kept[-1] == found and {**CAST, **RANKS} not in truth.kept


def test_a_recipe_without_what_slows_it_down_is_kept_in_its_place(play: Play) -> None:
    truth = slowed()
    play(truth)
    assert truth.kept == [{**CAST, **RANKS}, CAST]


def test_without_such_time_the_search_has_ended(play: Play) -> None:
    truth = cut_short()
    truth.budget_seconds = 160.0  # one proof takes about 80
    found, search, _ = play(truth)
    assert found == {**CAST, **WORKERS, **RANKS}
    assert len(search.trials) == 1 and not truth.searched_further


def test_what_was_proven_stays_where_what_seems_better_is_not(play: Play) -> None:
    truth = cut_short()
    truth.not_faster = ({**CAST, **WORKERS},)
    found, _, _ = play(truth)
    assert found == {**CAST, **WORKERS, **RANKS}
    assert truth.proven_in_vain == [{**CAST, **WORKERS}]


def test_of_two_that_are_proven_the_faster_is_the_recipe(play: Play) -> None:
    truth = cut_short()
    truth.logs["parallel.world_size=2"] = 0.1
    # A rival without it seems faster, and is proven, but is not.
    truth.flattered = {"loader.workers=2": 0.4, "parallel.world_size=2": -0.4}
    found, _, contest = play(truth)
    assert found == {**CAST, **WORKERS, **RANKS}
    assert truth.kept == [found]
    assert contest.number_of({}) == 3


def test_a_contribution_that_is_only_estimated_leaves_nothing_out(play: Play) -> None:
    truth = slowed()
    truth.tells_contributions = False
    assert play(truth)[0] == {**CAST, **RANKS}


def test_what_a_person_has_asked_for_stays_though_it_slows_the_recipe_down(play: Play) -> None:
    truth = slowed()
    casts = {"precision.autocast": SPACE.open["precision.autocast"]}
    truth.space = SearchSpace(name="test", open=casts, fixed=RANKS, closed={})
    assert play(truth)[0] == {**CAST, **RANKS}


def test_settings_that_add_nothing_are_left_out(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.0, "parallel.world_size=2": 0.005})
    assert play(truth)[0] == CAST


def test_after_a_drop_the_rival_without_what_dropped_it_is_proven(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.2, "parallel.world_size=2": 0.2})
    truth.drops = RANKS
    found, search, _ = play(truth)
    assert found == {**CAST, **WORKERS}
    assert {trial.settings["parallel.world_size"] for trial in search.trials if not trial.feasible} == {2}


def test_what_diverges_in_its_proof_is_refused_and_the_next_is_proven(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3})
    truth.diverges = CAST
    found, search, contest = play(truth)
    assert found == WORKERS
    assert all("precision.autocast" in change for change in truth.proven_in_vain)
    assert contest.number_of({}) == 1  # no speed was judged, so that no error was spent
    failed = [trial for trial in search.trials if isinstance(trial.outcome, Failure)]
    assert len(failed) == len(truth.proven_in_vain)
    values = {
        (one.knob, one.value): one for one in lost_values(SPACE, BASELINE, {**BASELINE, **WORKERS}, search.trials)
    }
    why = values["precision.autocast", "bfloat16"]
    assert (why.because, why.message) == ("failed in its proof", "its loss is no longer a finite number")


def test_an_exact_winner_that_diverges_is_refused_as_well(play: Play) -> None:
    """One of 1.55x was handed back. Only itself is out: what it shares with others changes no number."""
    truth = Truth({"precision.autocast=bfloat16": 0.2, "loader.workers=2": 0.5})
    truth.diverges = WORKERS
    assert play(truth)[0] == CAST


def test_a_metric_that_scatters_too_much_to_tell_leaves_what_changes_no_number(play: Play) -> None:
    """Whatever changes numbers scatters as much, so that nothing else of that kind is tried."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1, "parallel.world_size=2": 0.3})
    truth.scatter = 0.05
    found, _, contest = play(truth)
    assert found == WORKERS
    assert [left.result for left in contest.open] in (["metric unclear"], ["metric unclear"] * 2)
    assert len(truth.proven_in_vain) <= 2  # of each risk one


def test_what_updates_can_tell_is_proven_without_the_ranks_whose_runs_scatter_too_much(play: Play) -> None:
    """A BERT that begins to learn late: two ranks and bfloat16 were open, and bfloat16 alone was never proven."""
    truth = Truth({"precision.autocast=bfloat16": 0.4, "parallel.world_size=2": 0.3})
    truth.scatter, truth.updates = 0.05, RoundingEvidence("holds", "", 64, 3, 8)
    truth.space = msgspec.structs.replace(SPACE, risks={"parallel.world_size": "rounding"})
    found, _, contest = play(truth)
    assert found == CAST
    assert truth.proven_in_vain == [{**CAST, **RANKS}]
    assert [left.result for left in contest.open] == ["metric unclear"]


def test_after_a_metric_that_is_open_the_search_goes_on_with_what_changes_no_number(play: Play) -> None:
    """A ResNet at its first hundred steps: the run ended with four of ten minutes unspent."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1})
    truth.scatter = 0.02
    found, search, contest = play(truth)
    assert found == WORKERS
    assert contest.open[0].contender.settings["precision.autocast"] == "bfloat16"
    readings = Counter(settings_key(trial.settings) for trial in search.trials)
    assert max(readings.values()) <= 4  # then what is left of their processes' luck decides nothing
    last = max(trial.number for trial in search.trials if CAST.items() <= trial.settings.items())
    assert [changed(trial.settings, BASELINE) for trial in search.trials[last:]] == [WORKERS]
    assert truth.continued == [WORKERS]


def test_a_metric_that_scatters_too_much_leaves_what_only_rounds_if_updates_tell(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3, "parallel.world_size=2": 0.3})
    truth.scatter, truth.updates = 0.05, RoundingEvidence("holds", "", 64, 3, 8)
    assert play(truth)[0] == {**CAST, **WORKERS}
    assert truth.proven_in_vain == [{**CAST, **WORKERS, **RANKS}]


def test_what_does_more_than_round_is_out_with_all_that_contains_it_until_runs_may_tell(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.1})
    truth.scatter, truth.updates = 0.02, RoundingEvidence("too large", "its errors", 64, 3, 8)
    found, _, contest = play(truth)
    assert found == WORKERS
    assert len(truth.proven_in_vain) == 1 and CAST.items() <= truth.proven_in_vain[0].items()
    assert [left.result for left in contest.open] == ["more than rounding"]


def test_what_there_is_no_time_to_prove_any_more_is_left_over(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "parallel.world_size=2": 0.2}, budget_seconds=120.0)
    truth.drops = RANKS
    found, _, contest = play(truth)
    assert found is None and contest.open == []
    left = contest.left_over()
    assert left is not None and CAST.items() <= left.settings.items()
    assert left.settings["parallel.world_size"] == 1


def test_an_open_proof_of_an_earlier_part_comes_first_and_with_its_number(play: Play) -> None:
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3})
    found, _search, contest = play(truth)
    assert found is not None
    ranks: Settings = {**BASELINE, **RANKS, **CAST}
    results = [
        ContenderResult({**BASELINE, **CAST, **WORKERS}, 1, "not faster"),
        ContenderResult(ranks, 2, "metric unclear"),
    ]
    assert contest.take_over(Earlier(results, []))
    first = contest.next()
    assert first is not None and first.settings == ranks
    assert contest.number_of(ranks) == 2 and contest.number_of({**BASELINE, **WORKERS}) == 3
    second = contest.next()
    assert second is not None and second.settings not in [result.settings for result in results]
    assert not contest.take_over(Earlier([], []))


def test_what_there_is_no_time_to_prove_is_proven_without_what_needs_it(play: Play) -> None:
    """The metric of the best takes longer than what is left; what in it changes no number does not."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.3}, budget_seconds=70.0)
    assert play(truth)[0] == WORKERS


def test_the_last_contender_changes_no_number_if_one_is_left(play: Play) -> None:
    """Two that change numbers were refused: what is proven beats what is better and may not be."""
    truth = Truth({"precision.autocast=bfloat16": 0.5, "loader.workers=2": 0.2, "parallel.world_size=2": 0.4})
    truth.drops, truth.not_faster = RANKS, ({**CAST, **WORKERS},)
    assert play(truth)[0] == WORKERS
    assert truth.proven_in_vain == [{**CAST, **WORKERS, **RANKS}, {**CAST, **WORKERS}]


def test_a_run_that_saves_less_than_its_proof_takes_is_not_proven(play: Play) -> None:
    found, search, contest = play(Truth({"precision.autocast=bfloat16": 0.0}))
    assert found is None and contest.worth_proving() == []
    assert search.fastest_speedup < math.exp(provable_log())  # readings that are too small to be proven say enough
