"""Search on machines that are only recorded, by a model of each whose best settings are known: 200 trainings on each.

    python -m benchmarks.studies.simulated_machines.measure [--searches 200] [NAME ...]

The machines are those of tests/machine/recorded, the trainings are drawn by chance (machine_model.py). Space, rules,
narrowing, first guesses and search are those of `autoaccel tune`; a reading has the noise of one process. Each
search may make 12 trials. The best that it has tried, and what it would prove, are held against the best of all
settings in its space, and of all counts of threads, ranks and workers besides, by the planned run that the model tells.
Rows of 200 searches or more go to benchmarks/results/simulated_machines.jsonl; what is there of today's code is not
simulated again unless it is named.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from autoaccel.advise.bounds import OTHERS_SPEEDUP
from autoaccel.advise.candidates import first_candidates
from autoaccel.advise.findings import advise
from autoaccel.advise.observations import Observations
from autoaccel.records.base import decode
from autoaccel.records.conditions import Loader, Optimizer, TrainingConditions
from autoaccel.records.conditions import Model as ModelFacts
from autoaccel.records.machine import Machine
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.profile import Demand, Finding, Profile
from autoaccel.records.progress import ignore
from autoaccel.records.settings import Settings, describe_change, settings_key
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Measurement
from autoaccel.records.workload import TrainingFacts
from autoaccel.search.economy import Economy
from autoaccel.search.instruments import Instruments, QuickLook, Reading
from autoaccel.search.loop import Search
from autoaccel.search.task import SearchTask, expect
from autoaccel.space.knobs import KnobContext, baseline_settings, compiled_part
from autoaccel.space.knobs.parallel import MIN_SAMPLES
from autoaccel.space.narrow import narrow
from autoaccel.space.search_space import load_space
from autoaccel.statistics.comparison import NOISE_THRESHOLD, PROCESS_DEVIATION
from autoaccel.statistics.runs import WARM_SHARE, CompileSeconds
from benchmarks.harness.command_line import make_parser
from benchmarks.harness.rows import ROOT, add_row, provenance, to_measure
from benchmarks.studies.simulated_machines.model import Model, Work, draw_work
from benchmarks.studies.tables.simulate import ROOMS

RECORDED = ROOT / "tests" / "machine" / "recorded"
CODE = (
    *(f"autoaccel/{room}" for room in ROOMS),
    "search_spaces",
    "benchmarks/studies/simulated_machines/model.py",
    "benchmarks/studies/simulated_machines/measure.py",
    "tests/machine/recorded",
)
SEARCHES = 200  # on each machine, for a row
TRIALS = 12
FIRST_SEED = 1000  # trainings of seeds below were looked at while guesses and constants were chosen
TRAININGS = 20  # as `autoaccel tune` reckons unless told
RUN_SECONDS = 3600.0  # planned, under the user's own settings
CLOSE = 0.95  # of the best run's speed
_TURN_DEVIATION = 0.05  # of a turn's logarithm, beside its process's luck
_TURN_SECONDS = 1.0
_PEAK_BYTES = 3 << 30  # of one process

FACTS = TrainingFacts(
    metric="accuracy",
    direction="maximize",
    epochs=10,
    steps_per_epoch=1000,
    batch_size=64,
    parameters=10**7,
    device="cpu",
    settings={},
    optimizer="AdamW",
    optimizer_has_fused=True,
    has_image_convolutions=True,
    has_convolutions=True,
    loader_adjustable=True,
    loader_workers=0,
    loader_pins_memory=False,
    batch_adjustable=True,
    batches_divisible=True,
    dataset_bytes=None,
    optimizer_has_foreach=True,
    prunable_layers=10,
)


def recorded_machines() -> dict[str, Machine]:
    """Return the recorded machines by name."""
    return {path.stem: decode(path.read_bytes(), Machine) for path in sorted(RECORDED.glob("*.json"))}


class SimulatedClock:
    """A clock that only measuring moves, in a budget that never ends: the number of trials is what counts."""

    left = math.inf

    def __init__(self) -> None:
        self.spent = 0.0


class ModelSource:
    """Measures settings as the model tells, with the noise of a process and of its turns."""

    def __init__(self, model: Model, baseline: Settings, clock: SimulatedClock, seed: int) -> None:
        self._model = model
        self._baseline_seconds = model.step_seconds(baseline)
        self._clock = clock
        self._random = random.Random(seed)
        self._compiled: set[str] = set()  # parts that an earlier process has left in the cache

    def compare(self, settings: Settings, look: QuickLook) -> Reading | Failure:
        """Take turns with the user's own settings until they are enough."""
        luck = math.exp(self._random.gauss(0, PROCESS_DEVIATION))
        seconds = self._model.step_seconds(settings) * luck
        start, compiling = self._model.start_seconds(settings), self._compile_seconds(settings)
        self._clock.spent += start + compiling
        pairs: list[tuple[float, float]] = []
        while not look.enough(pairs):
            for _ in range(2):
                pairs.append((self._baseline_seconds, seconds * math.exp(self._random.gauss(0, _TURN_DEVIATION))))
                self._clock.spent += 2 * _TURN_SECONDS
        measured = Measurement(start, (seconds + compiling,), tuple(Turn((other,)) for _, other in pairs))
        return Reading(measured, tuple(Turn((baseline,)) for baseline, _ in pairs), pairs, trusted=True)

    def _compile_seconds(self, settings: Settings) -> float:
        """Return what compiling takes a process that finds what earlier ones have compiled."""
        part, cold = settings_key(compiled_part(settings)), self._model.compile_seconds(settings)
        share = WARM_SHARE if part in self._compiled else 1.0
        self._compiled.add(part)
        return share * cold


@dataclass(frozen=True)
class Case:
    """A training on a machine, as a search finds it after its profile."""

    context: KnobContext
    model: Model
    baseline: Settings
    findings: tuple[Finding, ...]
    space: SearchSpace
    planned_steps: int  # of a run that takes an hour under the user's own settings

    def run_seconds(self, settings: Settings) -> float:
        """Return what the planned run takes under these settings, on average over all that share a compiler cache."""
        model, cold = self.model, self.model.compile_seconds(settings)
        return (
            model.start_seconds(self.baseline)
            + CompileSeconds(cold, WARM_SHARE * cold).average(TRAININGS)
            + self.planned_steps * model.step_seconds(settings)
        )


def make_case(machine: Machine, seed: int, work: Work | None = None) -> Case:
    """Return a training that is drawn by chance, or this one, on a machine: profiled and with its space narrowed."""
    assert machine.torch is not None
    facts = msgspec.structs.replace(FACTS, device=machine.torch.device)
    work = work or draw_work(machine, facts, seed)
    model = Model(machine, work)
    baseline = baseline_settings(KnobContext(machine, work.facts))
    demand = Demand(
        step_seconds=sum(seconds for part, seconds in model.parts(baseline).items() if part != "wait"),
        peak_bytes=_PEAK_BYTES,
        loading_seconds=work.loading_seconds,
        busy_seconds=work.loading_seconds * (1 - work.asleep),
    )
    context = KnobContext(machine, work.facts, demand)
    observed = Observations(profile_of(model, baseline), machine, conditions_of(work), training=work.facts)
    findings = tuple(advise(observed))
    space = load_space("default", context)
    space = narrow(space, baseline, findings, 1 + NOISE_THRESHOLD / OTHERS_SPEEDUP)
    return Case(context, model, baseline, findings, space, max(100, round(RUN_SECONDS / model.step_seconds(baseline))))


def profile_of(model: Model, baseline: Settings) -> Profile:
    """Return what a profile of the model's own step would show."""
    parts, work = model.parts(baseline), model.work
    whole = sum(parts.values())
    share = {part: seconds / whole for part, seconds in parts.items()}
    computing = share["dense"] + share["moving"] + share["launching"]
    kind = "convolution" if work.facts.has_image_convolutions else "matmul"
    return Profile(
        step_seconds=whole,
        samples_per_second=None,
        phases={
            "data wait": share["wait"],
            "host to device": share.get("copying", 0.0),
            "forward": computing / 3,
            "backward": 2 * computing / 3,
            "optimizer": share["update"],
            "other": share["python"] + share["agreeing"],
        },
        operators=(),
        groups={kind: share["dense"] / computing, "elementwise": 1 - share["dense"] / computing},
        peak_bytes=_PEAK_BYTES,
        parameters=round(work.parameter_bytes / 4),
        steps=20,
    )


def conditions_of(work: Work) -> TrainingConditions | None:
    """Return what is told of a training on a GPU, where some rules ask for it."""
    if work.facts.device == "cpu":
        return None
    return TrainingConditions(
        date="2026-11-01",
        environment={},
        batch_samples=work.facts.batch_size or 0,
        batch_bytes=round(work.batch_bytes),
        batch_dtypes=("float32",),
        device=work.facts.device,
        threads=1,
        torch_version="2.13.0",
        anomaly_mode=False,
        deterministic=False,
        fills_memory=False,
        profilers=(),
        autocast=False,
        flushes_denormals=False,
        gradients=True,
        float32_matmul="highest",
        cuda_available=True,
        model=ModelFacts({"float32": 1.0}, False, False, 0.5, 0.0, 0.0, 100),
        optimizer=Optimizer("AdamW", fused=False, foreach=True),
        loader=Loader(0, False, False, 2),
    )


def search(case: Case, seed: int, trials: int = TRIALS) -> Search:
    """Search as `autoaccel tune` does, without the proof, for so many trials at most."""
    model, baseline = case.model, case.baseline
    economy = Economy(
        trainings=TRAININGS,
        planned_steps=case.planned_steps,
        step_seconds=model.step_seconds(baseline),
        startup_seconds=model.start_seconds(baseline),
        compile_seconds=0.0,
        trial_seconds=model.start_seconds(baseline) + 16 * _TURN_SECONDS,
    )
    prior = expect(case.space, case.context, baseline, case.findings)
    task = SearchTask(case.space, baseline, economy, prior, seed, trials)
    clock = SimulatedClock()
    source = ModelSource(model, baseline, clock, seed)
    found = Search(task, Instruments(source.compare, clock, ignore, ignore))
    found.run(lambda settings, speedup: 0.0)
    return found


def best_of(case: Case) -> Settings:
    """Return the settings with the shortest run: of the whole space, then of all counts and places besides."""
    best = min(_every(case.space), key=case.run_seconds, default=case.baseline)
    for _ in range(2):  # counts of threads, ranks and workers depend on one another
        best = min((best, *_other_counts(case, best)), key=case.run_seconds)
    return best


def _every(space: SearchSpace) -> Iterator[Settings]:
    for values in itertools.product(*space.open.values()):
        settings = {**space.fixed, **dict(zip(space.open, values, strict=True))}
        if space.allows(settings):
            yield space.settle(settings)


def _other_counts(case: Case, settings: Settings) -> Iterator[Settings]:
    """Yield the settings with every other count of threads and ranks and every place for them, or of workers."""
    machine, open_knobs = case.context.machine, case.space.open
    cores = machine.usable_physical_cores
    most = min(cores, (case.context.training.batch_size or 0) // MIN_SAMPLES) if case.context.training else 1
    on_gpu = case.context.device == "cuda"
    ranks = range(1, most + 1) if "parallel.world_size" in open_knobs and not on_gpu else ()
    affinities = ("none", "cores", "fast", "node", "socket") if "threads.affinity" in open_knobs else ("none",)
    for threads, count, affinity in itertools.product(range(1, cores + 1), ranks, affinities):
        if threads >= count and not (count > 1 and affinity in ("node", "socket")):
            yield {
                **settings,
                "threads.intra_op": threads,
                "parallel.world_size": count,
                "threads.affinity": affinity,
            }
    if "loader.workers" in open_knobs:
        yield from ({**settings, "loader.workers": workers} for workers in range(cores + 1))


class SimulatedSearch(NamedTuple):
    """What one search came to."""

    share: float  # speed of the run that it would prove first, of the best's
    reached: float  # the same of the best run that it tried
    best_speedup: float  # of the best run, over that of the user's own settings
    trials: int


def simulate(machine: Machine, seed: int, trials: int = TRIALS) -> SimulatedSearch:
    """Return what a search comes to for one training that is drawn by chance."""
    case = make_case(machine, seed)
    found = search(case, seed, trials)
    found_best = found.best.settings if found.best else case.baseline
    best, baseline = case.run_seconds(best_of(case)), case.run_seconds(case.baseline)
    tried = min([baseline, *(case.run_seconds(trial.settings) for trial in found.trials)])
    return SimulatedSearch(best / case.run_seconds(found_best), best / tried, baseline / best, len(found.trials))


def unprofiled(machine: Machine) -> tuple[KnobContext, Settings, SearchSpace]:
    """Return the context, own settings and space of convolutions on batches of 64, before their profile."""
    assert machine.torch is not None
    context = KnobContext(machine, msgspec.structs.replace(FACTS, device=machine.torch.device))
    baseline = baseline_settings(context)
    return context, baseline, load_space("default", context)


def first_guesses(machine: Machine, count: int = 3) -> list[str]:
    """Return what would be tried first there."""
    context, baseline, space = unprofiled(machine)
    return [
        describe_change(candidate, baseline) for candidate in first_candidates(space, context, baseline, ())[:count]
    ]


def main(arguments: Sequence[str]) -> None:
    """Simulate; write the rows."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--searches", type=int, default=SEARCHES)
    parsed = parser.parse_args(arguments)
    machines = recorded_machines()
    if unknown := set(parsed.names) - machines.keys():
        parser.error(f"NAME must be one of {', '.join(machines)}, got {', '.join(sorted(unknown))}")
    for name in parsed.names or to_measure("simulated_machines", machines):
        start, made = time.perf_counter(), provenance(CODE)
        searches = [simulate(machines[name], FIRST_SEED + number) for number in range(parsed.searches)]
        shares = sorted(one.share for one in searches)
        _, _, space = unprofiled(machines[name])
        found = {
            "searches": len(searches),
            "trials": TRIALS,
            "close": statistics.fmean(share >= CLOSE for share in shares),
            "reached": statistics.fmean(one.reached >= CLOSE for one in searches),
            "tenth_share": shares[len(shares) // 10],
            "median_share": statistics.median(shares),
            "median_trials": statistics.median(one.trials for one in searches),
            "median_best_speedup": statistics.median(one.best_speedup for one in searches),
            "space": {knob: list(values) for knob, values in space.open.items()},
            "size": space.size,
            "first_guesses": first_guesses(machines[name]),
            "seconds": time.perf_counter() - start,
        }
        print(
            f"{name:14} {found['reached']:.1%} of {len(shares)} tried settings within {1 - CLOSE:.0%} of the best, "
            f"{found['close']:.1%} would prove such, a tenth below "
            f"{found['tenth_share']:.2f}; best {found['median_best_speedup']:.2f}x; {found['size']:,} settings; "
            f"{found['seconds']:.0f} s",
            flush=True,
        )
        if parsed.searches >= SEARCHES:
            add_row("simulated_machines", name, found, made=made)


if __name__ == "__main__":
    main(sys.argv[1:])
