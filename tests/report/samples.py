"""A run as the report sees it: bfloat16 with channels last wins, one trial fails, one drops the metric."""

from __future__ import annotations

from autoaccel.records.accuracy import Accuracy
from autoaccel.records.advice import Advice, Diagnosis
from autoaccel.records.conditions import MachineConditions
from autoaccel.records.knob import KnobRow
from autoaccel.records.machine import Cache, Cpu, Library, Machine, NumaNode, ProcessLimits, TorchFacts
from autoaccel.records.messages import Failure, Turn
from autoaccel.records.options import TuneOptions
from autoaccel.records.profile import Finding, MemoryPeak, ModuleTime, OperatorShare, Profile, PythonFunction
from autoaccel.records.progress import (
    BaselineMeasured,
    Event,
    Note,
    PairFinished,
    RunStarted,
    StageStarted,
    TrialFinished,
    TrialStarted,
)
from autoaccel.records.rates import Ceilings, Rates, Roofline
from autoaccel.records.recipe import (
    SCHEMA,
    Baseline,
    Constraint,
    Contribution,
    Projection,
    Recipe,
    SearchSummary,
    StageTimes,
    ValueResult,
)
from autoaccel.records.request import Request
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.records.trial import Comparison, Measurement, Trial, Verdict
from autoaccel.records.workload import BuildFunction

BASELINE: Settings = {
    "threads.intra_op": 2,
    "loader.workers": 0,
    "layout.channels_last": False,
    "optimizer.fused": False,
    "precision.autocast": "off",
    "compile.mode": "off",
}
WINNER: Settings = {**BASELINE, "precision.autocast": "bfloat16", "layout.channels_last": True}
BASELINE_STEP_SECONDS = 0.0291
PLANNED_STEPS = 23_450
HOSTILE_MESSAGE = "RuntimeError: <script>alert('x')</script> & [bold]not markup[/bold] \x1b[2J"


def comparison(
    speedup: float, low: float, high: float, verdict: Verdict = "faster", pairs: int = 1, turns: int = 12
) -> Comparison:
    return Comparison(
        speedup=speedup, low=low, high=high, verdict=verdict, confidence=0.95, process_pairs=pairs, turns=turns
    )


def measured(
    number: int,
    settings: Settings,
    speedup: float,
    low: float,
    high: float,
    verdict: Verdict = "faster",
    feasible: bool = True,
) -> Trial:
    step_seconds = BASELINE_STEP_SECONDS / speedup
    compile_seconds = 21.4 if settings["compile.mode"] != "off" else 0.1
    return Trial(
        number=number,
        settings=settings,
        outcome=Measurement(
            startup_seconds=3.1,
            warmup_step_seconds=(step_seconds + compile_seconds, step_seconds),
            turns=(Turn(step_seconds=(step_seconds,) * 3, peak_bytes=412 * 2**20),),
        ),
        spent_seconds=11.2,
        comparison=comparison(speedup, low, high, verdict),
        step_seconds=step_seconds,
        total_seconds=3.1 + compile_seconds + PLANNED_STEPS * step_seconds,
        feasible=feasible,
    )


def failed(number: int, settings: Settings) -> Trial:
    return Trial(
        number=number,
        settings=settings,
        outcome=Failure(
            kind="raised",
            message=HOSTILE_MESSAGE,
            traceback='Traceback (most recent call last):\n  File "digits.py", line 31, in build\n    <b>boom</b>',
            log_tail="epoch 1 loss 2.30\nepoch 1 loss \x1b[31mnan",
        ),
        spent_seconds=4.0,
    )


TRIALS: tuple[Trial, ...] = (
    measured(1, {**BASELINE, "precision.autocast": "bfloat16"}, 1.31, 1.24, 1.39),
    measured(2, {**BASELINE, "compile.mode": "default"}, 0.64, 0.61, 0.68, "slower"),
    measured(3, WINNER, 1.52, 1.44, 1.59),
    failed(4, {**BASELINE, "precision.autocast": "float16", "compile.mode": "default"}),
    measured(5, {**WINNER, "threads.intra_op": 1, "loader.workers": 2}, 1.19, 1.08, 1.31),
    measured(6, {**WINNER, "precision.autocast": "float16"}, 1.55, 1.46, 1.62, feasible=False),
    measured(7, {**BASELINE, "optimizer.fused": True}, 1.01, 0.96, 1.07, "within noise"),
    measured(8, {**WINNER, "optimizer.fused": True}, 1.48, 1.35, 1.61),
    measured(
        9,
        {**WINNER, "optimizer.fused": True, "loader.workers": 1, "compile.mode": "default"},
        0.88,
        0.8,
        0.95,
        "slower",
    ),
)
BEST = TRIALS[2]

ACCURACY = Accuracy(
    metric="test_accuracy",
    direction="maximize",
    baseline=0.9741,
    recipe=0.9736,
    drop=0.0005,
    drop_high=0.0021,
    repeats=3,
    share=0.25,
    baseline_runs=(0.9738, 0.9744, 0.9741),
    recipe_runs=(0.9736, 0.9731, 0.9741),
)
PROOF = comparison(1.5, 1.45, 1.56, pairs=5, turns=100)

EVENTS: tuple[Event, ...] = (
    RunStarted(workload="/home/ada/digits.py", output="/home/ada/autoaccel-runs/digits-1", budget_seconds=600.0),
    StageStarted("hardware", "what this computer can do"),
    StageStarted("baseline", "your own settings"),
    BaselineMeasured(BASELINE, BASELINE_STEP_SECONDS, 3.2 + PLANNED_STEPS * BASELINE_STEP_SECONDS),
    StageStarted("profile", "where the time of a step goes"),
    Note("loader.workers is not searched: the step waits 0.4% of its time for data."),
    StageStarted("search", "72 combinations of 5 knobs"),
    *(
        event
        for trial in TRIALS
        for event in (
            TrialStarted(trial.number, trial.settings),
            TrialFinished(trial, TRIALS[0] if trial.number < 3 else BEST),
        )
    ),
    TrialStarted(10, {**WINNER, "threads.intra_op": 1}),
)
"""The run in the middle of its search, trial 10 on its way."""

LATER_EVENTS: tuple[Event, ...] = (
    StageStarted("confirm", "fresh processes, in turns with the baseline"),
    PairFinished(1, 16, WINNER, None),
    PairFinished(4, 16, WINNER, comparison(1.49, 1.4, 1.58, pairs=4, turns=40), ACCURACY),
)

MACHINE = Machine(
    system="Linux",
    architecture="x86_64",
    python="3.11.9",
    cpu=Cpu(
        model="Intel(R) Xeon(R) Platinum 8481C",
        sockets=1,
        physical_cores=4,
        logical_cores=8,
        numa_nodes=(NumaNode(0, tuple(range(8))),),
        caches=(Cache(1, "data", 49_152, 4), Cache(2, "unified", 2 * 2**20, 4), Cache(3, "unified", 105 * 2**20, 1)),
        features=("avx2", "avx512f", "avx512_bf16", "amx_bf16"),
    ),
    limits=ProcessLimits(affinity=(0, 1), physical_cores=2, cpu_quota=2.0, memory_bytes=8 * 2**30, cgroup_version=2),
    memory_bytes=32 * 2**30,
    gpus=(),
    compiler="/usr/bin/g++",
    openmp=(Library("libgomp", "/usr/lib/libgomp.so.1"),),
    allocators=(Library("jemalloc", "/usr/lib/libjemalloc.so.2"),),
    torch=TorchFacts(
        version="2.13.0+cpu",
        intra_op_threads=2,
        inter_op_threads=2,
        cpu_capability="AVX512",
        device="cpu",
        device_name="CPU",
        autocast=("bfloat16", "float16"),
        fused_optimizer=True,
    ),
)

PROFILE = Profile(
    step_seconds=BASELINE_STEP_SECONDS,
    samples_per_second=64 / BASELINE_STEP_SECONDS,
    phases={
        "data wait": 0.004,
        "host to device": 0.0,
        "forward": 0.336,
        "backward": 0.588,
        "optimizer": 0.051,
        "other": 0.021,
    },
    operators=(
        OperatorShare("aten::convolution_backward", "convolution", 0.392, 2.0),
        OperatorShare("aten::mkldnn_convolution", "convolution", 0.225, 2.0),
        OperatorShare("aten::max_pool2d_with_indices_backward", "pooling", 0.091, 2.0),
        OperatorShare("aten::addmm", "matmul", 0.062, 2.0),
        OperatorShare("aten::mm", "matmul", 0.051, 3.0),
    ),
    groups={"convolution": 0.617, "pooling": 0.15, "matmul": 0.113, "elementwise": 0.081, "other": 0.039},
    peak_bytes=398 * 2**20,
    parameters=421_642,
    steps=120,
    traced_step_seconds=1.25 * BASELINE_STEP_SECONDS,
    python=(
        PythonFunction("Digits.__getitem__", "digits.py:31", 64.0, 0.021, 0.013),
        PythonFunction("build.<locals>.loss", "digits.py:58", 1.0, 0.4, 0.002),
    ),
    modules=(
        ModuleTime("", "Sequential", 0.006, 0.0001, 1.0),
        ModuleTime("0", "Conv2d", 0.0042, 0.0042, 1.0),
    ),
    memory=MemoryPeak(41 * 2**20, "backward"),
)

FINDINGS: tuple[Finding, ...] = (
    Finding(
        code="dense-compute",
        title="convolutions, matrix products and attention take 67.5% of the step; another type or layout reaches all "
        "of forward and backward (92.4%)",
        share=0.924,
        bound_speedup=13.2,
        knobs=("precision.autocast", "layout.channels_last"),
        expected_speedup=1.4,
        advice="A shorter floating-point type, and channels last for images, are what speeds these up.",
    ),
    Finding(
        code="optimizer",
        title="the optimizer takes 5.1% of the step",
        share=0.051,
        bound_speedup=1.054,
        knobs=("optimizer.fused",),
        expected_speedup=1.02,
        advice="A fused optimizer makes a single pass over the parameters.",
    ),
)

CEILINGS = Ceilings(
    rates=Rates("cpu", 2, {"float32": 1e11, "bfloat16": 4e11}, {"float32": 1e11}, 1e10, 1 << 28),
    roofline=Roofline(10**9, 4.0, 3e10, 4e10, 0.002, 12.0, "memory"),
)

DIAGNOSIS = Diagnosis(FINDINGS, PROFILE, CEILINGS)

ADVICE = Advice(
    findings=FINDINGS,
    profile=PROFILE,
    machine=MACHINE,
    ceilings=CEILINGS,
    conditions=None,
    machine_conditions=MachineConditions(None, None, None, None, 0, 0.0, 8 << 30, 0.0, 0.0, 0, ()),
)

NOT_SEARCHED = {
    "loader.workers": "the step waits 0.4% of its time for data: at most 1.004x faster",
    "loader.pin_memory": "there is no accelerator to copy to",
}
SPACE = SearchSpace("default", {}, {}, NOT_SEARCHED)

RECIPE = Recipe(
    schema=SCHEMA,
    created="2026-11-03T14:02:11Z",
    summary="1.50x faster steps (1.45 to 1.56) with bfloat16 autocast and channels last; test_accuracy is kept.",
    workload=BuildFunction(
        path="/home/ada/digits.py", entry="build", sha256="9f" * 32, arguments=("--data", "/data/my digits")
    ),
    machine=MACHINE,
    settings=WINNER,
    baseline=Baseline(
        settings=BASELINE,
        step_seconds=BASELINE_STEP_SECONDS,
        startup_seconds=3.1,
        compile_seconds=0.1,
        samples_per_second=64 / BASELINE_STEP_SECONDS,
        peak_bytes=398 * 2**20,
    ),
    comparison=PROOF,
    constraint=Constraint(max_drop=0.005, relative=False),
    accuracy=ACCURACY,
    projection=Projection(
        planned_steps=PLANNED_STEPS,
        startup_seconds=3.3,
        compile_seconds=0.4,
        step_seconds=0.0194,
        total_seconds=3.3 + 0.4 + PLANNED_STEPS * 0.0194,
        baseline_total_seconds=3.2 + PLANNED_STEPS * BASELINE_STEP_SECONDS,
        break_even_steps=31,
    ),
    search=SearchSummary(
        trials=9,
        failed=1,
        infeasible=1,
        spent_seconds=571.0,
        budget_seconds=600.0,
        seed=0,
        space="CPU training",
        ended="no further trial was expected to save more time than it takes",
        stop="nothing pays",
        trainings=20,
        proven_after_seconds=83.0,
        disturbed_share=0.04,
        spent_on={"measured steps": 240.0, "warm-up steps": 31.0, "start-up": 60.0, "everything else": 240.0},
        importance={"precision.autocast": 0.58, "compile.mode": 0.31, "layout.channels_last": 0.11},
        values=(
            ValueResult("precision.autocast", "float16", 2, 1.55, "the metric may drop more than allowed"),
            ValueResult("compile.mode", "default", 3, 0.88, "slower than your own settings in every trial"),
            ValueResult("loader.workers", 4, 0, None, "out of budget: <i>the time</i> was needed for the proof"),
        ),
        stages=(
            StageTimes("hardware", 6.9, 6.9),
            StageTimes("baseline", 4.0, 4.4),
            StageTimes("search", 240.0, 71.0),
        ),
    ),
    contributions=(
        Contribution("precision.autocast", "bfloat16", 1.33, 1.27, 1.39, True),
        Contribution("layout.channels_last", True, 1.14, 1.05, 1.24, False),
    ),
    versions={"autoaccel": "0.1.0", "torch": "2.13.0+cpu", "optuna": "5.0.0", "python": "3.11.9"},
)

REQUEST = Request(
    workload=RECIPE.workload,
    budget_seconds=600.0,
    constraint=RECIPE.constraint,
    options=TuneOptions(
        budget=600.0, max_drop=0.005, fixed=["optimizer.fused=off"], excluded=["compile.mode"], output="run", seed=3
    ),
)

NOTHING_FASTER = Recipe(
    schema=SCHEMA,
    created="2026-11-03T14:02:11Z",
    summary="Nothing that was tried is proven faster than your own settings.",
    workload=RECIPE.workload,
    machine=MACHINE,
    settings=BASELINE,
    baseline=RECIPE.baseline,
    comparison=comparison(1.0, 1.0, 1.0, "within noise", pairs=0, turns=0),
    constraint=RECIPE.constraint,
    accuracy=None,
    projection=Projection(
        planned_steps=PLANNED_STEPS,
        startup_seconds=3.1,
        compile_seconds=0.1,
        step_seconds=BASELINE_STEP_SECONDS,
        total_seconds=RECIPE.projection.baseline_total_seconds,
        baseline_total_seconds=RECIPE.projection.baseline_total_seconds,
    ),
    search=RECIPE.search,
    versions=RECIPE.versions,
)

KNOB_ROWS: tuple[KnobRow, ...] = (
    KnobRow(
        name="precision.autocast",
        group="precision",
        values=("off", "bfloat16", "float16"),
        default="off",
        effect_stage="step",
        risk="rounding",
        available=True,
        reason="",
        help="matrix products and convolutions run in a shorter floating-point type",
        helps_when="they dominate and the processor computes in that type",
    ),
    KnobRow(
        name="loader.pin_memory",
        group="loader",
        values=(False, True),
        default=False,
        effect_stage="data",
        risk="exact",
        available=False,
        reason="there is no accelerator to copy to",
        help="batches are put in page-locked memory, from which an accelerator copies faster",
        helps_when="large batches are copied to a GPU",
    ),
)
