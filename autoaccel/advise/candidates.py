"""Where experts would start: the settings that are tried first, best guess first."""

from __future__ import annotations

from collections.abc import Sequence

from autoaccel.advise.reach import WORTH_CASTING
from autoaccel.records.machine import Machine
from autoaccel.records.profile import Finding
from autoaccel.records.settings import Settings
from autoaccel.records.space import SearchSpace
from autoaccel.space.knobs import KnobContext, count_processes
from autoaccel.space.knobs.cpus import count_cores, fast_cpus_of, nodes_of
from autoaccel.space.knobs.data import steps_of_loading, times_faster, workers_ahead, workers_needed

_WAITS_FOR_DATA = 0.1  # share of the step from which on workers are the first thing to try,
_WILL_WAIT = 0.3  # and the same of the faster step
_FEW_LEFT = 4  # times the workers, from which number of cores on these take too few of them to give up threads for
_LAUNCHES = {"small-operators", "idle-gpu"}  # findings for which CUDA graphs are the remedy
_MANY_CORES = 16
"""From which on ranks are guessed to share them, on one memory node too: what one thread does of an operator while the
others wait takes as long as its parts. On the benchmark's two cores two ranks won up to 1.56-fold; more is a guess."""


def first_candidates(
    space: SearchSpace, context: KnobContext, baseline: Settings, findings: Sequence[Finding]
) -> list[Settings]:
    """Return settings worth trying first, each allowed by the space and none twice, the baseline not among them.

    What a step computes in is guessed from the processor: short types only where it has units for them, on GPUs TF32
    and compilation as well. Where it computes is guessed from the machine's parts: as many threads as a container's
    quota, one memory node or a rank for each, the faster kind of core. Where the step waits for data, each guess is
    tried with workers, also with the threads that these leave: workers need cores, and only the joint choice shows it.
    Wrong guesses cost a few trials, since the search continues from what it measures. On CPUs cheap ones come before
    those that must compile. docs/guesses.md compares them with what others recommend.
    """
    computes = _on_gpu(space, context, findings) if context.device == "cuda" else _on_cpu(space, context)
    fitting = _fitting_threads(context, baseline)
    # Where a wish rules the baseline's value out, the first of those that are left.
    left = {name: values[0] for name, values in space.open.items() if baseline[name] not in values}
    candidates: list[Settings] = []
    for number, compute in enumerate(computes):
        loads = _loads(space, context, findings, compute)
        for load in loads if number == 0 else loads[:1]:
            wished = _open_part({**fitting, **compute, **load}, space)
            candidate = space.settle({**baseline, **space.fixed, **left, **wished})
            if candidate != baseline and candidate not in candidates and space.allows(candidate):
                candidates.append(candidate)
    return candidates


def _on_cpu(space: SearchSpace, context: KnobContext) -> list[Settings]:
    """Return guesses for a CPU, those for memory nodes and kinds of core right behind the first.

    The others and their order are from the benchmark's own workloads: the best of five of its six tables (two cores) is
    one of these, that of the sixth one setting from one.
    """
    short = _short_type_without_gpu(space, context)
    layout: Settings = {"layout.channels_last": True}
    fused: Settings = {"optimizer.fused": True}
    # It is exact, and costs memory that the step needs anyway. Other accelerators have memory of their own.
    kept: Settings = {"memory.keep_freed": True} if context.device == "cpu" else {}
    best = {**short, **layout, **fused, **_place(context)}
    compiled: Settings = {"compile.mode": "default"}
    placed = _placements(space, context)
    one_node = _fits_one_node(context.machine)
    several = {} if one_node else next((part for part in placed if "parallel.world_size" in part), {})
    guesses: list[Settings] = [
        best,
        *({**best, **part} for part in placed),
        *([{**best, **several, **compiled}] if several or one_node else []),
        {**best, **several, **_libraries(space)},
        {**short, **layout},
        short,
        {"model.sparsity": 0.5},
        {**layout, **fused},  # no rate of matrix products tells what a short type does to other operators
        *(placed or [{"parallel.world_size": 2}]),
        {},
        {**best, **compiled},
        compiled,
    ]
    # What is left of a guess of which nothing is open would come before its turn.
    return [{**kept, **guess} for guess in guesses if not guess or _open_part(guess, space)]


def _open_part(wished: Settings, space: SearchSpace) -> Settings:
    return {name: value for name, value in wished.items() if value in space.open.get(name, ())}


def _short_type_without_gpu(space: SearchSpace, context: KnobContext) -> Settings:
    """Return the short type in which matrix products are fastest, where that is much faster than float32.

    Instructions alone do not say it: of two processors with AVX512_BF16, but without AMX, an EPYC (family 25, model 17)
    makes steps up to 1.9 times as fast in bfloat16 (grids of benchmarks/results/unseen.jsonl), and a Xeon (6, 207)
    takes twice as long for a matrix product. Where nobody measured, bfloat16 if there are instructions for it.
    """
    torch = context.machine.torch
    offered = space.open.get("precision.autocast", ())
    speedups = torch.product_speedups if torch is not None and context.device == "cpu" else {}
    if speedups:
        fastest = max((name for name in speedups if name in offered), key=speedups.__getitem__, default=None)
        return {"precision.autocast": fastest} if fastest and speedups[fastest] >= WORTH_CASTING else {}
    # Other accelerators train in whatever torch says.
    has_units = context.device != "cpu" or context.machine.cpu.has_bfloat16
    return {"precision.autocast": "bfloat16"} if has_units else {}


def _libraries(space: SearchSpace) -> Settings:
    """Return the OpenMP runtime and the allocator that guides recommend, of those that are here."""
    allocators = [value for value in space.open.get("memory.allocator", ()) if value in ("jemalloc", "tcmalloc")]
    return {"threads.openmp": "intel", **({"memory.allocator": allocators[-1]} if allocators else {})}


def _place(context: KnobContext) -> Settings:
    """Return where threads are kept on a server; nowhere on a small machine.

    On one memory node if all cores that may be kept busy fit into it, as PyTorch's guide advises (`numactl
    --cpunodebind`); else one to a core: the second threads of cores are left alone, as Intel's guide advises.
    """
    machine = context.machine
    if machine.limits.physical_cores < _MANY_CORES:
        return {}
    return {"threads.affinity": "node" if _fits_one_node(machine) else "cores"}


def _fits_one_node(machine: Machine) -> bool:
    nodes = nodes_of(machine)
    return len(nodes) > 1 and machine.usable_physical_cores <= max(count_cores(machine, node) for node in nodes)


def _placements(space: SearchSpace, context: KnobContext) -> list[Settings]:
    """Return ways to share out many cores, and to keep threads near their memory and on cores of one kind.

    With several memory nodes: a rank on each, as PyTorch's and Hugging Face's guides recommend for training, or the
    whole training on one. With cores of two kinds: the faster ones, because an operator's threads have equal parts and
    wait for the slowest.
    """
    machine, nodes = context.machine, nodes_of(context.machine)
    cores = machine.usable_physical_cores
    placed: list[Settings] = []
    if len(nodes) > 1:
        of_one = min(cores, max(count_cores(machine, node) for node in nodes))
        on_each: Settings = {"parallel.world_size": len(nodes)}
        apart: Settings = {"threads.affinity": "cores"}
        one_node: Settings = {"threads.affinity": "node", "threads.intra_op": of_one}
        placed = [{**on_each, **apart}, apart] if _fits_one_node(machine) else [on_each, one_node]
    elif cores >= _MANY_CORES:
        placed = [{"parallel.world_size": max(space.open.get("parallel.world_size", (1,)))}]
    fast = count_cores(machine, fast_cpus_of(machine))
    if fast < machine.limits.physical_cores:
        placed.append({"threads.affinity": "fast", "threads.intra_op": min(fast, cores)})
    return placed


def _on_gpu(space: SearchSpace, context: KnobContext, findings: Sequence[Finding]) -> list[Settings]:
    """Return guesses for NVIDIA GPUs: what PyTorch's guide advises, all together, on all GPUs, compiled, then alone."""
    tf32: Settings = {"precision.float32_matmul": "high", "precision.cudnn_benchmark": True}
    short: Settings = {"precision.autocast": _short_type(context)}
    best = {**tf32, **short, "layout.channels_last": True, "optimizer.fused": True}
    compiled: Settings = {"compile.mode": "default"}
    graphs: Settings = {"compile.mode": "reduce-overhead"}
    launches = any(finding.code in _LAUNCHES for finding in findings)
    together: Settings = {"parallel.world_size": max(space.open.get("parallel.world_size", (1,)))}
    return [
        best,
        {**best, **together},
        {**best, **compiled},
        {**best, **compiled, **together},
        *([{**best, **graphs}] if launches else []),
        short,
        tf32,
        {"optimizer.fused": True},
        compiled,
        {},
    ]


def _short_type(context: KnobContext) -> str:
    """Return bfloat16 where the GPU computes in it, else float16, which needs a scaler.

    torch emulates bfloat16 where it is missing, so that it trains everywhere; but its attention kernels do not.
    """
    torch = context.machine.torch
    if torch is None or "bfloat16" not in torch.autocast:
        return "float16"
    kernels = {name: dtypes for name, dtypes in torch.attention.items() if name != "math"}
    return "bfloat16" if not kernels or any("bfloat16" in dtypes for dtypes in kernels.values()) else "float16"


def _fitting_threads(context: KnobContext, baseline: Settings) -> Settings:
    """Return as many threads as there are cores, if the user's own are more: they wait for one another."""
    cores = context.machine.usable_physical_cores
    too_many = context.device == "cpu" and int(baseline.get("threads.intra_op", cores)) > cores
    return {"threads.intra_op": cores} if too_many else {}


def _loads(space: SearchSpace, context: KnobContext, findings: Sequence[Finding], compute: Settings) -> list[Settings]:
    """Return how batches may be loaded beside some guess: as they are, or by workers first if the step waits for them.

    Where workers take a good part of the cores, a guess is also tried with only the threads that they leave, and
    without workers: they may cost more than they save. Several ranks then load for themselves, each its share.
    """
    on_gpu = context.device == "cuda"
    copies: Settings = {"loader.pin_memory": True, "loader.non_blocking": True} if on_gpu else {}
    if not _will_wait(context, findings):
        return [copies]
    processes, cores = count_processes(compute), context.machine.usable_physical_cores
    count = _workers_for(space, context, processes)
    workers: Settings = {**copies, "loader.workers": count}
    if on_gpu or _FEW_LEFT * count < cores:
        return [workers]
    if 1 < processes >= count:
        return [copies]
    left = max(1, cores // 2, cores - count)
    fewer = sorted(int(value) for value in space.open.get("threads.intra_op", ()))[:-1]
    threads = [value for value in fewer if value <= left][-1:]
    return [workers, *({**workers, "threads.intra_op": value} for value in threads), copies]


def _will_wait(context: KnobContext, findings: Sequence[Finding]) -> bool:
    """Whether the step waits for its data, or will once others have made it faster, unless more workers load."""
    if any(finding.code == "data-wait" and finding.share >= _WAITS_FOR_DATA for finding in findings):
        return True
    workers = context.training.loader_workers if context.training is not None else 0
    steps = steps_of_loading(context, times_faster(context)) or 0.0
    return steps >= _WILL_WAIT and (workers_ahead(context) or 0) > workers


def _workers_for(space: SearchSpace, context: KnobContext, processes: int) -> int:
    """Return how many of the workers that are offered load for a step that other settings have made faster.

    On a CPU, which they share with the training, no more than half of the cores, or those that the step needs as it is
    and one more. Where nobody knows what loading takes, at least two.
    """
    offered = sorted(int(value) for value in space.open.get("loader.workers", (0,)))
    if context.device == "cuda":  # a GPU for each process: together they take batches as many times as fast
        wanted = workers_ahead(context, gpus=processes)
        most = offered[-1]
    else:
        wanted, needed = workers_ahead(context), workers_needed(context)
        most = max(2 if needed is None else needed + 1, context.machine.usable_physical_cores // 2)
    wanted = most if wanted is None else min(wanted, most)
    return next((value for value in offered if value >= wanted), offered[-1])
