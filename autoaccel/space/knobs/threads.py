"""Knobs of threads: how many, on which cores, under which OpenMP runtime."""

from __future__ import annotations

from collections.abc import Mapping

from autoaccel.records.machine import Machine
from autoaccel.records.settings import Value
from autoaccel.space.knobs.data import why_no_loader
from autoaccel.space.knobs.knob import (
    Clash,
    Knob,
    Need,
    Place,
    always,
    choices,
    equals,
    is_on,
    powers_of_two,
)

CPUS_VARIABLE = "AUTOACCEL_CPUS"
"""Carries the CPUs that a process is to keep to, as Linux lists them: `0-3,8`."""

LOADER_CPUS_VARIABLE = "AUTOACCEL_LOADER_CPUS"
"""Carries the CPUs that are the loader's workers'."""

VARIABLES = {
    "threads.omp_proc_bind": "OMP_PROC_BIND",
    "threads.omp_places": "OMP_PLACES",
    "threads.omp_schedule": "OMP_SCHEDULE",
    "threads.omp_wait_policy": "OMP_WAIT_POLICY",
    "threads.gomp_affinity": "GOMP_CPU_AFFINITY",
    "threads.kmp_affinity": "KMP_AFFINITY",
    "threads.kmp_blocktime": "KMP_BLOCKTIME",
}
"""Knob -> the variable that an OpenMP runtime reads when it is loaded."""

_INTEL = Need("threads.openmp", equals("intel"), "intel")
_GNU = Need("threads.openmp", equals("gnu"), "gnu")


def _thread_values(place: Place) -> tuple[Value, ...]:
    """Powers of two, the physical cores and all usable cores, most first; the user's own choice among them."""
    most = place.machine.usable_cores
    physical = min(most, place.machine.limits.physical_cores)
    return tuple(sorted(powers_of_two(most) | {most, physical, _own_threads(place)}, reverse=True))


def _usual_threads(place: Place) -> int:
    return place.machine.torch.intra_op_threads if place.machine.torch else place.machine.usable_cores


def _own_threads(place: Place) -> int:
    return int(place.found.get("threads.intra_op", _usual_threads(place)))


def _why_one_core(place: Place) -> str:
    return "" if len(_thread_values(place)) > 1 else "this process may use one core only"


def _usual_inter_op(place: Place) -> int:
    return place.machine.torch.inter_op_threads if place.machine.torch else place.machine.usable_cores


def _own_inter_op(place: Place) -> int:
    return int(place.found.get("threads.inter_op", _usual_inter_op(place)))


def _why_no_affinity(place: Place) -> str:
    if place.machine.system != "Linux":
        return f"{place.machine.system} does not bind processes to cores"
    if len(_affinity_values(place)) == 1:
        return "every core that this process may use is one of its kind: there is nothing to choose"
    return ""


def _affinity_values(place: Place) -> tuple[Value, ...]:
    """None, and each of the others that keeps to fewer CPUs than all, no two the same."""
    everything = place.machine.limits.affinity
    found: dict[tuple[int, ...], str] = {everything: "none"}
    for name in ("cores", "compact", "spread", "node"):
        found.setdefault(cpus_of(name, place.machine), name)
    return tuple(found.values())


def cpus_of(affinity: str, machine: Machine) -> tuple[int, ...]:
    """Return the logical CPUs of a value of `threads.affinity`, ascending; of a list, those in it.

    cores: one logical CPU of every core. compact: the first half of the cores, next to each other. spread: half of
    the cores, evenly over all memory nodes. node: all CPUs of the memory node that has most of them.
    """
    allowed = machine.limits.affinity
    cores = machine.limits.cores or tuple((cpu,) for cpu in allowed)
    nodes: list[list[int]] = [[cpu for cpu in node.cpus if cpu in allowed] for node in machine.cpu.numa_nodes]
    nodes = nodes or [list(allowed)]
    half = max(1, len(cores) // 2)
    if affinity == "none":
        return allowed
    if affinity == "cores":
        return tuple(sorted(core[0] for core in cores))
    if affinity == "compact":
        return tuple(sorted(core[0] for core in cores[:half]))
    if affinity == "spread":
        by_node = [[core[0] for core in cores if core[0] in node] for node in nodes]
        turns = [cpu for rank in range(len(cores)) for node in by_node for cpu in node[rank : rank + 1]]
        return tuple(sorted(turns[:half]))
    if affinity == "node":
        largest = max(nodes, key=len)
        return tuple(sorted(largest))
    return parse_cpus(affinity)


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs in a list such as `0-3,8`, ascending; none if it is no such list."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else True)):
            return ()
        found.update(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(found))


def format_cpus(cpus: tuple[int, ...]) -> str:
    """Return a list of CPUs as Linux writes it: `0-3,8`."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _affinity_environment(value: Value, place: Place) -> Mapping[str, str]:
    return {} if value == "none" else {CPUS_VARIABLE: format_cpus(cpus_of(str(value), place.machine))}


def _why_wrong_cpus(value: Value, place: Place) -> str:
    cpus = parse_cpus(str(value))
    allowed = place.machine.limits.affinity
    return "" if cpus and set(cpus) <= set(allowed) else f"a list of CPUs among {format_cpus(allowed)}, such as 0-1"


def _openmp_values(place: Place) -> tuple[Value, ...]:
    found = {library.name for library in place.machine.openmp}
    return ("gnu", "intel") if "libiomp5" in found else ("gnu",)


def _why_one_openmp(place: Place) -> str:
    if place.machine.system != "Linux":
        return f"on {place.machine.system} no runtime can be preloaded"
    return "" if len(_openmp_values(place)) > 1 else "Intel's runtime is not here: pip install 'autoaccel[intel]'"


def _openmp_environment(value: Value, place: Place) -> Mapping[str, str]:
    paths = {library.name: library.path for library in place.machine.openmp}
    return {"LD_PRELOAD": paths["libiomp5"]} if value == "intel" and "libiomp5" in paths else {}


def _loader_cores_values(place: Place) -> tuple[Value, ...]:
    cores = max(len(place.machine.limits.cores), 1)
    return (0, *(count for count in (1, 2, 4) if count < cores))


def _why_no_loader_cores(place: Place) -> str:
    if place.machine.system != "Linux":
        return f"{place.machine.system} does not bind processes to cores"
    if reason := why_no_loader(place):
        return reason
    return "" if len(_loader_cores_values(place)) > 1 else "this process may use one core only"


def _loader_cores_environment(value: Value, place: Place) -> Mapping[str, str]:
    cores = place.machine.limits.cores
    kept = tuple(sorted(cpu for core in cores[len(cores) - int(value) :] for cpu in core)) if value else ()
    return {LOADER_CPUS_VARIABLE: format_cpus(kept)} if kept else {}


def _variable(name: str, values: tuple[Value, ...], help: str, helps_when: str, need: Need | None = None) -> Knob:
    """Return the knob of a variable that the OpenMP runtime reads when it is loaded."""
    return Knob(
        name=name,
        group="threads",
        stage="environment",
        risk="rounding",  # another share of the work for each thread adds up in another order
        help=help,
        helps_when=helps_when,
        effect="autoaccel.runtime.knobs.threads:OpenMpVariable",
        values=lambda place: values,
        usual=always("unset"),
        why_unavailable=_why_one_openmp if need is _INTEL else _why_one_core,
        environment=lambda value, place: {} if value == "unset" else {VARIABLES[name]: str(value)},
        needs=(need,) if need else (),
    )


def _all_cpus(value: Value, place: Place) -> Mapping[str, str]:
    return {"GOMP_CPU_AFFINITY": format_cpus(place.machine.limits.affinity)} if value else {}


_BOUND = "threads are bound in one way only"

KNOBS = (
    Knob(
        name="threads.intra_op",
        group="threads",
        stage="process",
        risk="rounding",  # sums are split over threads: another count rounds them in another order
        help="threads that share the work of one operator",
        helps_when="fewer than all cores: small operators, loader workers or neighbours that need cores",
        effect="autoaccel.runtime.knobs.threads:IntraOpThreads",
        values=_thread_values,
        usual=_usual_threads,
        why_unavailable=_why_one_core,
        environment=lambda value, place: {"OMP_NUM_THREADS": str(value), "MKL_NUM_THREADS": str(value)},
        limits=lambda place: (1, max(place.machine.usable_cores, _own_threads(place))),
        # One thread instead of two, on the benchmark's six tables: root mean square 0.42, from 0.58 to 1.15-fold.
        # Less was set, because most cores are many and one more or less of them matters less.
        usual_effect=0.3,
    ),
    Knob(
        name="threads.inter_op",
        group="threads",
        stage="process",
        risk="rounding",
        help="threads for operators that run side by side",
        helps_when="the model forks work itself (torch.jit.fork, several backward streams); else it changes nothing",
        effect="autoaccel.runtime.knobs.threads:InterOpThreads",
        values=lambda place: tuple(sorted({_own_inter_op(place), 1}, reverse=True)),
        usual=_usual_inter_op,
        why_unavailable=lambda place: "" if _own_inter_op(place) > 1 else "there is one already",
        limits=lambda place: (1, max(place.machine.usable_cores, _own_inter_op(place))),
    ),
    Knob(
        name="threads.affinity",
        group="threads",
        stage="process",
        risk="rounding",
        help="which of the usable CPUs the process keeps to: one of each core, half of the cores close together or "
        "far apart, one memory node, or an explicit list such as 0-3",
        helps_when="hyper-threads or several memory nodes: threads that share a core, or reach across, wait",
        effect="autoaccel.runtime.knobs.threads:Affinity",
        values=_affinity_values,
        usual=always("none"),
        why_unavailable=_why_no_affinity,
        environment=_affinity_environment,
        why_wrong=_why_wrong_cpus,
    ),
    Knob(
        name="threads.loader_cores",
        group="threads",
        stage="process",
        risk="rounding",
        help="cores that are left to the loader's workers and that the training keeps off",
        helps_when="workers and training fight for the same cores",
        effect="autoaccel.runtime.knobs.threads:LoaderCores",
        values=_loader_cores_values,
        usual=always(0),
        why_unavailable=_why_no_loader_cores,
        environment=_loader_cores_environment,
        needs=(Need("loader.workers", lambda value: int(value) > 0, "above 0"),),
        clashes=(Clash(is_on, "threads.affinity", is_on, _BOUND), Clash(is_on, "threads.gomp_affinity", is_on, _BOUND)),
    ),
    Knob(
        name="threads.openmp",
        group="threads",
        stage="launch",
        risk="rounding",
        help="the OpenMP runtime that shares work among threads: GNU's, which comes with torch, or Intel's",
        helps_when="many short parallel regions on a CPU, together with its own settings",
        effect="autoaccel.runtime.knobs.threads:OpenMpRuntime",
        values=_openmp_values,
        usual=always("gnu"),
        why_unavailable=_why_one_openmp,
        environment=_openmp_environment,
    ),
    _variable(
        "threads.omp_proc_bind",
        ("unset", "close", "spread"),
        "whether each OpenMP thread stays where it is put, close to the others or spread out",
        "many cores or several memory nodes, and nothing else that wants the same cores",
    ),
    _variable(
        "threads.omp_places",
        ("unset", "cores", "threads"),
        "what an OpenMP thread is bound to: a core or a hyper-thread",
        "hyper-threads, together with a binding",
        Need("threads.omp_proc_bind", is_on, "not unset"),
    ),
    _variable(
        "threads.omp_schedule",
        ("unset", "static", "dynamic", "guided"),
        "how loops that leave it to the environment are split over threads",
        "hardly ever: torch's own loops say how they are split",
    ),
    _variable(
        "threads.omp_wait_policy",
        ("unset", "active", "passive"),
        "whether idle threads spin or sleep between parallel regions",
        "active: cores to itself; passive: loader workers or neighbours need them",
        _GNU,
    ),
    Knob(
        name="threads.gomp_affinity",
        group="threads",
        stage="environment",
        risk="rounding",
        help="GNU's runtime binds thread i to the i-th usable CPU (GOMP_CPU_AFFINITY)",
        helps_when="cores to itself",
        effect="autoaccel.runtime.knobs.threads:OpenMpVariable",
        values=choices(False, True),
        usual=always(False),
        why_unavailable=_why_one_core,
        environment=_all_cpus,
        needs=(_GNU,),
        clashes=(
            Clash(is_on, "threads.omp_proc_bind", is_on, _BOUND),
            Clash(is_on, "threads.affinity", is_on, _BOUND),
        ),
    ),
    _variable(
        "threads.kmp_affinity",
        ("unset", "granularity=fine,compact,1,0", "granularity=fine,scatter", "disabled"),
        "where Intel's runtime binds its threads",
        "cores to itself; compact,1,0 puts one thread on each core before it uses hyper-threads",
        _INTEL,
    ),
    _variable(
        "threads.kmp_blocktime",
        ("unset", "0", "1", "infinite"),
        "how many milliseconds a thread of Intel's runtime spins before it sleeps; unset is 200",
        "1: short regions one after another; 0: others need the cores",
        _INTEL,
    ),
)
"""Those of threads."""
