"""Knobs of threads: how many, and on which cores."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.by_hand import ByHand
from autoaccel.records.settings import Value
from autoaccel.space.knobs.cpus import (
    cores_of,
    count_cores,
    cpus_of,
    fast_cpus_of,
    format_cpus,
    nodes_of,
    sockets_of,
)
from autoaccel.space.knobs.data import threads_beside_loading, why_no_loader
from autoaccel.space.knobs.knob import (
    ON,
    Clash,
    Knob,
    KnobContext,
    Need,
    always,
    baseline_threads,
    usual_threads,
)

CPUS_VARIABLE = "AUTOACCEL_CPUS"
"""Carries the CPUs that a process is to keep to, as Linux lists them: `0-3,8`."""

LOADER_CPUS_VARIABLE = "AUTOACCEL_LOADER_CPUS"
"""Carries the CPUs that are the loader's workers'."""

_FEW = 4  # threads: where fewer are best on a machine of many cores, one is nearly as good


_OWN_THREADS = (1, 1024)
"""As many as torch starts on the largest machines; on small ones they are slow, and work."""


def _thread_values(context: KnobContext) -> tuple[Value, ...]:
    """The user's own count and those that the computer's parts suggest, most first.

    These are its cores (of a container no more than its quota), those of one memory node, of one socket and of the
    faster kind, and those that loader workers leave; and fewer for small operators: half of the cores, quarters of that
    down to four, and one. Threads that share a core do not compute more, and are not worth a trial. Where an
    accelerator computes, one.
    """
    machine, baseline = context.machine, baseline_threads(context)
    if context.device != "cpu":
        return tuple(sorted({baseline, 1}, reverse=True))
    cores = machine.usable_physical_cores
    parts = [max(count_cores(machine, cpus) for cpus in group) for group in (nodes_of(machine), sockets_of(machine))]
    counts = {cores, count_cores(machine, fast_cpus_of(machine)), *parts, cores // 2, 1}
    fewer = cores // 8
    while fewer >= _FEW:
        counts.add(fewer)
        fewer //= 4
    if computing := threads_beside_loading(context):
        counts.add(computing)
    return tuple(sorted({baseline, *(count for count in counts if 1 <= count <= cores)}, reverse=True))


def why_one_core(context: KnobContext) -> str:
    """Return why there is nothing to divide among threads; empty if there is."""
    return (
        "" if max(context.machine.usable_cores, baseline_threads(context)) > 1 else "this process may use only one core"
    )


def _why_one_thread(context: KnobContext) -> str:
    return "" if len(_thread_values(context)) > 1 else "several threads on one core compute no more than one does"


def _usual_inter_op(context: KnobContext) -> int:
    return context.machine.torch.inter_op_threads if context.machine.torch else context.machine.usable_cores


def _baseline_inter_op(context: KnobContext) -> int:
    return int(context.found.get("threads.inter_op", _usual_inter_op(context)))


def _why_no_affinity(context: KnobContext) -> str:
    return "" if context.machine.system == "Linux" else f"{context.machine.system} cannot bind processes to cores"


def _why_any_core(context: KnobContext) -> str:
    if len(_affinity_values(context)) > 1:
        return ""
    if context.device != "cpu":
        return "the accelerator computes, and there is one memory node"
    return "all cores that this process may use are of one kind, on one memory node, without hyper-threads"


def _affinity_values(context: KnobContext) -> tuple[Value, ...]:
    """None, and each of the others that keeps to fewer CPUs than all, no two the same."""
    found = {context.machine.limits.affinity: "none"}
    for name in ("cores", "fast", "node", "socket") if context.device == "cpu" else ("node",):
        found.setdefault(cpus_of(name, context.machine, _gpu_of(context)), name)
    return tuple(found.values())


def _gpu_of(context: KnobContext) -> str:
    """Return the UUID of the GPU that a training in one process uses; empty if that is none, or not told."""
    if context.device != "cuda" or context.machine.torch is None:
        return ""
    number, shown = context.torch_device.partition(":")[2], context.machine.torch.gpus
    index = int(number) if number.isdecimal() else 0
    return shown[index] if index < len(shown) else ""


def _are_more_than_cores(context: KnobContext, threads: Value, affinity: Value) -> bool:
    cpus = cpus_of(str(affinity), context.machine, _gpu_of(context))
    return context.device == "cpu" and int(threads) > count_cores(context.machine, cpus)


def _affinity_environment(value: Value, context: KnobContext) -> Mapping[str, str]:
    cpus = cpus_of(str(value), context.machine, _gpu_of(context))
    return {CPUS_VARIABLE: format_cpus(cpus)}


def _why_wrong_cpus(value: Value, context: KnobContext) -> str:
    cpus = cpus_of(str(value), context.machine)  # also of a word that is not worth a trial here
    allowed = context.machine.limits.affinity
    return "" if cpus and set(cpus) <= set(allowed) else f"a list of CPUs among {format_cpus(allowed)}, such as 0-1"


def _loader_cores_values(context: KnobContext) -> tuple[Value, ...]:
    cores = len(cores_of(context.machine))
    return (0, *(count for count in (1, 2, 4) if count < cores))


def _why_no_loader_cores(context: KnobContext) -> str:
    if context.machine.system != "Linux":
        return f"{context.machine.system} cannot bind processes to cores"
    if reason := why_no_loader(context):
        return reason
    return "" if len(_loader_cores_values(context)) > 1 else "this process may use only one core"


def _loader_cores_environment(value: Value, context: KnobContext) -> Mapping[str, str]:
    cores = cores_of(context.machine)
    kept = sorted(cpu for core in cores[len(cores) - int(value) :] for cpu in core)
    return {LOADER_CPUS_VARIABLE: format_cpus(tuple(kept))} if kept else {}


BOUND_TWICE = "threads can be bound in only one way"
"""Why two settings clash that both say where threads run."""

KNOBS = (
    Knob(
        name="threads.intra_op",
        group="threads",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",  # sums are split over threads: another count rounds them in another order
        help="number of threads that share the work of one operator",
        helps_when="fewer than all cores: small operators, loader workers or neighbours that need cores",
        effect="autoaccel.runtime.knobs.threads:IntraOpThreads",
        values=_thread_values,
        usual=usual_threads,
        why_unavailable=why_one_core,
        why_untried=_why_one_thread,
        environment=lambda value, context: {"OMP_NUM_THREADS": str(value), "MKL_NUM_THREADS": str(value)},
        value_range=lambda context: (1, max(context.machine.usable_cores, baseline_threads(context))),
        own_range=_OWN_THREADS,
        clashes=(
            Clash(
                lambda threads: True,
                "threads.affinity",
                ON,
                "threads that share a core wait for each other: use no more threads than cores in the affinity",
                where=_are_more_than_cores,
            ),
        ),
        # One thread instead of two, on the benchmark's six tables: root mean square 0.42, from 0.58 to 1.15-fold.
        # Less was set, because most cores are many and one more or less of them matters less.
        usual_effect=0.3,
    ),
    Knob(
        name="threads.inter_op",
        group="threads",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help="number of threads for operators that run in parallel",
        helps_when="the model forks work itself (torch.jit.fork, several backward streams); otherwise no effect",
        effect="autoaccel.runtime.knobs.threads:InterOpThreads",
        by_hand=lambda value, device: ByHand("start", f"torch.set_num_interop_threads({value})"),
        values=lambda context: tuple(sorted({_baseline_inter_op(context), 1}, reverse=True)),
        usual=_usual_inter_op,
        why_unavailable=lambda context: "" if _baseline_inter_op(context) > 1 else "there is one already",
        value_range=lambda context: (1, max(context.machine.usable_cores, _baseline_inter_op(context))),
        own_range=_OWN_THREADS,
    ),
    Knob(
        name="threads.affinity",
        group="threads",
        effect_stage="process",
        acts_in=("loop", "script"),
        risk="rounding",
        help="the usable CPUs to which the process is bound: one of each core (cores), those of faster cores "
        "(fast), one memory node (node; with a GPU, the nearest), one socket (socket), half of the cores close "
        "together (compact) or far apart (spread), or an explicit list such as 0-3",
        helps_when="hyper-threads, several memory nodes, cores of two kinds: threads that share a core, reach across, "
        "or are slower, keep the others waiting",
        effect="autoaccel.runtime.knobs.threads:Affinity",
        values=_affinity_values,
        usual=always("none"),
        off="none",
        why_unavailable=_why_no_affinity,
        why_untried=_why_any_core,
        environment=_affinity_environment,
        why_wrong=_why_wrong_cpus,
    ),
    Knob(
        name="threads.loader_cores",
        group="threads",
        effect_stage="process",
        risk="rounding",
        help="number of cores reserved for the loader's workers, which the training does not use",
        helps_when="workers and training compete for the same cores",
        effect="autoaccel.runtime.knobs.threads:LoaderCores",
        values=_loader_cores_values,
        usual=always(0),
        off=0,
        why_unavailable=_why_no_loader_cores,
        environment=_loader_cores_environment,
        needs=(Need("loader.workers", ON, "above 0"),),
        clashes=(Clash(ON, "threads.affinity", ON, BOUND_TWICE), Clash(ON, "threads.gomp_affinity", ON, BOUND_TWICE)),
    ),
)
"""Those of threads, whatever the runtime that shares work among them."""
