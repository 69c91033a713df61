"""Knobs of data parallelism: how many processes train side by side, and how they agree on the gradients."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.settings import Value
from autoaccel.space.knobs.cpus import nodes_of, sockets_of
from autoaccel.space.knobs.knob import (
    NO_EFFECT_OF_ITS_OWN,
    ON,
    Clash,
    Knob,
    KnobContext,
    Need,
    always,
    baseline_threads,
    choices,
    equals,
    gpus_of,
    powers_of_two,
    switch,
    why_no_gpu,
)

_RANKS = Need("parallel.world_size", ON, "above 1")
_EFFECT = "autoaccel.runtime.knobs.parallel:"


def count_processes(settings: Mapping[str, Value]) -> int:
    """Return how many processes of one machine train side by side under these settings."""
    return int(settings.get("parallel.world_size", 1))


MIN_SAMPLES = 4
"""Of a batch for each rank. With fewer, most of a step is what does not depend on the samples (launching operators, the
update of all parameters, agreeing on gradients), and batch normalisation suffers: its error grows fast below about
eight samples (Wu and He, Group Normalization, 2018). A guess: where one sample fills a processor, fewer would do."""

_MANY_RANKS = 8
"""Tried where operators are so small that one thread is best for them, if the cores are so many. A guess: ranks beyond
those of memory nodes agree on gradients over one memory, and each holds the whole model."""


def _max_ranks(context: KnobContext) -> int:
    if context.device == "cpu":
        return context.machine.usable_cores
    return gpus_of(context)  # 0 on other accelerators: of these nobody has tried several


def _world_sizes(context: KnobContext) -> tuple[Value, ...]:
    """One; on GPUs powers of two, and all; on CPUs two, one for each memory node and each socket, and several.

    Several are as many as share the cores equally, for the slowest is waited for.
    """
    if context.device == "cpu":
        machine = context.machine
        cores = machine.usable_physical_cores
        several = max(count for count in range(1, _MANY_RANKS + 1) if cores % count == 0)
        counts = {2, len(nodes_of(machine)), len(sockets_of(machine)), several}
        counts = {count for count in counts if count <= cores}
    else:
        counts = {*powers_of_two(_max_ranks(context)), _max_ranks(context)}
    return tuple(sorted({1, *(count for count in counts if count > 1 and not _why_too_many(context, count))}))


def _why_too_many(context: KnobContext, ranks: int) -> str:
    """Return why so many ranks are not worth a trial; empty if they are."""
    batch = context.training.batch_size if context.training is not None else None
    if batch is not None and batch < MIN_SAMPLES * ranks:
        return f"a batch of {batch} samples leaves each of {ranks} ranks fewer than {MIN_SAMPLES}"
    if context.device != "cpu" or context.demand is None:
        return ""
    # The user's own training stays alive beside those of a trial.
    needed, there = (ranks + 1) * context.demand.peak_bytes, context.machine.usable_memory_bytes
    if needed > there:
        return f"{ranks} ranks beside your own training take up to {_gib(needed)}, but there are only {_gib(there)}"
    return ""


def _gib(count: int) -> str:
    return f"{count / 2**30:.3g} GiB"


def _why_no_more_ranks(context: KnobContext) -> str:
    return "" if len(_world_sizes(context)) > 1 else _why_too_many(context, 2) or "ranks would share one core"


def _have_no_thread(context: KnobContext, ranks: Value, threads: Value) -> bool:
    """Whether there are fewer threads than ranks: each has one all the same, so that it is another count's double."""
    declared = context.training.settings if context.training is not None else {}
    baseline = declared.get("threads.intra_op", baseline_threads(context))
    return context.device == "cpu" and threads != baseline and int(threads) < int(ranks)


def _why_one_rank(context: KnobContext) -> str:
    if context.machine.system not in ("Linux", "Darwin"):
        return f"autoaccel does not start ranks on {context.machine.system}"
    if context.training is not None and not context.training.batches_divisible:
        rule = "train_data must be a dataset, or loaders with batches of its samples"
        return context.training.loader_fixed or f"ranks cannot divide the batches: {rule}"
    if _max_ranks(context) < 2:
        return "this process may use only one core" if context.device == "cpu" else "there is only one GPU"
    return ""


def _why_no_keep(context: KnobContext) -> str:
    if reason := _why_one_rank(context):
        return reason
    if context.training is not None and not context.training.batch_adjustable:
        return "your own loader fixes the batch size: train_data must be a dataset"
    return ""


def _backends(context: KnobContext) -> tuple[Value, ...]:
    if context.device == "cuda":
        return ("nccl", "gloo")
    return ("gloo", "ccl") if "oneccl-bindings-for-pytorch" in context.machine.packages else ("gloo",)


def _default_backend(context: KnobContext) -> Value:
    return _backends(context)[0]


def _why_one_backend(context: KnobContext) -> str:
    if reason := _why_one_rank(context):
        return reason
    return (
        "" if len(_backends(context)) > 1 else "oneccl_bindings_for_pytorch, the only other backend, is not installed"
    )


def _why_no_nccl(context: KnobContext) -> str:
    return why_no_gpu(context) or _why_one_rank(context)


def _nccl(name: str, values: tuple[Value, ...], help: str, helps_when: str) -> Knob:
    """Return the knob of a variable that NCCL reads when ranks first meet."""
    return Knob(
        name=name,
        group="parallel",
        effect_stage="process",
        risk="rounding",  # sums are taken in another order
        help=help,
        helps_when=helps_when,
        effect=_EFFECT + "NcclVariable",
        values=choices(*values),
        usual=always("auto"),
        off="auto",
        why_unavailable=_why_no_nccl,
        environment=lambda value, context: {NCCL_VARIABLES[name]: str(value)},
        needs=(_RANKS, Need("parallel.backend", equals("nccl"), "nccl")),
    )


NCCL_VARIABLES = {
    "parallel.nccl_algorithm": "NCCL_ALGO",
    "parallel.nccl_protocol": "NCCL_PROTO",
    "parallel.nccl_channels": "NCCL_MIN_NCHANNELS",
}
"""Knob -> the variable that NCCL reads."""

_BOUND = "each rank is already bound to its own cores"

KNOBS = (
    Knob(
        name="parallel.world_size",
        group="parallel",
        effect_stage="model",
        risk="changes_training",  # batch normalisation sees a rank's samples only; all else is rounding
        divides_batches=True,
        help="number of processes that train in parallel, each with a share of the batch and of the cores, or with "
        "its own GPU; threads and loader workers are totals over all ranks",
        helps_when="operators too small for many threads, several memory nodes, or several GPUs",
        effect=_EFFECT + "WorldSize",
        values=_world_sizes,
        usual=always(1),
        off=1,
        why_unavailable=_why_one_rank,
        why_untried=_why_no_more_ranks,
        value_range=lambda context: (1, max(1, _max_ranks(context))),
        clashes=(
            Clash(ON, "threads.affinity", equals("node", "socket"), _BOUND),
            Clash(
                ON,
                "threads.intra_op",
                lambda threads: True,
                "each rank needs a thread of its own",
                where=_have_no_thread,
            ),
            Clash(ON, "threads.loader_cores", ON, _BOUND),
            Clash(ON, "threads.gomp_affinity", ON, _BOUND),
            Clash(ON, "threads.omp_proc_bind", ON, _BOUND),
            Clash(ON, "threads.kmp_affinity", ON, _BOUND),
            Clash(ON, "ipex.optimize", ON, "ipex replaces the parameters that the ranks synchronise"),
        ),
        # Two ranks on two cores, on the examples (benchmarks/results/ranks.jsonl): 0.41 to 1.56-fold, where batches are
        # small. More cores, and a batch that fills them, would change it.
        usual_effect=0.2,
    ),
    Knob(
        name="parallel.batch",
        group="parallel",
        effect_stage="data",
        risk="changes_training",
        help="split: the ranks share the training's own batch, and the mathematics is unchanged. keep: each rank "
        "has a whole batch, so a step sees more samples and an epoch has fewer steps",
        helps_when="keep: batches too small to be divided",
        effect=_EFFECT + "ParallelBatch",
        values=choices("split", "keep"),
        usual=always("split"),
        off="split",
        why_unavailable=_why_no_keep,
        needs=(_RANKS,),
    ),
    Knob(
        name="parallel.lr_rule",
        group="parallel",
        effect_stage="optimizer",
        risk="changes_training",
        help="how the learning rate scales with the larger batch: not at all, linearly (Goyal et al., 2017), or "
        "with its square root (Krizhevsky, 2014)",
        helps_when="linear for SGD, the square root for Adam",
        effect=_EFFECT + "ParallelLearningRate",
        values=choices("none", "linear", "sqrt"),
        usual=always("none"),
        off="none",
        why_unavailable=_why_no_keep,
        needs=(_RANKS, Need("parallel.batch", equals("keep"), "keep")),
    ),
    Knob(
        name="parallel.backend",
        group="parallel",
        effect_stage="process",
        risk="rounding",
        help="the library that all-reduces gradients among ranks",
        helps_when="ccl: Intel processors and networks; gloo on GPUs: NCCL does not work there",
        effect=_EFFECT + "Backend",
        values=_backends,
        usual=_default_backend,
        why_unavailable=_why_one_backend,
        needs=(_RANKS,),
    ),
    Knob(
        name="parallel.bucket_mb",
        group="parallel",
        effect_stage="model",
        risk="rounding",
        help="MiB of gradients that are sent in one bucket",
        helps_when="smaller: the first gradients are sent earlier; larger: fewer messages",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=choices(25, 1, 5, 100),
        usual=always(25),
        why_unavailable=_why_one_rank,
        value_range=lambda context: (1, 4096),
        needs=(_RANKS,),
    ),
    Knob(
        name="parallel.bucket_view",
        group="parallel",
        effect_stage="model",
        risk="exact",
        help="gradients are stored in the buckets that are sent, instead of being copied there",
        helps_when="many parameters: it saves a pass over the gradients, and their memory",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_one_rank,
        needs=(_RANKS,),
    ),
    Knob(
        name="parallel.static_graph",
        group="parallel",
        effect_stage="model",
        risk="rounding",
        help="ranks rely on every step using the same parameters in the same order",
        helps_when="many parameters: less bookkeeping, and buckets in the order of the backward pass",
        effect=NO_EFFECT_OF_ITS_OWN,
        values=switch,
        usual=always(False),
        off=False,
        why_unavailable=_why_one_rank,
        needs=(_RANKS,),
        clashes=(Clash(ON, "parallel.sync", equals("last"), "torch's static graph cannot skip a synchronisation"),),
    ),
    Knob(
        name="parallel.compression",
        group="parallel",
        effect_stage="model",
        risk="changes_training",
        help="the type in which gradients are sent",
        helps_when="the ranks wait for the network",
        effect=_EFFECT + "Compression",
        values=choices("off", "bfloat16", "float16"),
        usual=always("off"),
        off="off",
        why_unavailable=_why_one_rank,
        needs=(_RANKS,),
    ),
    Knob(
        name="parallel.sync",
        group="parallel",
        effect_stage="step",
        risk="rounding",
        help="in steps of several backward passes, whether ranks all-reduce after each pass or only after the last",
        helps_when="last: with gradient accumulation, gradients are sent once instead of several times",
        effect=_EFFECT + "Sync",
        values=choices("every", "last"),
        usual=always("every"),
        off="every",
        why_unavailable=_why_one_rank,
        needs=(_RANKS, Need("optimizer.accumulation", ON, "above 1")),
    ),
    _nccl(
        "parallel.nccl_algorithm",
        ("auto", "Ring", "Tree"),
        "the algorithm by which NCCL all-reduces gradients",
        "NCCL's own choice is wrong for this interconnect; trees have less latency on many machines",
    ),
    _nccl(
        "parallel.nccl_protocol",
        ("auto", "LL", "LL128", "Simple"),
        "the protocol by which NCCL detects that data has arrived",
        "LL: small messages; Simple: large ones",
    ),
    _nccl(
        "parallel.nccl_channels",
        ("auto", "4", "16"),
        "the minimum number of NCCL channels, each of which occupies a part of the GPU",
        "more: links are not saturated; fewer: computation is slowed down",
    ),
)
"""Those of data parallelism."""
